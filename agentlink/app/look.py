"""Looking at a task: settle first what can be settled, as every reader of a task does."""

from agentlink.app.attempt import Attempt
from agentlink.app.runtime import Runtime
from agentlink.app.settle import other_host, settle_attempt
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId
from agentlink.core.launch.decide import failure_for
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.settle import Look, settlement


async def find_task(runtime: Runtime, task: TaskId) -> TaskView:
    """The task as the journal has it. Raises Failure task_not_found, or why the journal cannot tell."""
    view = await runtime.store.task(task)
    if view is None:
        raise Failure(Code.TASK_NOT_FOUND, f"no task {task} in this journal", task=task, prompt_sent=None)
    return view


async def settle_task(
    runtime: Runtime, view: TaskView, *, person_confirms: bool = False
) -> tuple[TaskView, Failure | None]:
    """The task after whatever can be settled now, and why not more could be.

    Takes the task lock: a launch that a live process drives is left alone and said to be in progress.
    """
    step = settlement(view.launch, None)
    if step is None:
        return view, None
    other = other_host(runtime, view.launch)
    if isinstance(step, Look) and other is not None and not person_confirms:
        return view, other.located(stage=None, task=view.task, session=None, prompt_sent=other.prompt_sent)
    try:
        async with runtime.store.drive(view.task):
            # Whoever drove it is gone now, and its connections with it.
            quiet_since = runtime.clock.now()
            attempt = Attempt(runtime, await find_task(runtime, view.task))
            fault = await settle_attempt(runtime, attempt, quiet_since=quiet_since, person_confirms=person_confirms)
            settled = TaskView(view.task, attempt.launch, attempt.n, view.created_at)
    except Failure as failure:
        return await find_task(runtime, view.task), failure
    if fault is None:
        return settled, None
    return settled, failure_for(fault)
