"""`statechart export`: the launch machine as diagrams, plain or with the path that a task took."""

from pathlib import Path
from typing import Any

import click

from agentlink.cli.output import EXIT_FAILURE, json_option, print_json, run_with, say
from agentlink.cli.tasks_cmd import checked_task
from agentlink.core.errors import Code, Failure
from agentlink.core.statechart.chart import Walk

KINDS = ("mmd", "md", "json", "svg")


@click.group("statechart")
def statechart_command() -> None:
    """Export the launch machine as diagrams."""


@statechart_command.command("export")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write launch.* into this directory.")
@click.option("--format", "kind", type=click.Choice(KINDS), help="Only this one (default: mmd, or all with --out).")
@click.option("--task", help="Mark the path that this task took.")
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 when the files in --out are not current.")
@json_option
def export(out: Path | None, kind: str | None, task: str | None, *, check: bool, as_json: bool) -> int:
    """Print the launch machine, or write it as files."""
    from agentlink.app.chart_svg import DrawingUnavailable
    from agentlink.app.charts import launch_chart

    if check and out is None:
        raise click.UsageError("--check needs --out")
    walk = None if task is None else _walk(task)
    if out is None:
        return _print(launch_chart(kind or ("json" if as_json else "mmd"), walk), as_json=as_json)
    charts: dict[str, str] = {}
    for each in KINDS if kind is None else (kind,):
        try:
            charts[f"launch.{each}"] = launch_chart(each, walk)
        except DrawingUnavailable as unavailable:
            if kind is not None or check:
                raise Failure(Code.INVALID_REQUEST, str(unavailable)) from None
            say(f"launch.svg is left out: {unavailable}")
    try:
        stale = _stale(out, charts)
        if not check:
            _write(out, {name: charts[name] for name in stale})
    except OSError as error:
        reason = f"the charts cannot be written to {out}: {error.strerror}"
        raise Failure(Code.INVALID_REQUEST, reason, details={"argument": "out"}) from None
    if as_json:
        print_json({"directory": str(out), "files": list(charts), "changed": stale})
    else:
        for name in charts:
            click.echo(f"{out / name}" + (("  is not current" if check else "  written") if name in stale else ""))
    return EXIT_FAILURE if check and stale else 0


def _print(text: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"chart": text})
    else:
        click.echo(text, nl=False)
    return 0


def _write(out: Path, charts: dict[str, str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, text in charts.items():
        (out / name).write_text(text, encoding="utf-8", newline="\n")


def _stale(out: Path, charts: dict[str, str]) -> list[str]:
    def current(name: str) -> bytes | None:
        path = out / name
        return path.read_bytes() if path.is_file() else None

    return [name for name, text in charts.items() if current(name) != text.encode("utf-8")]


def _walk(task: str) -> Walk:
    from agentlink.app.charts import walk_of
    from agentlink.app.look import find_task

    wanted = checked_task(task)

    async def read(runtime: Any) -> Walk:
        await find_task(runtime, wanted)
        return walk_of(await runtime.store.history(wanted))

    return run_with(read)
