"""Settling follow-ups whose outcome is not final, by reading the Host's history: never by sending again."""

from msgspec.structs import replace

from agentlink.app.look import find_task
from agentlink.app.read_log import late_standing_of
from agentlink.app.runtime import Runtime
from agentlink.app.settle import other_host, prove_host, proven
from agentlink.app.writing import Writing
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import WriteOutcome
from agentlink.core.host.faults import HostFault
from agentlink.core.host.find_prompt import Found
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.settle import Seen
from agentlink.core.launch.settle_write import write_outcome
from agentlink.core.launch.state import Launch
from agentlink.core.launch.writes import FOLLOWUPS, Write


async def settle_writes(runtime: Runtime, view: TaskView) -> TaskView:
    """The task after what can be settled of its follow-ups; what cannot be told now stays open.

    An intent of another kind whose writer is gone is closed as unknown: what it did is in the log for everybody.
    """
    if not view.launch.writes.open or view.launch.state != machine.PROMPT_SENT:
        return view
    if other_host(runtime, view.launch) is not None:
        return view
    try:
        async with runtime.store.drive(view.task):
            writing = Writing(runtime, await find_task(runtime, view.task))
            quiet_since = runtime.clock.now()
            for write in writing.launch.writes.open:
                await _settle(runtime, writing, write, quiet_since=quiet_since)
            return TaskView(view.task, writing.launch, writing.n, view.created_at)
    except Failure as failure:
        if failure.code not in (Code.LAUNCH_IN_PROGRESS, Code.LOCK_TIMEOUT, Code.JOURNAL_UNWRITABLE):
            raise
        # Somebody writes right now, or nothing can be recorded: the task is shown as it stands.
        return await find_task(runtime, view.task)
    except HostFault:
        return await find_task(runtime, view.task)


async def _settle(runtime: Runtime, writing: Writing, write: Write, *, quiet_since: float) -> None:
    if write.kind not in FOLLOWUPS:
        await writing.settle(write.request, "unknown")
        return
    outcome = await outcome_in_history(runtime, writing.launch, write, quiet_since=quiet_since)
    if outcome is not None:
        await writing.settle(write.request, outcome)


async def outcome_in_history(
    runtime: Runtime, launch: Launch, write: Write, *, quiet_since: float
) -> WriteOutcome | None:
    """What the Host's history proves of a follow-up; None while it proves nothing new. Raises HostFault.

    Takes up to QUIET_S seconds when only time can tell that nothing is on its way any more.
    """
    if write.outcome == "receipt":
        # The Host has answered: nothing of this call can be on its way any more.
        return write_outcome(write, replace(await _look(runtime, launch, write), nothing_underway=True))
    return await proven(
        runtime,
        lambda: _look(runtime, launch, write),
        lambda seen: write_outcome(write, seen),
        quiet_since=quiet_since,
    )


async def _look(runtime: Runtime, launch: Launch, write: Write) -> Seen:
    session = launch.session or ""
    state = await runtime.host.session_state(session)
    if state is None:
        return Seen(session_exists=False, host_proof=await prove_host(runtime, launch, session))
    if write.request in state.waiting:
        return Seen(session_exists=True, found=Found("waiting"))
    found, now = await late_standing_of(runtime.host, session, write.request, last_seq=state.last_seq)
    return Seen(session_exists=True, found=found, host_proof="sibling", host_now_ms=now)
