"""Twenty running tasks watched at once by four processes, beside as many processes that only follow raw streams."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
import msgspec

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.results import Delegated
from agentlink.app.runtime import open_runtime
from agentlink.core.ids import TaskId
from agentlink.lab import Lab, lab
from tests.bench.context import Context
from tests.bench.rows import Row
from tests.bench.timing import at_percent, median
from tests.bench.watcher import Seen, Watched

NAME = "watch"
_ROOT = Path(__file__).parents[2]
_PROCESSES = 4


def run(context: Context) -> list[Row]:
    """Ours, then the raw followers, each on tasks of their own."""
    tasks, calls = context.count(20, 3), context.count(8, 1)
    with lab() as one:
        home = context.new_home()
        environment = context.environment(home) | {"AGENTLINK_HOST_URL": one.host.launch_url}
        ours = _together(one, environment, "ours", tasks, calls)
        context.tell("raw followers")
        raw = _together(one, environment, "raw", tasks, calls)
    return _rows(tasks, ours, raw)


def _together(one: Lab, environment: dict[str, str], kind: str, tasks: int, calls: int) -> list[Seen]:
    """The watchers are up before the tasks are started, so that their start does not weigh on what they see."""
    anyio.run(_log_in, environment)
    with ExitStack() as stack:
        children = [stack.enter_context(_child(kind, environment)) for _ in range(_PROCESSES)]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        watched = msgspec.json.encode(anyio.run(_started, one, environment, tasks, calls)).decode() + "\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(watched)
            child.stdin.flush()
        return [msgspec.json.decode(child.communicate()[0], type=Seen) for child in children]


async def _log_in(environment: dict[str, str]) -> None:
    runtime = open_runtime(environment)
    await runtime.host.model_catalog()
    await runtime.aclose()


async def _started(one: Lab, environment: dict[str, str], tasks: int, calls: int) -> list[Watched]:
    """The tasks at work: some tool calls of a second each, one after the other."""
    cwd = one.host.workspace / "watched"
    cwd.mkdir(exist_ok=True)
    call = '[[tool: bash {"command":"sleep %d","description":"rests"}]] '
    first, others = call % 5, call % 1 * calls  # the first one rests until the watchers are there
    asked = DelegateRequest(
        prompt=f"{first}{others}[[slow: 1 all of it is done]]",
        cwd=str(cwd),
        preset="minimal",
        claim="read-only",
    )
    runtime = open_runtime(environment)
    try:
        await runtime.host.model_catalog()
        done: list[Delegated] = []

        async def start() -> None:
            done.append(await delegate(runtime, asked))

        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(start)
    finally:
        await runtime.aclose()
    return [Watched(TaskId(one.task_id), one.session_id or "") for one in done]


def _child(kind: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.watcher", kind],
        cwd=_ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _rows(tasks: int, ours: list[Seen], raw: list[Seen]) -> list[Row]:
    words = f"{_PROCESSES} processes, {tasks} tasks"

    def row(figure: str, mine: float, limit: float, unit: str, *, target: float | None = None) -> Row:
        return Row(
            bench=NAME, figure=figure, ours=mine, unit=unit, limit=limit, limit_is="raw followers", target=target
        )

    late, raw_late = ([ms for one in seen for ms in one.late_ms] for seen in (ours, raw))
    everything, unread = sum(one.missed for one in ours), sum(one.unread for one in ours)

    def most_s(seen: list[Seen]) -> float:
        return max(one.attached_s for one in seen) * 1_000

    return [
        row(f"seen after the event's time, median, {words}", median(late), median(raw_late), "ms"),
        row("… 95th percentile", at_percent(late, 95), at_percent(raw_late, 95), "ms"),
        row("… 99th percentile", at_percent(late, 99), at_percent(raw_late, 99), "ms"),
        row(f"… longest of {len(late):,}", max(late), max(raw_late), "ms"),
        row("until the last stream had begun", most_s(ours), most_s(raw), "ms"),
        Row(bench=NAME, figure="reads that the Host did not answer in time", ours=unread, unit="reads"),
        Row(bench=NAME, figure="events that a process missed or saw twice", ours=everything, unit="events", target=0),
        row(
            "processor time of a process for each second, most",
            max(one.cpu_s / one.seconds for one in ours) * 1_000,
            max(one.cpu_s / one.seconds for one in raw) * 1_000,
            "ms",
        ),
        row("memory of a process, most", max(one.mib for one in ours), max(one.mib for one in raw), "MiB"),
        row(
            "… what watching added, most", max(one.added_mib for one in ours), max(one.added_mib for one in raw), "MiB"
        ),
        row(
            "connections of a process to the Host, most at once",
            max(one.connections for one in ours),
            max(one.connections for one in raw),
            "sockets",
        ),
        row(
            "… while only watching",
            max(one.lasting_connections for one in ours),
            max(one.lasting_connections for one in raw),
            "sockets",
        ),
    ]
