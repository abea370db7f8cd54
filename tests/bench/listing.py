"""A page of 50 tasks out of journals of growing size, with no Host there; then of tasks that a real Host works on."""

from __future__ import annotations

from contextlib import AsyncExitStack
from time import perf_counter

import anyio
import msgspec

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.listing import StateFilter, list_tasks
from agentlink.app.results import TaskList
from agentlink.app.runtime import open_runtime
from agentlink.core.ids import TaskId
from tests.bench.clocked_host import HostClock
from tests.bench.context import Context
from tests.bench.delegate import PROMPT, open_bench
from tests.bench.rows import Row
from tests.bench.synthetic import CWD
from tests.bench.timing import alternately_awaited, median

NAME = "list"
_PAGE = 50


def run(context: Context) -> list[Row]:
    """Time for each size; bytes and calls of the largest; then two pages of a Host's own tasks."""
    sizes = (1, 100, 1_000, context.many)
    rows, pages, calls = [], [], list[int]()
    for tasks in sizes:
        ms, page, made = anyio.run(_page, context, tasks, None)
        rows.append(_time(f"50 of {tasks:,}" if tasks > 1 else "1 of 1", ms))
        pages.append(page)
        calls.append(made)
    ms, _, made = anyio.run(_page, context, context.many, "unfinished")
    rows.append(_time(f"the unfinished of {context.many:,}: none", ms))
    size = len(msgspec.json.encode(pages[-1]))
    return [
        *rows,
        Row(bench=NAME, figure="a page of 50 as compact JSON", ours=size, unit="B", target=10_000),
        Row(bench=NAME, figure="Host calls of a list, most", ours=max(*calls, made), unit="calls", target=1),
        *anyio.run(_of_the_host, context),
    ]


def _time(figure: str, ms: float) -> Row:
    return Row(bench=NAME, figure=figure, ours=ms, unit="ms", target=100)


async def _page(context: Context, tasks: int, state: StateFilter | None) -> tuple[float, TaskList, int]:
    runtime = open_runtime(context.environment(context.journal(tasks).home))
    clock = HostClock(runtime.host)
    calls: list[int] = []
    page = await list_tasks(runtime, state=state)
    clock.take()

    async def ours() -> None:
        await list_tasks(runtime, state=state)

    async def count() -> None:
        calls.append(clock.take().number)

    (times,) = await alternately_awaited(ours, rounds=context.count(40, 3), after=count)
    await runtime.aclose()
    return median(times), page, max(calls)


async def _of_the_host(context: Context) -> list[Row]:
    """Tasks that were delegated to a real Host: every page asks it once which of them are at work."""
    tasks, page = context.count(2 * _PAGE, 6), context.count(_PAGE, 3)
    own: list[float] = []
    calls: list[int] = []
    found: list[TaskList] = []
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, context, context.new_home())
        asked = DelegateRequest(prompt=PROMPT, cwd=bench.cwd, preset="minimal", claim="read-only")
        for _ in range(tasks):
            bench.last_session = (await delegate(bench.runtime, asked)).session_id or ""
        await bench.settled()

        async def ours() -> None:
            """Both pages, as a caller turns them."""
            before: TaskId | None = None
            for _ in range(2):
                bench.clock.take()
                began = perf_counter()
                listed = await list_tasks(bench.runtime, limit=page, before=before)
                ms, host = (perf_counter() - began) * 1_000, bench.clock.take()
                own.append(ms - host.ms)
                calls.append(host.number)
                found.append(listed)
                before = TaskId(listed.tasks[-1].task_id)

        async def limit() -> None:
            for _ in range(2):
                await bench.raw.call("session/list", {"_request": {}})

        mine, raw = await alternately_awaited(ours, limit, rounds=context.count(20, 2))
    if any(row.running is None for listed in found for row in listed.tasks):
        raise RuntimeError("a list does not say what is at work")
    return [
        Row(
            bench=NAME,
            figure=f"2 pages of {page} of {tasks} tasks of the Host",
            ours=median(mine),
            unit="ms",
            limit=median(raw),
            limit_is="its list, twice",
            compared="difference",
            target=100,
        ),
        Row(bench=NAME, figure="… our own work a page, most", ours=max(own), unit="ms", target=100),
        Row(bench=NAME, figure="… Host calls a page, most", ours=max(calls), unit="calls", target=1),
        Row(
            bench=NAME,
            figure="… a page as compact JSON, most",
            ours=max(len(msgspec.json.encode(listed).replace(bench.cwd.encode(), CWD.encode())) for listed in found),
            unit="B",
            target=10_000,
        ),
    ]
