"""The list of tasks: journal facts only, newest first. It settles nothing and asks the Host nothing."""

from typing import Literal

from agentlink.app.look import find_task
from agentlink.app.results import TaskList, TaskRow
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch

MAX_ROWS = 200
StateFilter = Literal["unfinished", "failed", "sent", "claimed"]


async def list_tasks(
    runtime: Runtime, *, limit: int = 50, before: TaskId | None = None, state: StateFilter | None = None
) -> TaskList:
    """One page of tasks. Raises Failure invalid_request, task_not_found (for `before`) or journal_*."""
    if not 1 <= limit <= MAX_ROWS:
        raise Failure(Code.INVALID_REQUEST, f"limit is 1 to {MAX_ROWS}", details={"argument": "limit"})
    if before is not None:
        await find_task(runtime, before)
    rows = await runtime.store.page(limit=limit + 1, before=before, kind=state)
    more = len(rows) > limit
    problem = await runtime.store.problem()
    return TaskList(
        tasks=tuple(_row(view) for view in rows[:limit]),
        next=rows[limit - 1].task if more else None,
        warnings=() if problem is None else (f"{problem.code.value}: {problem.message}",),
    )


def _row(view: TaskView) -> TaskRow:
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
        created_at=view.created_at,
    )
