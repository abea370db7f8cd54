"""The status of one task in journals of growing size, and with more to tell, against the raw reads that it needs."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio

from agentlink.app.conversation import read_conversation
from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.look import find_task
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.ids import TaskId
from agentlink.core.supervision.status import GOING_ON
from tests.bench.context import Context
from tests.bench.delegate import PROMPT, Bench, open_bench
from tests.bench.rows import Row
from tests.bench.timing import alternately_awaited, median

NAME = "status"
_CALL = '[[tool: bash {"command":"echo hi","description":"says hi"}]] '
_CHILD = '[[tool: subagent {"description":"helps","prompt":"[[say: helped]]"}]] '


async def confirmed_task(
    runtime: Runtime, cwd: str, *, prompt: str = PROMPT, preset: str = "minimal"
) -> tuple[TaskId, str]:
    """A delegated task whose prompt is confirmed and whose turn has ended, and its session."""
    done = await delegate(runtime, DelegateRequest(prompt=prompt, cwd=cwd, preset=preset, claim="read-only"))
    task = TaskId(done.task_id)
    while True:
        status = await task_status(runtime, task)
        if status.launch.confirmed and status.execution not in GOING_ON:
            break
        await anyio.sleep(0.2)
    if status.execution != "turn_completed":
        raise RuntimeError(f"the task ended with {status.execution}")
    return task, status.session_id or ""


def run(context: Context) -> list[Row]:
    """One row for each size of the journal, then a longer conversation and one with subagents."""
    rows = [anyio.run(_at, context, tasks) for tasks in (1, 100, 1_000, context.many)]
    return [*rows, *anyio.run(_with_more, context)]


async def _at(context: Context, tasks: int) -> Row:
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, context, context.home_with(tasks - 1))
        task, session = await confirmed_task(bench.runtime, bench.cwd)
        figure = f"one of {tasks:,} task{'s' if tasks > 1 else ''}"
        return await _row(context, bench, figure, task, session, children=())


async def _with_more(context: Context) -> list[Row]:
    calls, children = context.count(20, 2), context.count(4, 1)
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, context, context.new_home())
        task, session = await confirmed_task(bench.runtime, bench.cwd, prompt=f"{_CALL * calls}{PROMPT}")
        rows = [await _row(context, bench, f"a turn of {calls} tool calls", task, session, children=())]
        task, session = await confirmed_task(
            bench.runtime, bench.cwd, prompt=f"{_CHILD * children}{PROMPT}", preset="standard"
        )
        found = await _settled_children(bench.runtime, task, children)
        words = f"with {children} subagent{'s' if children > 1 else ''}"
        return [*rows, await _row(context, bench, words, task, session, children=found)]


async def _settled_children(runtime: Runtime, task: TaskId, count: int) -> tuple[str, ...]:
    """The subagents, once all of them and whatever they woke are quiet."""
    quiet = 0
    while True:
        view = await find_task(runtime, task)
        conversation = await read_conversation(runtime, view.launch)
        quiet = quiet + 1 if conversation.now().execution not in GOING_ON else 0
        if quiet > 5 and len(conversation.descendants) == count:
            return tuple(child.ref.session for child in conversation.descendants)
        await anyio.sleep(0.2)


async def _row(
    context: Context, bench: Bench, figure: str, task: TaskId, session: str, *, children: tuple[str, ...]
) -> Row:
    async def ours() -> None:
        await task_status(bench.runtime, task)

    async def child(name: str) -> None:
        await bench.raw.look(name, parent=session)

    async def reads() -> None:
        await bench.raw.look(session)
        async with anyio.create_task_group() as group:
            for name in children:
                group.start_soon(child, name)

    mine, limit = await alternately_awaited(ours, reads, rounds=context.count(100, 5))
    return Row(
        bench=NAME,
        figure=figure,
        ours=median(mine),
        unit="ms",
        limit=median(limit),
        limit_is="state, last turn" + (" of each" if children else ""),
        compared="difference",
        target=5,
    )
