"""`route explain`: why each rule won or lost."""

from typing import Any

import click

from agentlink.cli.delegate_cmd import given_options, hint_options
from agentlink.cli.output import json_option, print_json, run_with
from agentlink.cli.tasks_cmd import checked_task


@click.group("route")
def route_command() -> None:
    """Look at the rules that choose a preset."""


@route_command.command("explain")
@hint_options
@click.option("--task", help="Show what is on record of this task's routing instead.")
@json_option
def explain(task: str | None, *, as_json: bool, **options: Any) -> None:
    """Say for these hints why each rule won or lost. Touches no session."""
    from agentlink.app.explain import explain_hints, explain_task

    if task is not None:
        wanted = checked_task(task)
        past = run_with(lambda runtime: explain_task(runtime, wanted))
        if as_json:
            print_json(past)
        else:
            click.echo(_words(past.record))
        return
    explained = run_with(lambda runtime: explain_hints(runtime, given_options(options)))
    if as_json:
        print_json(explained)
        return
    found = explained.explanation
    for row in found.rows:
        why = [
            *(f"matches {name}" for name in row.matched),
            *(f"{name} is another" for name in row.differs),
            *(f"no hint for {name}" for name in row.without_hint),
            *(f"excluded by {name}" for name in row.excluded_by),
        ]
        click.echo(f"{row.verdict:9}  {row.rule} -> {row.preset} ({row.target})  {', '.join(why) or 'catch-all'}")
    if found.more_rows:
        click.echo(f"and {found.more_rows} more rules")
    if found.choice is not None:
        click.echo(f"choice: {found.choice.rule} -> {found.choice.preset} ({found.choice.reason})")
    else:
        click.echo(f"no choice: {found.code}: {found.message}")
    if explained.roster != "read":
        click.echo(f"presets were {explained.roster}")


def _words(record: Any) -> str:
    asked = record.requested_preset or "none"
    rule = f"rule {record.route_rule_id}" if record.route_rule_id else "no rule"
    return f"{record.selection_mode}: {rule}, asked {asked}, resolved {record.resolved_preset}, {record.verification}"
