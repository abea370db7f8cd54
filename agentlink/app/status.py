"""One task's status: the launch replayed from the journal, the conversation read from the Host at this moment."""

from agentlink.app.look import find_task, settle_task
from agentlink.app.results import FailureInfo, LaunchDetail, PathStage, TaskStatus, claim_info
from agentlink.app.runtime import Runtime
from agentlink.app.settle import prove_host
from agentlink.core.errors import NEXT, Code, Failure
from agentlink.core.host.faults import HostFault
from agentlink.core.host.timeline import FINISHED, LastTurn, last_turn
from agentlink.core.host.values import Event
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.decide import stop_for_fault
from agentlink.core.launch.history import Recorded, Stage, replay, route_record, stages
from agentlink.core.launch.state import Launch

_TAIL_MESSAGES = 20
NO_MESSAGE = "turn_ended_without_message"


class _Conversation:
    """What the Host says of the session now."""

    def __init__(self, *, availability: str, turn: LastTurn, waiting: int = 0, failure: Failure | None = None) -> None:
        self.availability = availability
        self.turn = turn
        self.waiting = waiting
        self.failure = failure


async def task_status(runtime: Runtime, task: TaskId) -> TaskStatus:
    """The task as it is now; settles an interrupted launch first. Raises Failure task_not_found or journal_*."""
    view, problem = await settle_task(runtime, await find_task(runtime, task))
    conversation = await _conversation(runtime, view.launch, problem)
    history = await runtime.store.history(task)
    return _status(view.task, history, conversation, problem)


async def _conversation(runtime: Runtime, launch: Launch, problem: Failure | None) -> _Conversation:
    if launch.state != machine.PROMPT_SENT:
        availability = "connected" if problem is None else _availability(problem)
        return _Conversation(availability=availability, turn=LastTurn(execution="not_started"))
    unknown = LastTurn(execution="unknown")
    if launch.origin != runtime.host.origin:
        other = f"the task belongs to {launch.origin}, not to {runtime.host.origin}"
        return _Conversation(availability="host_changed", turn=unknown, failure=Failure(Code.HOST_CHANGED, other))
    session = launch.session or ""
    try:
        state = await runtime.host.session_state(session)
        if state is None:
            known = await prove_host(runtime, launch, session) is not None
            code = Code.SESSION_NOT_FOUND if known else Code.HOST_CHANGED
            return _Conversation(
                availability=code.value, turn=unknown, failure=Failure(code, f"this Host has no session {session}")
            )
        events: tuple[Event, ...] = ()
        if state.last_seq >= 0:
            page = await runtime.host.page(session, through=state.last_seq, messages=_TAIL_MESSAGES, whole_turn=True)
            events = page.events
    except HostFault as fault:
        stop = stop_for_fault(fault)
        failure = Failure(stop.code, stop.message, details=stop.details)
        return _Conversation(availability=_availability(failure), turn=unknown, failure=failure)
    waiting = len(state.waiting)
    return _Conversation(availability="connected", turn=last_turn(events, waiting=waiting), waiting=waiting)


def _availability(failure: Failure) -> str:
    """Availability is about the Host; a failure of ours leaves it unknown."""
    named = (
        Code.HOST_UNREACHABLE,
        Code.LOGIN_REQUIRED,
        Code.HOST_UNSUPPORTED,
        Code.HOST_CHANGED,
        Code.SESSION_NOT_FOUND,
        Code.BAD_HOST_REPLY,
        Code.HOST_ERROR,
    )
    return failure.code.value if failure.code in named else "unknown"


def _status(
    task: TaskId, history: tuple[Recorded, ...], conversation: _Conversation, problem: Failure | None
) -> TaskStatus:
    # Another process may have appended since the task was looked at: the story told is that of the lines read last.
    launch, turn = replay(history), conversation.turn
    finished = turn.execution in FINISHED
    missing = None
    if finished and turn.final_text is None:
        missing = NO_MESSAGE
    elif not finished:
        missing = turn.execution if conversation.availability == "connected" else conversation.availability
    return TaskStatus(
        task_id=task,
        session_id=launch.session,
        availability=conversation.availability,
        execution=turn.execution,
        launch=LaunchDetail(
            stage=launch.state,
            prompt_sent=launch.prompt_sent,
            confirmed=launch.confirmed,
            abandoned=launch.abandoned,
            attempt=launch.attempt,
            path=tuple(PathStage(stage=s.state, at=s.at, attempt=s.attempt) for s in _moves(history)),
            record=route_record(history),
        ),
        claim=claim_info(launch),
        waiting_prompts=conversation.waiting,
        final_message=turn.final_text if finished else None,
        final_message_missing=missing,
        error_code=turn.error_code,
        failure=_failure(launch, conversation.failure or problem),
    )


def _moves(history: tuple[Recorded, ...]) -> list[Stage]:
    return [stage for stage in stages(history) if stage.source != stage.state]


def _failure(launch: Launch, problem: Failure | None) -> FailureInfo | None:
    if launch.failed and launch.code is not None:
        code = Code(launch.code) if launch.code in set(Code) else Code.HOST_ERROR
        step = "The task was abandoned; delegate again when wanted." if launch.abandoned else NEXT[code]
        return FailureInfo(code=launch.code, next=step, stage=launch.failed_stage, host_code=launch.host_code)
    if launch.state == machine.CLAIMED and (problem is None or problem.code is not Code.LAUNCH_IN_PROGRESS):
        message = None if problem is None else problem.message
        return FailureInfo(
            code=Code.DELIVERY_UNKNOWN.value,
            next=NEXT[Code.DELIVERY_UNKNOWN],
            stage=launch.state,
            message=message,
        )
    if problem is None:
        return None
    return FailureInfo(code=problem.code.value, next=problem.next_step, stage=problem.stage, message=problem.message)
