"""A delegation against the Host calls that it carries, each in a fresh session of the same Host, in turns."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import anyio

from agentlink.app.conversation import read_session
from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.core.host.timeline import FINISHED, session_execution
from agentlink.host.cookies import CookieFiles
from tests.bench.clocked_host import HostClock
from tests.bench.context import Context
from tests.bench.raw import RawHost
from tests.bench.rows import Row
from tests.bench.timing import alternately_awaited, median, p95

NAME = "delegate"
PROMPT = "[[say: ok]]"
_CARRIED = "create, model catalog, state, prompt"


class Compared(NamedTuple):
    """Milliseconds of every round; `own` is ours without its Host calls, of which there were at most `calls`."""

    ours: list[float]
    carried: list[float]
    own: list[float]
    calls: int


class Bench:
    """One runtime and one raw client on the lab's Host, and where the last launch can be seen to end."""

    def __init__(self, runtime: Runtime, raw: RawHost, cwd: Path) -> None:
        self.runtime = runtime
        self.raw = raw
        self.cwd = str(cwd)
        self.clock = HostClock(runtime.host)
        self.last_session = ""
        self.own_ms: list[float] = []
        self.calls: list[int] = []

    async def ours(self) -> None:
        request = DelegateRequest(prompt=PROMPT, cwd=self.cwd, preset="minimal", claim="read-only")
        began = perf_counter()
        done = await delegate(self.runtime, request)
        ms, calls = (perf_counter() - began) * 1_000, self.clock.take()
        self.own_ms.append(ms - calls.ms)
        self.calls.append(calls.number)
        self.last_session = done.session_id or ""

    async def carried(self) -> None:
        self.last_session = await self.raw.launch(cwd=self.cwd, prompt=PROMPT)

    async def settled(self) -> None:
        """Waits until the Host is quiet again, so that no turn runs beside the next measurement."""
        host = self.runtime.host
        while True:
            read = await read_session(host, self.last_session)
            if read is not None and session_execution(read.timeline, now_ms=read.host_now_ms) in FINISHED:
                break
            await anyio.sleep(0.02)
        await anyio.sleep(0.05)
        self.clock.take()


async def open_bench(stack: AsyncExitStack, context: Context, home: Path) -> Bench:
    """Logs in with that home and opens both sides."""
    runtime = open_runtime(context.environment(home, host=True))
    stack.push_async_callback(runtime.aclose)
    await runtime.host.model_catalog()
    cookie = CookieFiles(home / "cookies").load(runtime.host.origin)
    if cookie is None:
        raise RuntimeError("the Host gave no login")
    raw = RawHost(cookie)
    stack.push_async_callback(raw.aclose)
    cwd = context.lab().host.workspace / f"w-{secrets.token_hex(4)}"
    cwd.mkdir()
    return Bench(runtime, raw, cwd)


async def compare(bench: Bench, *, rounds: int) -> Compared:
    """Both sides in turns, each on a Host that has become quiet."""
    bench.own_ms.clear()
    ours, carried = await alternately_awaited(bench.ours, bench.carried, rounds=rounds, warm=3, after=bench.settled)
    return Compared(ours, carried, bench.own_ms[3:], max(bench.calls))


def run(context: Context) -> list[Row]:
    """Few sessions, then many; then a journal in which many tasks hold claims."""
    return anyio.run(_run, context)


async def _run(context: Context) -> list[Row]:
    rounds = context.count(60, 3)
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, context, context.new_home())
        rows = _rows("few sessions", await compare(bench, rounds=rounds))
        more = context.count(200, 3)
        context.tell(f"{more} more sessions")
        for _ in range(more):
            await bench.carried()
        await bench.settled()
        rows += _rows(f"{more} more sessions", await compare(bench, rounds=rounds))
        return [*rows, await _with_claims(stack, context)]


async def _with_claims(stack: AsyncExitStack, context: Context) -> Row:
    """Finished tasks hold their claims until they are released: the look for a conflict must not grow with them."""
    held = context.count(2_000, 20)
    bench = await open_bench(stack, context, context.home_with(held, held=True))
    found = await compare(bench, rounds=context.count(15, 2))
    figure = f"our own work, {held:,} held read-only claims"
    return Row(bench=NAME, figure=figure, ours=median(found.own), unit="ms", target=10)


def _rows(host: str, found: Compared) -> list[Row]:
    def against(figure: str, mine: float, limit: float, *, target: float | None) -> Row:
        return Row(
            bench=NAME,
            figure=f"{figure}, {host}",
            ours=mine,
            unit="ms",
            limit=limit,
            limit_is=_CARRIED,
            compared="difference",
            target=target,
        )

    return [
        against("median", median(found.ours), median(found.carried), target=10),
        against("95th percentile", p95(found.ours), p95(found.carried), target=None),
        Row(bench=NAME, figure=f"our own work, {host}", ours=median(found.own), unit="ms", target=10),
        Row(bench=NAME, figure=f"Host calls, {host}", ours=found.calls, unit="calls", limit=4, compared="difference"),
    ]
