"""Results for people: the only module that imports rich."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentlink.app.recover import Closed, Recovered
from agentlink.app.results import Delegated, FailureInfo, TaskList, TaskStatus
from agentlink.cli.pending_text import pending_lines
from agentlink.cli.plain_text import command, safe

_COLOURS = {
    "turn_completed": "green",
    "prompt-sent": "green",
    "launch-failed": "red",
    "failed": "red",
    "running": "yellow",
    "queued": "yellow",
    "children_running": "yellow",
    "awaiting_approval": "magenta",
    "awaiting_input": "magenta",
    "interrupted": "red",
}


def console() -> Console:
    """Writes to stdout; plain when piped."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def _text(text: str, *, style: str = "") -> Text:
    """Text that can neither move the cursor nor be taken for markup."""
    return Text(safe(text), style=style)


def _coloured(text: str) -> Text:
    return _text(text, style=_COLOURS.get(text, ""))


def _grid(rows: list[tuple[str, str | Text]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    for name, value in rows:
        grid.add_row(name, _text(value) if isinstance(value, str) else value)
    return grid


def show_delegated(answer: Delegated) -> None:
    """A delegation that was accepted."""
    routing = answer.routing
    rows: list[tuple[str, str | Text]] = [
        ("task", answer.task_id),
        ("session", answer.session_id or "none"),
        ("launch", _coloured(answer.launch.stage)),
        ("preset", f"{routing.resolved_preset or 'unknown'} ({routing.mode}, {routing.verification})"),
        ("claim", f"{answer.claim.mode} on {answer.claim.cwd}"),
        ("", f"({answer.claim.notice})"),
    ]
    if answer.repeated:
        rows.append(("repeated", "this request key had started the task before"))
    rows += [("warning", warning) for warning in answer.warnings]
    rows.append(("next", f"agentlink status {answer.task_id}"))
    console().print(_grid(rows))


def _prompt_sent(status: TaskStatus) -> str:
    if status.launch.prompt_sent:
        return "yes, in the Host's durable log" if status.launch.confirmed else "yes, not confirmed yet"
    return "no" if status.launch.prompt_sent is False else "unknown"


def show_status(status: TaskStatus) -> None:
    """One task, its stages and its final message."""
    out = console()
    record = status.launch.record
    rows: list[tuple[str, str | Text]] = [
        ("task", status.task_id),
        ("session", status.session_id or "none"),
        ("execution", _coloured(status.execution)),
        ("Host", status.availability),
        ("launch", _coloured(status.launch.stage + (", abandoned" if status.launch.abandoned else ""))),
        ("prompt sent", _prompt_sent(status)),
    ]
    if record is not None:
        rows.append(("preset", f"{record.resolved_preset or 'unknown'} ({record.verification})"))
    held = "held" if status.claim.held else "released"
    rows += [("claim", f"{status.claim.mode} on {status.claim.cwd}, {held}"), ("", f"({status.claim.notice})")]
    out.print(_grid([*rows, *_at_work(status)]))
    for stage in status.launch.path:
        again = "" if stage.attempt == 1 else f"  (attempt {stage.attempt})"
        out.print(_text(f"  {stage.at}  {stage.stage}{again}"))
    show_failure_info(status.failure)
    for line in pending_lines(status.task_id, status.pending):
        out.print(_text(line))
    if status.parked:
        removal = command("cancel", status.task_id, "--scope", "queue")
        out.print(_text(f"parked prompts are removed by: {removal}"))
    if status.final_message is not None:
        out.print()
        out.print(_text(status.final_message))
        if (rest := status.final_message_rest) is not None:
            more = command("tail", status.task_id, "--event", rest.event, "--offset", str(rest.offset))
            out.print(_text(f"{rest.size - rest.offset} of {rest.size} characters are left: {more}", style="dim"))
    elif status.final_message_missing:
        out.print(_text(f"no final message: {status.final_message_missing}", style="dim"))


def _at_work(status: TaskStatus) -> list[tuple[str, str | Text]]:
    """What goes on around the turn; only what there is."""
    rows: list[tuple[str, str | Text]] = []
    if status.tool is not None:
        rows.append(("tool", status.tool))
    if status.queued:
        rows.append(("queued", f"{status.queued} waiting for a turn"))
    if status.parked:
        rows.append(("parked", f"{status.parked}, to run before the next prompt"))
    rows += [("subagent", f"{session} at work") for session in status.children_running]
    for write in status.open_writes:
        rows.append(("open write", f"{write.kind} {write.request_id}: {write.outcome or 'outcome not known yet'}"))
    for write in status.undelivered:
        rows.append(("not run", _text(f"{write.kind} {write.request_id}: {write.outcome}", style="red")))
    if status.error_code is not None:
        rows.append(("error", status.error_code))
    rows += [("warning", warning) for warning in status.warnings]
    if status.cursor is not None:
        rows.append(("cursor", status.cursor))
    return rows


def show_failure_info(failure: FailureInfo | None) -> None:
    """Why it failed and what is safe to do."""
    if failure is None:
        return
    out = console()
    text = failure.code if failure.message is None else f"{failure.code}: {failure.message}"
    out.print(_text(text, style="red"))
    out.print(_text(f"next: {failure.next}"))


def show_list(page: TaskList) -> None:
    """A page of tasks: one line each, the directory last, so that nothing has to wrap."""
    out = console()
    rows = [
        (
            row.task_id,
            row.stage + (f" ({row.code})" if row.code else "") + (", abandoned" if row.abandoned else ""),
            "running" if row.running else "",
            "unfinished" if row.unfinished else "",
            row.preset or "-",
            "claim held" if row.claim_held else "",
            row.created_at[:19].replace("T", " "),
        )
        for row in page.tasks
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(7)]
    for shown, row in zip(rows, page.tasks, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(shown, widths, strict=True) if width]
        out.print(_text("  ".join([*cells, row.cwd])))
    if not page.tasks:
        out.print(_text("no tasks"))
    for warning in page.warnings:
        out.print(_text(f"warning: {warning}", style="red"))
    if page.next is not None:
        out.print(_text(f"more: agentlink list --before {page.next}", style="dim"))


def show_recovery(answer: Recovered | Delegated | Closed) -> None:
    """What a recovery did, or found."""
    out = console()
    if isinstance(answer, Delegated):
        show_delegated(answer)
        return
    if isinstance(answer, Closed):
        end = "abandoned" if answer.abandoned else answer.stage
        out.print(_text(f"{answer.task_id}: {end}, session {answer.session_id or 'none'}"))
        return
    out.print(_text(f"settled {answer.settled}, unsettled {answer.unsettled_count}"))
    for row in answer.unsettled:
        out.print(_text(f"  {row.task_id}  {row.stage}: {row.code}"))
    out.print(_text(f"sessions without a prompt: {answer.unprompted_count}"))
    for left in answer.unprompted:
        out.print(_text(f"  {left.task_id}  {left.code}  preset {left.preset or 'unknown'}  {left.cwd}"))
        out.print(_text(f"    agentlink recover {left.task_id} PROMPT   or   --abandon", style="dim"))
    for stray in answer.strays:
        out.print(_text(f"stray session {stray.session_id} of {stray.task_id}: made after its launch was given up"))
    if answer.host is not None:
        out.print(_text(f"stray sessions could not be looked for: {answer.host}", style="red"))
