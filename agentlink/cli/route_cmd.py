"""`route …`: why each rule won or lost, and looking after the rules. Never an MCP tool (003 FR-11)."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from agentlink.cli.delegate_cmd import given_options, hint_options
from agentlink.cli.output import EXIT_FAILURE, json_option, print_json, run_async, run_with, say
from agentlink.cli.tasks_cmd import checked_task
from agentlink.core.errors import Code, Failure
from agentlink.core.routing.hints import FIELDS

_RANKS = {"kind_exact": "exact kind", "kind_set": "set of kinds", "fields": "no kind", "catch_all": "catch-all"}


@click.group("route")
def route_command() -> None:
    """Look at, check and change the rules that choose a preset."""


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


@route_command.command("init")
@json_option
def init(*, as_json: bool) -> None:
    """Write routes.toml with comments that explain every field, and without any rule."""
    from agentlink.app.route_maintenance import start_rules

    file = start_rules(_home())
    if as_json:
        print_json({"file": file, "rules": 0})
    else:
        click.echo(f"{file} is written; it has no rule yet")


@route_command.command("list")
@json_option
def list_rules(*, as_json: bool) -> None:
    """List the active rules, the best rank first."""
    from agentlink.app.route_maintenance import active_rules

    found = active_rules(_home())
    if as_json:
        print_json(found)
        return
    for row in found.rules:
        said = f"  {row.reason}" if row.reason else ""
        _, others, priority = row.rank
        rank = f"{_RANKS[row.by]}, other fields {others}, priority {priority}"
        click.echo(f"{row.id} -> {row.preset}  for {row.match}  [{rank}]{said}  ({row.source})")
    if not found.rules:
        click.echo(f"no rule in {found.file}: automatic routing is not configured")


@route_command.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@json_option
def validate(file: Path | None, *, as_json: bool) -> int:
    """Check routes.toml, or FILE. Exit status 1 when it is not valid."""
    from agentlink.app.route_maintenance import check_rules

    try:
        found = check_rules(_home(), file)
    except Failure as failure:
        if as_json or failure.code is not Code.ROUTING_CONFIG_INVALID:
            raise
        return _show_defects(failure)
    if as_json:
        print_json(found)
    elif found.state == "missing":
        click.echo(f"{found.file}: no rule; automatic routing is not configured")
    else:
        click.echo(f"{found.file}: valid; {found.rules} rules ({found.catch_all} catch-all), {found.presets} presets")
    return 0


def _show_defects(failure: Failure) -> int:
    details = failure.details or {}
    click.echo(failure.message)
    for row in details.get("further", ()):
        click.echo(f"{details['file']}:{row['line']}: {row['message']}")
    if more := details.get("furtherMore"):
        click.echo(f"and {more} more")
    return EXIT_FAILURE


@route_command.command("presets")
@json_option
def presets(*, as_json: bool) -> None:
    """Show the Host's presets as they are now. What is shown of trust and documents affects no choice."""
    from agentlink.app.route_maintenance import preset_facts

    found = run_with(preset_facts)
    if as_json:
        print_json({"presets": found})
        return
    for row in found:
        state = "usable" if row.broken is None else f"broken: {row.broken}"
        default = ", default" if row.default else ""
        facts = f"trust {row.trust}, authorable {row.authorable}, document {row.has_document}"
        click.echo(f"{row.id}{default}  {state}  ({facts})")


def _condition_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Two options for each field of the vocabulary: values that the rule takes, and values that it never takes."""
    for field in reversed(FIELDS):
        flag, values = re.sub("([A-Z])", r"-\1", field.name).lower(), ", ".join(field.values)
        for prefix, says in (("exclude", "Never takes"), ("match", "Takes")):
            option = f"--exclude-{flag}" if prefix == "exclude" else f"--{flag}"
            name = f"{prefix}_{field.name.lower()}"
            told = f"{says} this {field.name}; repeat it or separate by commas: {values}"
            command = click.option(option, name, metavar="A,B", multiple=True, help=told)(command)
    return command


def _conditions(options: dict[str, Any], prefix: str) -> dict[str, list[str]]:
    given = {field.name: options[f"{prefix}_{field.name.lower()}"] for field in FIELDS}
    return {
        name: [part.strip() for text in texts for part in text.split(",")] for name, texts in given.items() if texts
    }


@route_command.command("propose")
@click.option("--id", "rule_id", help="The rule's id; a candidate with the same id is replaced.")
@click.option("--preset", help="The preset that the rule chooses.")
@_condition_options
@click.option("--catch-all", is_flag=True, help="Takes any task, below every rule that matches.")
@click.option("--priority", type=int, help="Decides between rules of equal rank; the greater wins.")
@click.option("--reason", help="Why, in one line of at most 120 characters.")
@click.option(
    "--from", "file", metavar="FILE", type=click.Path(path_type=Path), help="Take every [[rule]] of this file instead."
)
@json_option
def propose(rule_id: str | None, preset: str | None, file: Path | None, *, as_json: bool, **options: Any) -> None:
    """Store a rule as a candidate. It affects nothing until `route apply`."""
    from agentlink.app.route_maintenance import propose_from, propose_rule

    match, exclude = _conditions(options, "match"), _conditions(options, "exclude")
    rest = {name: options[name] for name in ("priority", "reason", "catch_all")}
    if file is not None:
        if rule_id is not None or preset is not None or match or exclude or any(rest.values()):
            raise click.UsageError("--from takes whole rules from a file; give it alone")
        done = propose_from(_home(), file)
    elif rule_id is None or preset is None:
        raise click.UsageError("give --id and --preset, or --from FILE")
    else:
        done = propose_rule(_home(), {"id": rule_id, "preset": preset, **rest, "match": match, "exclude": exclude})
    if as_json:
        print_json(done)
        return
    for name in done.proposed:
        click.echo(f"{name} waits in {done.candidates}" + (" in place of the one before" * (name in done.replaced)))
    click.echo("next: agentlink route diff")


@route_command.command("diff")
@json_option
def diff(*, as_json: bool) -> None:
    """Show what `route apply` would change in routes.toml, and the digest that it accepts."""
    from agentlink.app.route_maintenance import compare

    plan = run_async(lambda: compare(os.environ))
    if as_json:
        print_json(plan)
        return
    if plan.digest is None:
        click.echo("no candidate waits")
        return
    _show_plan(plan, click.echo)
    click.echo(f"to do this: agentlink route apply --accept {plan.digest}")


def _show_plan(plan: Any, show: Callable[[str], None]) -> None:
    show(plan.diff or "no change: the candidates are active already")
    for warning in plan.warnings:
        show(f"warning: {warning}")


@route_command.command("apply")
@click.option("--accept", metavar="DIGEST", help="Write exactly what `route diff` printed with this digest.")
@json_option
def apply(accept: str | None, *, as_json: bool) -> int:
    """Make the candidates active. Asks at a terminal; anywhere else it needs the digest that `route diff` printed."""
    from agentlink.app.route_maintenance import apply_candidates, compare

    if accept is None:
        if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError("without a terminal, give --accept DIGEST as `agentlink route diff` prints it")
        plan = run_async(lambda: compare(os.environ))
        if plan.digest is not None:
            _show_plan(plan, say)
            print("Write this? Only yes writes: ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip() != "yes":
                say("nothing is written")
                return EXIT_FAILURE
        accept = plan.digest or ""
    done = apply_candidates(_home(), accept=accept)
    if as_json:
        print_json(done)
        return 0
    for what, names in (("added", done.added), ("replaced", done.replaced), ("active already", done.unchanged)):
        if names:
            click.echo(f"{what}: {', '.join(names)}")
    click.echo(f"{done.active} " + ("is written" if done.changed else "is unchanged"))
    return 0


@route_command.command("discard")
@click.argument("rule_id", metavar="[ID]", required=False)
@json_option
def discard_candidates(rule_id: str | None, *, as_json: bool) -> None:
    """Remove the candidate ID, or all of them. Active rules stay as they are."""
    from agentlink.app.route_maintenance import discard

    gone = discard(_home(), rule_id)
    if as_json:
        print_json({"discarded": gone})
    else:
        click.echo(f"discarded: {', '.join(gone)}" if gone else "no candidate waits")


@route_command.command("doctor")
@json_option
def doctor(*, as_json: bool) -> int:
    """Say whether the rules can be used and whether candidates wait. Changes nothing; exit status 1 for a defect."""
    from agentlink.app.route_maintenance import examine_routes

    report = run_async(lambda: examine_routes(os.environ))
    routes, candidates = report.routes, report.candidates
    if as_json:
        print_json(report)
    else:
        words = {"missing": "no rule; automatic routing is not configured", "valid": f"valid, {routes.rules} rules"}
        click.echo(f"{report.file}: {words.get(routes.state) or routes.message}")
        for target in routes.absent:
            click.echo(f"preset {target} is absent on the Host right now")
        for target in routes.broken:
            click.echo(f"preset {target} is broken on the Host right now")
        if report.roster != "read":
            click.echo(f"presets were {report.roster}")
        words = {"none": "none wait", "waiting": f"{candidates.waiting} wait; see agentlink route diff"}
        click.echo(f"candidates: {words.get(candidates.state) or candidates.message}")
    return EXIT_FAILURE if "invalid" in (routes.state, candidates.state) else 0


def _home() -> Path:
    from agentlink.app.settings import load_home

    home, _ = load_home(os.environ)
    return home
