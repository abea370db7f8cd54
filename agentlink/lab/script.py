"""What the scripted model says next, as pure functions over a conversation.

The words of the script are in `agentlink.lab.model`; here they become steps, and a request
becomes a turn: which prompt is being answered, and how many answers it already has.
"""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

TITLE = "Lab session"
_REPLY_LIMIT = 200
_OPENING = re.compile(r"\[\[(say|tool|slow|error|hang|max-tokens)(?=[\]:])(?::\s*)?")
_TOOL_NAME = re.compile(r"[\w.:/-]+")
# Hosts put their own notes among the user's messages; without the session log only the text tells.
_NOTES = (
    "Current runtime context.",
    "Time sampled while preparing",
    "<system-reminder>",
    "Your parent agent id is ",
)


class Say(Struct, frozen=True):
    """Answer with this text."""

    text: str


class CallTool(Struct, frozen=True):
    """Ask for one tool call; `arguments` is JSON text."""

    name: str
    arguments: str


class Slow(Struct, frozen=True):
    """Answer with this text, in pieces spread over some seconds."""

    text: str
    seconds: float


class Fail(Struct, frozen=True):
    """Answer with an HTTP error."""

    status: int


class Hang(Struct, frozen=True):
    """Send this text and never end the answer."""

    text: str


class CutOff(Struct, frozen=True):
    """Answer with this text and say that the token limit ended it."""

    text: str


Step: TypeAlias = Say | CallTool | Slow | Fail | Hang | CutOff


class Script(Struct, frozen=True):
    """The steps written in a prompt, and the prompt without them."""

    steps: tuple[Step, ...]
    rest: str


class Message(Struct, frozen=True):
    """One message of a request, whatever the dialect."""

    role: Literal["user", "assistant"]
    texts: tuple[str, ...] = ()
    calls_tool: bool = False
    has_result: bool = False


class Conversation(Struct, frozen=True):
    """One model request; `notes` are texts the Host is known to have added itself."""

    messages: tuple[Message, ...]
    system: str = ""
    has_tools: bool = False
    session: str = ""
    notes: frozenset[str] = frozenset()


class Turn(Struct, frozen=True):
    """The prompt being answered, where it stands, and how many answers it has had."""

    prompt: str = ""
    at: tuple[int, int] = (-1, -1)
    answers: int = 0


def parse_script(prompt: str) -> Script:
    """Steps in the order written; a step that cannot be read becomes a reply that says so."""
    steps: list[Step] = []
    rest: list[str] = []
    position = 0
    while match := _OPENING.search(prompt, position):
        rest.append(prompt[position : match.start()])
        step, position = _read_step(match[1], prompt, match.end())
        steps.append(step)
    rest.append(prompt[position:])
    return Script(steps=tuple(steps), rest="".join(rest).strip())


def _read_step(word: str, prompt: str, start: int) -> tuple[Step, int]:
    if word == "tool":
        return _read_tool(prompt, start)
    end = prompt.find("]]", start)
    if end < 0:
        return Say(f"lab script: [[{word}…]] is not closed"), len(prompt)
    return _make_step(word, prompt[start:end].strip()), end + 2


def _make_step(word: str, argument: str) -> Step:
    try:
        match word:
            case "slow":
                seconds, _, text = argument.partition(" ")
                return Slow(text=text.strip() or "one two three four five", seconds=float(seconds))
            case "error":
                return Fail(status=int(argument or "500"))
            case "hang":
                return Hang(text=argument)
            case "max-tokens":
                return CutOff(text=argument or "cut off")
            case _:
                return Say(text=argument)
    except ValueError:
        return Say(f"lab script: [[{word}: {argument}]] needs a number")


def _read_tool(prompt: str, start: int) -> tuple[Step, int]:
    name = _TOOL_NAME.match(prompt, start)
    closing = prompt.find("]]", start)
    after = len(prompt) if closing < 0 else closing + 2
    if name is None:
        return Say("lab script: [[tool: NAME {…}]] needs a name"), after
    opening = prompt.find("{", name.end())
    if opening < 0 or prompt[name.end() : opening].strip():
        return CallTool(name=name[0], arguments="{}"), after
    try:
        # The arguments may hold "]]" themselves, so only a JSON reader knows where they end.
        _, end = json.JSONDecoder().raw_decode(prompt, opening)
    except ValueError as exc:
        return Say(f"lab script: arguments of [[tool: {name[0]} …]] are not JSON: {exc}"), after
    closing = prompt.find("]]", end)
    return CallTool(name=name[0], arguments=prompt[opening:end]), len(prompt) if closing < 0 else closing + 2


def asks_for_title(conversation: Conversation) -> bool:
    """Whether this is the separate request a Host sends to name a session."""
    return not conversation.has_tools and "title" in conversation.system[:400].lower()


def current_turn(conversation: Conversation) -> Turn:
    """The last prompt of the user's own, counting the answers given since.

    A text that arrives between tool calls is a steer: it takes over only when it has steps of its own.
    """
    turn = Turn()
    between_calls = False
    for index, message in enumerate(conversation.messages):
        if message.role == "assistant":
            turn = replace(turn, answers=turn.answers + 1)
            between_calls = message.calls_tool
            continue
        own = [text for text in message.texts if not _is_note(text, conversation.notes)]
        for text in own:
            if not between_calls or parse_script(text).steps:
                turn = Turn(prompt=text, at=(index, message.texts.index(text)))
        if not own and message.texts and not between_calls and (turn.answers or not turn.prompt):
            # A turn that the Host began by itself, such as the report of a settled subagent.
            turn = Turn(prompt=message.texts[0], at=(index, 0))
    return turn


def _is_note(text: str, notes: frozenset[str]) -> bool:
    return text in notes or text.startswith(_NOTES)


def next_step(turn: Turn, *, failures: int) -> Step:
    """The step for this call; an error that is the last step written repeats for every retry."""
    script = parse_script(turn.prompt)
    index = turn.answers + failures
    if index < len(script.steps):
        return script.steps[index]
    if script.steps and isinstance(script.steps[-1], Fail) and turn.answers < len(script.steps):
        return script.steps[-1]
    return Say(default_reply(script.rest))


def default_reply(rest: str) -> str:
    """A short answer that names the task, so that two answers can be told apart."""
    first = rest.strip().partition("\n")[0].strip()
    return f"Done: {first[:_REPLY_LIMIT]}" if first else "Done."
