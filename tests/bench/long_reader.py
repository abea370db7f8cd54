"""One reading of a long session, timed beside the raw calls, in a process whose memory is looked at.

`python -m tests.bench.long_reader status|first|near|whole|follow TASK EVENTS [--profile]`
"""

from __future__ import annotations

import cProfile
import os
import pstats
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import msgspec

from agentlink.app.conversation import read_conversation
from agentlink.app.live import following
from agentlink.app.look import find_task
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.status import task_status
from agentlink.app.tail import tail
from agentlink.core.ids import TaskId
from agentlink.core.supervision.cursor import Cursor, Mark, encode
from agentlink.host.cookies import CookieFiles
from tests.bench.raw import RawFollower, RawHost, raw_follower

_FIRST_MESSAGES = 20
_NEAR = 40


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `mib` is what the process grew by, at most."""

    ms: float
    mib: float
    replies: int = 0
    events: int = 0
    raw_ms: float | None = None
    raw_is: str = ""


class Reader:
    """One task, read in all ways."""

    def __init__(self, runtime: Runtime, task: TaskId, events: int) -> None:
        self.runtime = runtime
        self.task = task
        self.events = events
        self.session = ""
        self.replies = self.told = 0

    async def status(self) -> None:
        await task_status(self.runtime, self.task)

    async def first(self) -> None:
        await tail(self.runtime, self.task)

    async def near(self) -> None:
        await tail(self.runtime, self.task, cursor=encode(Cursor(self.task, Mark(self.events - _NEAR))))

    async def whole(self) -> None:
        cursor = None
        while True:
            reply = await tail(self.runtime, self.task, cursor=cursor)
            self.replies += 1
            self.told += len(reply.events)
            cursor = reply.cursor
            if not reply.more:
                return

    async def follow(self) -> None:
        view = await find_task(self.runtime, self.task)
        conversation = await read_conversation(self.runtime, view.launch)
        async with following(self.runtime, conversation) as live:
            await live.changed()

    # -- the same without the product

    async def raw_status(self, raw: RawHost, _: RawFollower) -> None:
        await raw.look(self.session)

    async def raw_first(self, raw: RawHost, _: RawFollower) -> None:
        await self._state(raw)
        await raw.page(self.session, through=_FIRST_MESSAGES - 1, messages=_FIRST_MESSAGES)

    async def raw_near(self, raw: RawHost, _: RawFollower) -> None:
        await raw.page(self.session, through=await self._state(raw), messages=_NEAR // 4)

    async def raw_whole(self, raw: RawHost, _: RawFollower) -> None:
        last = await self._state(raw)
        before: int | None = None
        while before is None or before > 0:
            page = await raw.page(self.session, through=last, before=before, messages=128)
            before = page["records"][0]["event"]["seq"]

    async def raw_follow(self, raw: RawHost, follower: RawFollower) -> None:
        await raw.look(self.session)
        there = anyio.Event()

        def told(_value: dict[str, Any], _at: float) -> None:
            there.set()

        await follower.follow(self.session, told)
        await there.wait()

    async def _state(self, raw: RawHost) -> int:
        state = await raw.call("session/projections", {"request": {"sessionId": self.session}})
        return int(state["asOfSeq"])


_RAW_IS = {
    "status": "state, last turn",
    "first": "state, one page",
    "near": "state, one page",
    "whole": "all pages",
    "follow": "state, last turn, snapshot",
}


def most_mib() -> float:
    """The most memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # elsewhere the parent's memory before the start may count too
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20) if sys.platform == "darwin" else most / 1024


async def _read(kind: str, task: TaskId, events: int, profile: cProfile.Profile | None) -> Told:
    runtime = open_runtime()
    try:
        async with anyio.create_task_group() as background:
            runtime.to_the_end.group = background
            reader = Reader(runtime, task, events)
            view = await find_task(runtime, task)
            reader.session = view.launch.session or ""
            await runtime.host.session_state(reader.session)  # loads the session into the Host, and logs in
            if kind == "follow":
                import agentlink.host.stream  # noqa: F401
            before = most_mib()
            ms = await _timed(getattr(reader, kind), profile)
            grown = most_mib() - before
            raw_ms = await _raw_ms(runtime, getattr(reader, f"raw_{kind}"))
            background.cancel_scope.cancel()
    finally:
        await runtime.aclose()
    return Told(ms=ms, mib=grown, replies=reader.replies, events=reader.told, raw_ms=raw_ms, raw_is=_RAW_IS[kind])


async def _timed(work: Callable[[], Awaitable[None]], profile: cProfile.Profile | None = None) -> float:
    began = perf_counter()
    if profile is not None:
        profile.enable()
    await work()
    if profile is not None:
        profile.disable()
    return (perf_counter() - began) * 1_000


async def _raw_ms(runtime: Runtime, work: Callable[[RawHost, RawFollower], Awaitable[None]]) -> float:
    cookie = CookieFiles(Path(os.environ["AGENTLINK_HOME"]) / "cookies").load(runtime.host.origin)
    if cookie is None:
        raise RuntimeError("no login")
    raw = RawHost(cookie)
    try:
        async with raw_follower(cookie) as follower:
            return await _timed(lambda: work(raw, follower))
    finally:
        await raw.aclose()


def main(kind: str, task: str, events: str, *options: str) -> None:
    profile = cProfile.Profile() if "--profile" in options else None
    told = anyio.run(_read, kind, TaskId(task), int(events), profile)
    print(msgspec.json.encode(told).decode(), flush=True)
    if profile is not None:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main(*sys.argv[1:])
