"""A page of 50 tasks out of journals of growing size: time, bytes, and no Host call."""

from __future__ import annotations

import anyio
import msgspec

from agentlink.app.listing import StateFilter, list_tasks
from agentlink.app.results import TaskList
from agentlink.app.runtime import open_runtime
from tests.bench.clocked_host import HostClock
from tests.bench.context import Context
from tests.bench.rows import Row
from tests.bench.timing import alternately_awaited, median

NAME = "list"


def run(context: Context) -> list[Row]:
    """Time for each size; bytes and calls of the largest."""
    sizes = (1, 100, 1_000, context.many)
    rows, pages, calls = [], [], 0
    for tasks in sizes:
        ms, page, made = anyio.run(_page, context, tasks, None)
        rows.append(_time(f"50 of {tasks:,}" if tasks > 1 else "1 of 1", ms))
        pages.append(page)
        calls += made
    ms, _, made = anyio.run(_page, context, context.many, "unfinished")
    rows.append(_time(f"the unfinished of {context.many:,}: none", ms))
    size = len(msgspec.json.encode(pages[-1]))
    return [
        *rows,
        Row(bench=NAME, figure="a page of 50 as compact JSON", ours=size, unit="B", target=10_000),
        Row(bench=NAME, figure="Host calls of all lists", ours=calls + made, unit="calls", target=1),
    ]


def _time(figure: str, ms: float) -> Row:
    return Row(bench=NAME, figure=figure, ours=ms, unit="ms", target=100)


async def _page(context: Context, tasks: int, state: StateFilter | None) -> tuple[float, TaskList, int]:
    runtime = open_runtime(context.environment(context.journal(tasks).home))
    clock = HostClock(runtime.host)
    page = await list_tasks(runtime, state=state)

    async def ours() -> None:
        await list_tasks(runtime, state=state)

    (times,) = await alternately_awaited(ours, rounds=context.count(40, 3))
    return median(times), page, clock.take().number
