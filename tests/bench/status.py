"""The status of one task in journals of growing size, against the two raw reads that it needs."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.ids import TaskId
from tests.bench.context import Context
from tests.bench.delegate import PROMPT, open_bench
from tests.bench.rows import Row
from tests.bench.timing import alternately_awaited, median

NAME = "status"


async def confirmed_task(runtime: Runtime, cwd: str) -> tuple[TaskId, str]:
    """A delegated task whose prompt is confirmed and whose turn has ended, and its session."""
    done = await delegate(runtime, DelegateRequest(prompt=PROMPT, cwd=cwd, preset="minimal", claim="read-only"))
    task = TaskId(done.task_id)
    while True:
        status = await task_status(runtime, task)
        if status.launch.confirmed and status.execution == "turn_completed":
            return task, status.session_id or ""
        await anyio.sleep(0.2)


def run(context: Context) -> list[Row]:
    """One row for each size of the journal."""
    return [anyio.run(_at, context, tasks) for tasks in (1, 100, 1_000, context.many)]


async def _at(context: Context, tasks: int) -> Row:
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, context, context.home_with(tasks - 1))
        task, session = await confirmed_task(bench.runtime, bench.cwd)

        async def ours() -> None:
            await task_status(bench.runtime, task)

        async def reads() -> None:
            await bench.raw.look(session)

        mine, limit = await alternately_awaited(ours, reads, rounds=context.count(100, 5))
    return Row(
        bench=NAME,
        figure=f"one of {tasks:,} task{'s' if tasks > 1 else ''}",
        ours=median(mine),
        unit="ms",
        limit=median(limit),
        limit_is="state, last turn",
        compared="difference",
        target=5,
    )
