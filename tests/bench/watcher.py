"""One of the processes of the watchers benchmark: follows many tasks to their ends and says what it saw and took.

`python -m tests.bench.watcher ours|raw` says "ready", waits for a line with the tasks, then watches.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread

import agentlink.host.stream  # noqa: F401  loaded now: memory before and after tells what watching takes
from agentlink.app.conversation import read_conversation
from agentlink.app.live import following
from agentlink.app.look import find_task
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.wait import MAX_TASKS, WaitRequest, wait
from agentlink.core.host.values import Event, TextDelta
from agentlink.core.ids import TaskId
from agentlink.core.supervision.status import GOING_ON
from agentlink.host.cookies import CookieFiles
from tests.bench.long_reader import most_mib
from tests.bench.raw import raw_follower

_LOOK_S = 0.25


class Watched(msgspec.Struct, frozen=True):
    """A task and its session."""

    task: TaskId
    session: str


class Seen(msgspec.Struct, kw_only=True):
    """What one process saw and took. `late_ms`: for each event, how long after its time it was there."""

    late_ms: list[float] = []
    missed: int = 0
    attached_s: float = 0
    """How long until the last of the streams had begun."""
    unread: int = 0
    """How often a task could not be read at first: the Host did not answer in time."""
    seconds: float = 0
    cpu_s: float = 0
    mib: float = 0
    added_mib: float = 0
    connections: int = 0
    lasting_connections: int = 0


class _Listener:
    """Notes when each event came, and whether each came once."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._last: int | None = None
        self.since_ms = math.inf
        """From when on events are looked at: what was there before the watching began is not late."""

    def saw(self, seq: int, time_ms: float) -> None:
        self._seen.late_ms.append(time.time() * 1_000 - time_ms)
        if self._last is not None and seq != self._last + 1:
            self._seen.missed += 1
        self._last = seq

    def on_event(self, _session: str, event: Event) -> None:
        if event.time_ms >= self.since_ms:
            self.saw(event.seq, event.time_ms)

    def on_text(self, _session: str, _delta: TextDelta) -> None: ...

    def on_rewound(self, _session: str, _from_seq: int) -> None:
        self._seen.missed += 1


async def watch_ours(runtime: Runtime, watched: list[Watched], seen: Seen) -> None:
    """Every task followed by one link, and one wait for all of them beside it, as callers do."""

    began = time.monotonic()

    async def one(of: Watched) -> None:
        listener = _Listener(seen)
        view = await find_task(runtime, of.task)
        while (conversation := await read_conversation(runtime, view.launch)).root is None:
            seen.unread += 1
        async with following(runtime, conversation, listener=listener) as live:
            await live.changed()
            listener.since_ms = time.time() * 1_000
            seen.attached_s = max(seen.attached_s, time.monotonic() - began)
            while live.now().execution in GOING_ON:
                await live.changed()

    async with anyio.create_task_group() as background:
        runtime.to_the_end.group = background
        async with anyio.create_task_group() as group:
            for of in watched:
                group.start_soon(one, of)
            tasks = tuple(of.task for of in watched[:MAX_TASKS])
            group.start_soon(wait, runtime, WaitRequest(tasks=tasks))
        background.cancel_scope.cancel()


async def watch_raw(runtime: Runtime, watched: list[Watched], seen: Seen) -> None:
    """The same streams over one socket, and nothing else."""
    cookie = CookieFiles(Path(os.environ["AGENTLINK_HOME"]) / "cookies").load(runtime.host.origin)
    if cookie is None:
        raise RuntimeError("no login")
    began = time.monotonic()
    async with raw_follower(cookie) as follower:
        ends = [anyio.Event() for _ in watched]
        for of, end in zip(watched, ends, strict=True):
            await follower.follow(of.session, _raw_told(_Listener(seen), seen, began, end))
        for end in ends:
            await end.wait()


def _raw_told(
    listener: _Listener, seen: Seen, began: float, end: anyio.Event
) -> Callable[[dict[str, Any], float], None]:
    def told(value: dict[str, Any], _: float) -> None:
        if value["type"] == "snapshot":
            seen.attached_s = max(seen.attached_s, time.monotonic() - began)
            if any(record.get("event", {}).get("type") == "turn/end" for record in value["records"]):
                end.set()
        elif value["type"] == "event":
            event = value["event"]
            listener.saw(event["seq"], event["time"])
            if event["type"] == "turn/end":
                end.set()

    return told


def connections_to(port: int) -> int:
    """How many sockets of this process are connected to that local port; -1 where that cannot be told."""
    try:
        lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
        mine = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)}
    except OSError:
        return -1
    fields = [line.split() for line in lines]
    return sum(1 for one in fields if int(one[2].split(":")[1], 16) == port and f"socket:[{one[9]}]" in mine)


def _is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


@asynccontextmanager
async def _counted(port: int, seen: Seen) -> AsyncIterator[None]:
    async def look() -> None:
        counts: list[int] = []
        try:
            while True:
                await anyio.sleep(_LOOK_S)
                counts.append(await to_thread.run_sync(connections_to, port))
        finally:
            seen.connections = max(counts, default=0)
            seen.lasting_connections = sorted(counts)[len(counts) // 2] if counts else 0

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        yield
        group.cancel_scope.cancel()


async def _watch(kind: str, watched: list[Watched]) -> Seen:
    runtime = open_runtime()
    seen = Seen()
    try:
        await runtime.host.model_catalog()
        before, began, cpu = most_mib(), time.monotonic(), time.process_time()
        async with _counted(int(runtime.host.origin.rpartition(":")[2]), seen):
            await (watch_ours if kind == "ours" else watch_raw)(runtime, watched, seen)
        seen.seconds, seen.cpu_s = time.monotonic() - began, time.process_time() - cpu
        seen.mib = most_mib()
        seen.added_mib = seen.mib - before
    finally:
        await runtime.aclose()
    return seen


def main(kind: str) -> None:
    print("ready", flush=True)
    watched = msgspec.json.decode(sys.stdin.readline(), type=list[Watched])
    print(msgspec.json.encode(anyio.run(_watch, kind, watched)).decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
