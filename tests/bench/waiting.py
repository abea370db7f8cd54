"""How long after a turn's end a wait returns, beside a raw follower of the same session in the same process.

Both are counted from the time that the Host itself wrote into the turn's end, by the clock of the same machine.
"""

from __future__ import annotations

import secrets
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.wait import WaitRequest, wait
from agentlink.core.ids import TaskId
from agentlink.host.cookies import CookieFiles
from agentlink.lab import Lab, lab
from tests.bench.context import Context
from tests.bench.raw import RawFollower, raw_follower
from tests.bench.rows import Row
from tests.bench.timing import at_percent

NAME = "wait"
LATE_MS = 100
_STALL_MS = 1_000
_LANES = 4
_PER_HOST = 250
"""A Host is not what is measured here: it is replaced before its many sessions make it slow."""
_PERCENTS = ((0, "least"), (50, "median"), (95, "95th percentile"), (99, "99th percentile"), (100, "longest"))


class End(msgspec.Struct):
    """One turn's end, in milliseconds of the wall clock."""

    host_ms: float = 0
    """What the event itself says: whole milliseconds."""
    raw_ms: float = 0
    ours_ms: float = 0
    asked_ms: float = 0
    """When the wait was begun."""

    @property
    def waited_for(self) -> bool:
        """Whether both were there before it: a wait for what is over is no wait."""
        return self.raw_ms > self.asked_ms > 0


def run(context: Context) -> list[Row]:
    """A thousand tasks, a few at a time, on Hosts that are replaced now and then."""
    wanted, ends = context.count(1_000, 6), list[End]()
    while len(ends) < wanted:
        with lab() as one:
            ends += anyio.run(_on_host, context, one, min(_PER_HOST, wanted - len(ends)))
        context.tell(f"{len(ends):,} waits")
    return rows_of([end for end in ends if end.waited_for], asked=len(ends))


async def _on_host(context: Context, one: Lab, tasks: int) -> list[End]:
    home = context.new_home()
    ends: list[End] = []
    async with AsyncExitStack() as stack:
        runtime = open_runtime(context.environment(home) | {"AGENTLINK_HOST_URL": one.host.launch_url})
        stack.push_async_callback(runtime.aclose)
        await runtime.host.model_catalog()
        cookie = CookieFiles(home / "cookies").load(runtime.host.origin)
        if cookie is None:
            raise RuntimeError("the Host gave no login")
        follower = await stack.enter_async_context(raw_follower(cookie))
        async with anyio.create_task_group() as background, anyio.create_task_group() as lanes:
            runtime.to_the_end.group = background  # as in a server: all waits share one live connection
            numbers = iter(range(tasks))
            for _ in range(_LANES):
                lanes.start_soon(_lane, runtime, follower, one.host.workspace, numbers, ends)
            lanes.start_soon(_end_of, background, ends, tasks)
    return ends


async def _end_of(background: anyio.abc.TaskGroup, ends: list[End], tasks: int) -> None:
    while len(ends) < tasks:
        await anyio.sleep(0.2)
    background.cancel_scope.cancel()


async def _lane(runtime: Runtime, follower: RawFollower, workspace: Path, numbers: Any, ends: list[End]) -> None:
    cwd = workspace / f"w-{secrets.token_hex(4)}"
    cwd.mkdir()
    for number in numbers:
        seconds = 0.2 + number % 11 * 0.03  # ends fall into every part of whatever the product does at intervals
        prompt = f"[[slow: {seconds:.2f} one two three four]]"
        done = await delegate(
            runtime, DelegateRequest(prompt=prompt, cwd=str(cwd), preset="minimal", claim="read-only")
        )
        ends.append(await _one(runtime, follower, TaskId(done.task_id), done.session_id or ""))


async def _one(runtime: Runtime, follower: RawFollower, task: TaskId, session: str) -> End:
    end, attached, ended = End(), anyio.Event(), anyio.Event()

    def told(value: dict[str, Any], at: float) -> None:
        if value["type"] == "snapshot":
            attached.set()
            if any(record.get("event", {}).get("type") == "turn/end" for record in value["records"]):
                ended.set()
        elif value["type"] == "event" and value["event"]["type"] == "turn/end":
            end.host_ms, end.raw_ms = value["event"]["time"], at
            ended.set()

    await follower.follow(session, told)
    await attached.wait()
    end.asked_ms = time.time() * 1_000
    waited = await wait(runtime, WaitRequest(tasks=(task,)))
    end.ours_ms = time.time() * 1_000
    if waited.execution != "turn_completed" or waited.timed_out:
        raise RuntimeError(f"a wait ended with {waited.execution}")
    await ended.wait()
    return end


def rows_of(ends: list[End], *, asked: int) -> list[Row]:
    """The distributions of ours and of the raw follower, then that of the difference, which the target is about."""
    ours, raw = [end.ours_ms - end.host_ms for end in ends], [end.raw_ms - end.host_ms for end in ends]
    later = [end.ours_ms - end.raw_ms for end in ends]
    rows = [
        Row(
            bench=NAME,
            figure=f"after the event's time, {words}",
            ours=at_percent(ours, percent),
            unit="ms",
            limit=at_percent(raw, percent),
            limit_is="raw follower",
            compared="difference",
        )
        for percent, words in _PERCENTS
    ]
    for percent, words in _PERCENTS:
        target = LATE_MS if percent == 100 else None
        rows.append(_row(f"after the raw follower, {words}", at_percent(later, percent), "ms", target=target))
    return [
        *rows,
        Row(
            bench=NAME,
            figure=f"more than {LATE_MS} ms after the event's time, of {len(ends):,}",
            ours=sum(1 for value in ours if value > LATE_MS),
            unit="waits",
            limit=sum(1 for value in raw if value > LATE_MS),
            limit_is="raw follower",
        ),
        _row(
            "stalled: a second and more after the raw follower",
            sum(1 for ms in later if ms > _STALL_MS),
            "waits",
            target=0,
        ),
        _row(f"not counted, of {asked:,}: over before the wait began", asked - len(ends), "waits"),
    ]


def _row(figure: str, ours: float, unit: str, *, target: float | None = None) -> Row:
    return Row(bench=NAME, figure=figure, ours=ours, unit=unit, target=target)
