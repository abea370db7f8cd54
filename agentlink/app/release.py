"""Giving a workspace claim back (design section 6). The task on the Host is not touched."""

from agentlink.app.attempt import Attempt
from agentlink.app.look import find_task, settle_task
from agentlink.app.results import Released, claim_info
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import ClaimReleased
from agentlink.core.host.timeline import FINISHED
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import TaskView

CONFIRM_WAIT_S = 2.5
"""A prompt's event must be a second old by the Host's clock, which tells whole seconds."""
CONFIRM_POLL_S = 0.25


async def release_workspace(runtime: Runtime, task: TaskId, *, force: bool = False) -> Released:
    """Frees the task's claim. Raises Failure workspace_claim_missing, task_busy (without force) or journal_*.

    A launch that is neither confirmed nor failed counts as busy; so does a task whose turn is not known to be over.
    """
    view = await find_task(runtime, task)
    view = (await settle_task(runtime, view))[0] if force else await _confirmed_soon(runtime, view)
    if not view.launch.claim_held:
        raise _missing(view.launch.state, view.task, view.launch.session, view.launch.prompt_sent)
    if not force:
        await _refuse_if_busy(runtime, task)
    async with runtime.store.drive(task):
        attempt = Attempt(runtime, await find_task(runtime, task))
        launch = attempt.launch
        if not launch.claim_held:
            raise _missing(launch.state, task, launch.session, launch.prompt_sent)
        if not force and not launch.settled:
            raise attempt.failure(Code.TASK_BUSY, "the launch is not settled yet")
        await attempt.record(ClaimReleased(forced=force))
        return Released(task_id=task, claim=claim_info(attempt.launch))


async def _confirmed_soon(runtime: Runtime, view: TaskView) -> TaskView:
    """The task after what can be settled; a prompt that was sent a moment ago is given the time to be confirmed."""
    view, problem = await settle_task(runtime, view)
    deadline = runtime.clock.now() + CONFIRM_WAIT_S
    while problem is None and not view.launch.settled and runtime.clock.now() < deadline:
        await runtime.clock.sleep(CONFIRM_POLL_S)
        view, problem = await settle_task(runtime, view)
    return view


async def _refuse_if_busy(runtime: Runtime, task: TaskId) -> None:
    status = await task_status(runtime, task)
    if status.launch.confirmed and (status.execution in FINISHED or status.availability == "session_not_found"):
        return
    raise Failure(
        Code.TASK_BUSY,
        f"the task is {status.execution} (launch {status.launch.stage}, Host {status.availability})",
        stage=status.launch.stage,
        task=task,
        session=status.session_id,
        prompt_sent=status.launch.prompt_sent,
        details={"execution": status.execution, "availability": status.availability},
    )


def _missing(stage: str, task: str, session: str | None, prompt_sent: bool | None) -> Failure:  # noqa: FBT001
    return Failure(
        Code.WORKSPACE_CLAIM_MISSING,
        "the task holds no workspace claim",
        stage=stage,
        task=task,
        session=session,
        prompt_sent=prompt_sent,
    )
