"""`answer`, `approve` and `reject`: what a person says to an agent that waits for them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentlink.cli.output import EXIT_FAILURE, json_option, no_terminal, print_json, run_with, say, tell
from agentlink.cli.tasks_cmd import checked_task
from agentlink.core.errors import Code, Failure

if TYPE_CHECKING:
    from agentlink.app.answer import Resolved
    from agentlink.app.runtime import Runtime
    from agentlink.core.supervision.interactions import Answer, Outcome, Pending

_since_option = click.option("--since-cursor", metavar="C", help="Refuse if something happened after this cursor.")


@click.command("answer")
@click.argument("task")
@click.argument("request")
@click.option("--answer", "chosen", multiple=True, metavar="ID=LABEL", help="Choose a label; repeat it for several.")
@click.option("--text", "texts", multiple=True, metavar="ID=TEXT", help="Answer in your own words.")
@click.option("--skip", "skipped", multiple=True, metavar="ID", help="Leave this question without an answer.")
@click.option("--answers-json", metavar="F", help="All answers as JSON, from this file or - for standard input.")
@_since_option
@json_option
def answer_command(task: str, request: str, *, since_cursor: str | None, as_json: bool, **given: Any) -> int:
    """Answer every question of the pending REQUEST of TASK. On a terminal, without an answer, the questions are asked.

    With --answers-json: [{"id": "...", "selected": ["label"], "custom": "own text"}].
    """
    from agentlink.app.answer import answer_question, pending_item
    from agentlink.cli.ask import ask_questions, read_line

    wanted = checked_task(task)
    answers = _given(given["chosen"], given["texts"], given["skipped"], given["answers_json"])

    async def work(runtime: "Runtime") -> "Resolved | None":
        found = answers
        if found is None:
            item = await pending_item(runtime, wanted, request, "question")
            if no_terminal():
                raise click.UsageError(_what_is_asked(item))
            found = await ask_questions(read_line, item)
            if found is None:
                return None
        return await answer_question(runtime, wanted, request, found, since_cursor=since_cursor)

    return _report(run_with(work), as_json=as_json, task=task, request=request)


@click.command("approve")
@click.argument("task")
@click.argument("request")
@click.option("--yes", "-y", is_flag=True, help="Do not ask again; needed where there is no terminal.")
@_since_option
@json_option
def approve_command(task: str, request: str, *, yes: bool, since_cursor: str | None, as_json: bool) -> int:
    """Allow the one tool call that the pending REQUEST of TASK is about, once."""
    if not yes and no_terminal():
        raise click.UsageError("without a terminal to ask on, say --yes: it allows the tool call")
    return _resolve(task, request, "allow_once", ask=not yes, since_cursor=since_cursor, as_json=as_json)


@click.command("reject")
@click.argument("task")
@click.argument("request")
@_since_option
@json_option
def reject_command(task: str, request: str, *, since_cursor: str | None, as_json: bool) -> int:
    """Refuse the tool call that the pending REQUEST of TASK is about."""
    return _resolve(task, request, "reject", ask=False, since_cursor=since_cursor, as_json=as_json)


def _resolve(task: str, request: str, outcome: "Outcome", *, ask: bool, since_cursor: str | None, as_json: bool) -> int:
    from agentlink.app.answer import pending_item, resolve_approval
    from agentlink.cli.ask import read_line
    from agentlink.cli.pending_text import item_lines

    wanted = checked_task(task)

    async def work(runtime: "Runtime") -> "Resolved | None":
        if ask:
            for line in item_lines(await pending_item(runtime, wanted, request, "approval")):
                say(line)
            said = await read_line("allow once? [y/N] ")
            if (said or "").strip().lower() not in ("y", "yes"):
                return None
        return await resolve_approval(runtime, wanted, request, outcome, since_cursor=since_cursor)

    return _report(run_with(work), as_json=as_json, task=task, request=request)


def _what_is_asked(item: "Pending") -> str:
    from agentlink.cli.pending_text import item_lines

    return "\n".join(["say what the answer is, with --answer, --text, --skip or --answers-json:", *item_lines(item)])


def _report(resolved: "Resolved | None", *, as_json: bool, task: str, request: str) -> int:
    if resolved is None:
        if as_json:
            print_json({"taskId": task, "requestId": request, "delivery": "not_sent"})
        else:
            say(f"nothing was sent: {request} is still pending")
        return EXIT_FAILURE
    if as_json:
        print_json(resolved)
    else:
        tell(f"{resolved.request_id}: {resolved.outcome or 'answered'}" + _unproven(resolved))
        for warning in resolved.warnings:
            say(f"warning: {warning}")
    return 0


def _unproven(resolved: "Resolved") -> str:
    if resolved.delivery == "in_history":
        return ""
    return f"  (sent, but the log does not show it yet: agentlink status {resolved.task_id})"


def _given(
    chosen: Sequence[str], texts: Sequence[str], skipped: Sequence[str], file: str | None
) -> "list[Answer] | None":
    """The answers on the command line, in the order of their ids; None when there are none."""
    from agentlink.core.supervision.interactions import Answer

    if file is not None:
        if chosen or texts or skipped:
            raise click.UsageError("--answers-json holds all answers: give it alone")
        return _from_json(file)
    labels: dict[str, list[str]] = {}
    own: dict[str, str] = {}
    for name, value in (_pair("--answer", text) for text in chosen):
        labels.setdefault(name, []).append(value)
    for name, value in (_pair("--text", text) for text in texts):
        if name in own:
            raise click.UsageError(f"--text {name} is given twice")
        own[name] = value
    for name in skipped:
        if name in labels or name in own:
            raise click.UsageError(f"question {name} is answered and skipped")
    names = dict.fromkeys([*labels, *own, *skipped])
    return [Answer(name, tuple(labels.get(name, ())), own.get(name)) for name in names] or None


def _pair(option: str, text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise click.UsageError(f"{option} takes ID={'TEXT' if option == '--text' else 'LABEL'}, not {text!r}")
    return name, value


def _from_json(file: str) -> "list[Answer]":
    import msgspec

    from agentlink.core.supervision.interactions import Answer

    class Given(msgspec.Struct, forbid_unknown_fields=True):
        id: str
        selected: list[str] = []
        custom: str | None = None

    def bad(reason: str) -> Failure:
        return Failure(Code.INVALID_REQUEST, reason, details={"argument": "answers-json"})

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        found = msgspec.json.decode(data, type=list[Given])
    except OSError as error:
        raise bad(f"the answers cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise bad(f"the answers are not in the known form: {error}") from None
    if not found:
        raise bad("there are no answers in it")
    return [Answer(one.id, tuple(one.selected), one.custom) for one in found]
