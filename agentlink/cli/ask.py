"""Asking the person at the terminal. Nothing is decided by default: an empty line leaves it open."""

import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence

import anyio

from agentlink.cli.output import say
from agentlink.cli.pending_text import item_lines, question_lines
from agentlink.cli.plain_text import safe
from agentlink.core.supervision.interactions import Answer, Outcome, Pending, Question

Read = Callable[[str], Awaitable[str | None]]
"""Shows a prompt and gives the line that the person wrote; None at the end of input."""

_NUMBERS = re.compile(r"\d+(?:[\s,]+\d+)*")
_MOST = 64 << 10


def forget_typed() -> None:
    """Drops what was typed before a question was shown: it cannot be an answer to it."""
    if sys.platform != "win32":
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line(prompt: str) -> str | None:
    """A line from the terminal; the wait for it can be cancelled."""
    forget_typed()
    print(safe(prompt), end="", file=sys.stderr, flush=True)
    if sys.platform == "win32":
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        return line.rstrip("\r\n") if line else None
    data = b""
    while not data.endswith(b"\n") and len(data) < _MOST:
        await anyio.wait_readable(sys.stdin.fileno())
        part = os.read(sys.stdin.fileno(), 4096)
        if not part:
            break
        data += part
    return data.decode("utf-8", "replace").rstrip("\r\n") if data else None


async def ask_approval(read: Read, item: Pending) -> Outcome | None:
    """What the person decides about a tool call; None leaves it pending."""
    for line in item_lines(item):
        say(line)
    while True:
        said = ((await read("allow once? [y/N, Enter leaves it pending] ")) or "").strip().lower()
        if said in ("y", "yes"):
            return "allow_once"
        if said in ("n", "no"):
            return "reject"
        if not said:
            return None
        say("  y allows this one call, n rejects it, Enter leaves it pending")


async def ask_questions(read: Read, item: Pending) -> list[Answer] | None:
    """The person's answers to all questions of an item; None leaves it pending."""
    if not item.questions:
        say(f"question {item.request_id} is of a form that cannot be shown here: answer it in DSH Web")
    say(safe(f"question {item.request_id}  (Enter leaves it pending, - skips a question)"))
    answers = []
    for question in item.questions:
        answer = await _ask(read, question)
        if answer is None:
            return None
        answers.append(answer)
    return answers or None


async def _ask(read: Read, question: Question) -> Answer | None:
    for line in question_lines(question, numbered=True):
        say(line)
    while True:
        said = ((await read(_prompt(question))) or "").strip()
        if not said:
            return None
        if said == "-":
            return Answer(question.id)
        if not question.options or _NUMBERS.fullmatch(said) is None:
            return Answer(question.id, custom=said)
        chosen = [int(number) for number in re.split(r"[\s,]+", said)]
        problem = _problem(question, chosen)
        if problem is None:
            return Answer(question.id, tuple(question.options[number - 1].label for number in chosen))
        say(f"  {problem}")


def _prompt(question: Question) -> str:
    if not question.options:
        return "  your answer: "
    return "  numbers, or your own text: " if question.multi_select else "  a number, or your own text: "


def _problem(question: Question, chosen: Sequence[int]) -> str | None:
    if not all(1 <= number <= len(question.options) for number in chosen):
        return f"there are 1 to {len(question.options)}"
    if len(chosen) > 1 and not question.multi_select:
        return "only one can be chosen"
    return "chosen twice" if len(set(chosen)) < len(chosen) else None
