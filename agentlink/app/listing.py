"""The list of tasks: journal facts, newest first, and whether each is at work by one bounded call of the Host.

It settles nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import anyio
import msgspec

from agentlink.app.look import find_task
from agentlink.app.results import TaskList, TaskRow
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import HostFault
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.decide import stop_for_fault
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch

MAX_ROWS = 200
PAGE_BYTES = 39_000
RUNNING_WITHIN_S = 2.0
"""A Host with very many sessions takes longer: then the list says less, and stays quick."""
StateFilter = Literal["unfinished", "failed", "sent", "claimed"]


async def list_tasks(
    runtime: Runtime, *, limit: int = 50, before: TaskId | None = None, state: StateFilter | None = None
) -> TaskList:
    """One page of tasks. Raises Failure invalid_request, task_not_found (for `before`) or journal_*.

    Without the Host's answer the rows do not say whether they are at work, and a warning says why.
    """
    if not 1 <= limit <= MAX_ROWS:
        raise Failure(Code.INVALID_REQUEST, f"limit is 1 to {MAX_ROWS}", details={"argument": "limit"})
    if before is not None:
        await find_task(runtime, before)
    rows = await runtime.store.page(limit=limit + 1, before=before, kind=state)
    problem = await runtime.store.problem()
    running, fault = await _running(runtime, rows[:limit])
    warnings = () if problem is None else (f"{problem.code.value}: {problem.message}",)
    tasks = _fitting([_row(view, running) for view in rows[:limit]])
    return TaskList(
        tasks=tasks,
        next=tasks[-1].task_id if len(tasks) < len(rows) else None,
        warnings=(*warnings, *(() if fault is None else (f"running is not known: {fault}",))),
    )


def _fitting(rows: Sequence[TaskRow]) -> tuple[TaskRow, ...]:
    """As many rows as a caller takes in one reply, at least one; `next` leads to the others (field case F5)."""
    size, fitting = 0, 0
    for row in rows:
        size += len(msgspec.json.encode(row)) + 1
        if fitting and size > PAGE_BYTES:
            break
        fitting += 1
    return tuple(rows[:fitting])


async def _running(runtime: Runtime, rows: Sequence[TaskView]) -> tuple[Mapping[str, bool], str | None]:
    """Which sessions are at work, by at most one call of the Host, and why that is not known."""
    if not any(_asked_about(runtime, view.launch) for view in rows):
        return {}, None
    try:
        with anyio.fail_after(RUNNING_WITHIN_S):
            return await runtime.host.running(), None
    except HostFault as fault:
        return {}, stop_for_fault(fault).code.value
    except TimeoutError:
        return {}, f"the Host did not answer within {RUNNING_WITHIN_S:g} s"


def _asked_about(runtime: Runtime, launch: Launch) -> bool:
    return launch.state == machine.PROMPT_SENT and launch.origin == runtime.host.origin


def _row(view: TaskView, running: Mapping[str, bool]) -> TaskRow:
    launch: Launch = view.launch
    return TaskRow(
        task_id=view.task,
        stage=launch.state,
        cwd=launch.cwd,
        preset=launch.resolved or launch.preset or launch.asked_preset,
        code=launch.code,
        claim_held=launch.claim_held,
        unfinished=not launch.settled,
        abandoned=launch.abandoned,
        running=running.get(launch.session or "") if launch.state == machine.PROMPT_SENT else None,
        created_at=view.created_at,
    )
