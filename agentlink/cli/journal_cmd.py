"""`journal show` and `journal verify`: the journal as it stands on disk."""

from typing import Any

import click
import msgspec

from agentlink.cli.output import EXIT_FAILURE, json_option, print_json, run_async
from agentlink.cli.tasks_cmd import checked_task


@click.group("journal")
def journal_command() -> None:
    """Show or verify the journal."""


def _store() -> Any:
    import os

    from agentlink.app.runtime import utc_now
    from agentlink.app.settings import load_home
    from agentlink.journal.store import FileStore

    home, _ = load_home(os.environ)
    return FileStore(home, clock=utc_now)


@journal_command.command("show")
@click.option("--task", help="Only the lines of this task.")
@click.option("--last", default=100, show_default=True, type=click.IntRange(1, 100_000), help="At most this many.")
@json_option
def show(task: str | None, last: int, *, as_json: bool) -> None:
    """Print the newest journal lines, oldest first."""
    wanted = None if task is None else checked_task(task)
    store = _store()
    lines: tuple[str, ...] = run_async(lambda: store.lines(task=wanted, last=last))
    if as_json:
        print_json({"lines": [msgspec.Raw(line.encode()) for line in lines]})
        return
    for line in lines:
        click.echo(line)


@journal_command.command("verify")
@json_option
def verify(*, as_json: bool) -> int:
    """Read the whole journal, check every sum, and say what is provable. Exit status 1 when something is wrong."""
    store = _store()
    report = run_async(store.verify)
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report.file}: {report.lines} lines, {report.tasks} tasks, {report.bytes} bytes")
        if report.unfinished_tail:
            click.echo(f"an unfinished last line of {report.unfinished_tail} bytes (set aside by the next append)")
        for name in report.set_aside:
            click.echo(f"set aside earlier: {name}")
        click.echo("sound" if report.problem is None else f"{report.code}: {report.problem}")
    return 0 if report.problem is None else EXIT_FAILURE
