"""`demo`: the newcomer's first minute, on a disposable real Host with a scripted model. The only user of the lab."""

import os
import tempfile
from pathlib import Path
from typing import Any

import anyio
import click

from agentlink.cli.output import EXIT_FAILURE, json_option, print_json, run_with, say
from agentlink.core.errors import Code, Failure

PROMPT = """Say hello from the other side, and name the three things that make a hand-over safe.

[[slow: 1.5 Hello from a real DSH Host! A hand-over is safe when every stage is on disk before its effect, when a lost
answer is settled by reading instead of sending again, and when nothing is prompted before its preset is proven.]]
"""
HINTS = {"kind": "general", "scale": "small"}
RULES = """version = 1

[[rule]]
id = "real-work"
preset = "standard"
match = { kind = ["implementation", "debugging"] }

[[rule]]
id = "small-questions"
preset = "minimal"
match = { kind = "general", scale = "small" }

[[rule]]
id = "anything-else"
preset = "standard"
catch_all = true
"""


@click.command("demo")
@json_option
def demo_command(*, as_json: bool) -> int:
    """See one delegation happen: a disposable real Host, a scripted model, every stage, the journal and the chart.

    Needs no key and no network. Everything is made in a directory of its own and removed at the end; your own home,
    journal and Host are not touched.
    """
    try:
        from agentlink.lab import LabError, lab
    except ImportError as error:
        raise Failure(
            Code.INVALID_REQUEST,
            f"the demo needs the lab extra ({error.name} is missing)",
            next_step="pip install 'dsh-agentlink[lab]'",
        ) from None
    narrate = (lambda _: None) if as_json else say
    try:
        with lab(on_progress=narrate) as running:
            return _on(running, as_json=as_json)
    except LabError as error:
        raise Failure(Code.HOST_UNREACHABLE, f"the disposable Host did not start: {error}") from error


def _on(running: Any, *, as_json: bool) -> int:
    watched = not as_json
    with tempfile.TemporaryDirectory(dir=running.directory) as home:
        (Path(home) / "routes.toml").write_text(RULES, encoding="utf-8")
        environment = {**os.environ, "AGENTLINK_HOME": home, "AGENTLINK_HOST_URL": running.host.launch_url}
        if not as_json:
            say(f"a real DSH Host answers at {running.host.origin}, with a state home of its own")
            shown = ", ".join(f"{name} {value}" for name, value in HINTS.items())
            say(f"delegating with the hints {shown}; one of three rules will choose the preset")
        found = run_with(lambda runtime: _delegation(runtime, running, environment if watched else None), environment)
        journal = (Path(home) / "journal" / "000001.jsonl").read_text(encoding="utf-8")
    if as_json:
        print_json(
            {
                "status": found["status"],
                "routing": found["routing"],
                "journal": journal.splitlines(),
                "chart": found["chart"],
            }
        )
    else:
        _tell(found, journal)
    return 0 if found["status"].execution == "turn_completed" else EXIT_FAILURE


async def _delegation(runtime: Any, running: Any, watcher: dict[str, str] | None) -> dict[str, Any]:
    """One delegation; a second runtime in the `watcher` environment tells its stages as they reach the journal."""
    from agentlink.app.charts import launch_chart, walk_of
    from agentlink.app.delegate import DelegateRequest, delegate
    from agentlink.app.runtime import open_runtime
    from agentlink.cli.follow import follow

    request = DelegateRequest(
        prompt=PROMPT, cwd=str(running.host.workspace), auto=True, hints=HINTS, title="Agentlink demo"
    )
    async with anyio.create_task_group() as group:
        if watcher is not None:
            group.start_soon(_watch, open_runtime(watcher))
        answer = await delegate(runtime, request)
        status = await follow(runtime, answer.task_id, say=None)
        group.cancel_scope.cancel()
    walk = walk_of(await runtime.store.history(answer.task_id))
    return {"status": status, "chart": launch_chart("mmd", walk), "routing": answer.routing}


async def _watch(runtime: Any) -> None:
    """Tells each stage when it is in the journal, as any other process could."""
    from agentlink.core.launch.history import stages

    told = 0
    while True:
        for view in await runtime.store.page(limit=1):
            path = stages(await runtime.store.history(view.task))
            for step in path[told:]:
                say(f"  {step.at[11:23]}  {step.fact:24} -> {step.state}")
            told = len(path)
        await anyio.sleep(0.02)


def _tell(found: dict[str, Any], journal: str) -> None:
    status, routing = found["status"], found["routing"]
    click.echo(
        f"\nThe rule {routing.rule_id} chose the preset {routing.requested_preset} ({routing.reason}); "
        f"the Host resolved {routing.resolved_preset} ({routing.verification})."
    )
    click.echo("\nThe journal, one line a stage (no prompt, no answer in it):\n")
    for line in journal.splitlines():
        click.echo(f"  {line}")
    click.echo("\nThe launch machine with the path that this task took (Mermaid; paste it into any viewer):\n")
    click.echo(found["chart"])
    click.echo("The agent's final message, read from the Host's own history:\n")
    click.echo(f"  {status.final_message}")
