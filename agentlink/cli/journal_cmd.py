"""`journal show|verify|stats|repair`: the journal as it stands on disk."""

from typing import Any

import click
import msgspec

from agentlink.cli.output import EXIT_FAILURE, json_option, print_json, run_async
from agentlink.cli.tasks_cmd import checked_task


@click.group("journal")
def journal_command() -> None:
    """Show, verify or repair the journal."""


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
    sound = report.problem is None and not report.sealed_damage
    if as_json:
        print_json(report)
    else:
        size = f"{report.segments} segments, {report.lines} lines, {report.tasks} tasks, {report.bytes} bytes"
        click.echo(f"{report.file}: {size}")
        if report.unfinished_tail:
            click.echo(f"an unfinished last line of {report.unfinished_tail} bytes (set aside by the next append)")
        for name in report.set_aside:
            click.echo(f"set aside earlier: {name}")
        for row in report.sealed_damage:
            click.echo(
                f"damaged in {row['segment']} at offset {row['offset']}: {row['reason']} (open tasks are not affected)"
            )
        for name in report.repaired:
            click.echo(f"damage in {name} was accepted by a repair")
        if report.problem is not None:
            click.echo(f"{report.code}: {report.problem}")
            click.echo("next: agentlink journal repair")
        if sound:
            click.echo("sound" if report.lines else "no journal yet")
    return 0 if sound else EXIT_FAILURE


@journal_command.command("stats")
@json_option
def stats(*, as_json: bool) -> None:
    """Sizes, and how much of the journal a start has to read."""
    store = _store()
    found = run_async(store.stats)
    if as_json:
        print_json(found)
        return
    click.echo(f"{found.segments} segments, {found.bytes} bytes, {found.lines} lines")
    click.echo(f"a start reads {found.current_segment_bytes} bytes: {found.tasks_in_memory} tasks")
    click.echo(f"open tasks {found.open_tasks}, claims held {found.claims_held}")


@journal_command.command("repair")
@click.option("--accept", metavar="DIGEST", help="Carry out exactly the plan that was printed with this digest.")
@json_option
def repair(accept: str | None, *, as_json: bool) -> None:
    """Show what a repair of a damaged journal would do; with --accept DIGEST, do it.

    Nothing is rewritten: the damaged segment is sealed as it is, and a new one begins with all that can be proven.
    """
    store = _store()
    plan = run_async(lambda: store.repair(accept=accept))
    if as_json:
        print_json({"plan": plan})
        return
    if plan is None:
        click.echo("the journal is sound; nothing to repair")
        return
    click.echo(f"{plan.segment} is damaged at offset {plan.offset}: {plan.reason}")
    click.echo(f"{plan.provable_lines} lines are provable, {plan.lost_lines} are lost; it is sealed as it is")
    click.echo(f"{plan.carried_tasks} open tasks go on in a new segment")
    for task in plan.blocked:
        click.echo(f"  {task} may miss a line and is blocked: its claim, if it held one, is no longer known")
    click.echo("done" if plan.done else f"to do this: agentlink journal repair --accept {plan.digest}")
