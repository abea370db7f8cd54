"""One task's status: the launch replayed from the journal, the conversation read from the Host at this moment."""

from typing import Any

from agentlink.app.conversation import NOTHING_YET, Conversation, availability_of, read_conversation
from agentlink.app.look import find_task, settle_task
from agentlink.app.results import FailureInfo, LaunchDetail, PathStage, Rest, TaskStatus, claim_info, told_writes
from agentlink.app.runtime import Runtime
from agentlink.app.settle_writes import settle_writes
from agentlink.core.errors import NEXT, Code, Failure
from agentlink.core.host.values import AssistantMessage
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import Recorded, Stage, replay, route_record, stages
from agentlink.core.launch.state import Launch
from agentlink.core.supervision.cursor import cursor_at, encode, mark_at
from agentlink.core.supervision.digest import event_id
from agentlink.core.supervision.interactions import shown
from agentlink.core.supervision.tail import cut_text

FINAL_BYTES = 32_000
"""How much of a final message a status carries; callers refuse replies far above 40 KB (field case F5)."""


async def task_status(runtime: Runtime, task: TaskId) -> TaskStatus:
    """The task as it is now; settles an interrupted launch first. Raises Failure task_not_found or journal_*."""
    view, problem = await settle_task(runtime, await find_task(runtime, task))
    view = await settle_writes(runtime, view)
    conversation = await read_conversation(runtime, view.launch)
    history = await runtime.store.history(task)
    return status_of(view.task, history, conversation, problem)


def status_of(
    task: TaskId, history: tuple[Recorded, ...], conversation: Conversation, problem: Failure | None
) -> TaskStatus:
    """The status out of what was read.

    Another process may have appended since the task was looked at: the story told is that of the lines read last.
    """
    launch = replay(history)
    return TaskStatus(
        **state_of(task, launch, conversation, problem),
        launch=LaunchDetail(
            stage=launch.state,
            prompt_sent=launch.prompt_sent,
            confirmed=launch.confirmed,
            abandoned=launch.abandoned,
            attempt=launch.attempt,
            path=tuple(PathStage(stage=s.state, at=s.at, attempt=s.attempt) for s in _moves(history)),
            record=route_record(history),
        ),
        warnings=_warnings(conversation),
    )


def state_of(task: str, launch: Launch, conversation: Conversation, problem: Failure | None) -> dict[str, Any]:
    """The fields of a TaskState: what every surface tells of a conversation, in the same words."""
    now = conversation.now()
    availability = conversation.availability
    if conversation is NOTHING_YET:
        availability = "connected" if problem is None else availability_of(problem)
    missing = now.final_missing
    if missing == now.execution and availability != "connected":
        missing = availability
    text, rest = final_part(conversation)
    return {
        "task_id": task,
        "session_id": launch.session,
        "availability": availability,
        "execution": now.execution,
        "queued": now.queued,
        "parked": now.parked,
        "pending": shown(now.pending),
        "children_running": tuple(child.session for child in now.running_children),
        "tool": now.tool,
        "final_message": text,
        "final_message_rest": rest,
        "final_message_missing": missing,
        "error_code": now.error_code,
        "open_writes": told_writes(launch.writes.open),
        "undelivered": told_writes(launch.writes.undelivered),
        "cursor": cursor_now(task, conversation),
        "claim": claim_info(launch),
        "failure": failure_info(launch, conversation.failure or problem),
    }


def final_part(conversation: Conversation) -> tuple[str | None, Rest | None]:
    """The final message as far as a reply carries it, and where the rest of it is."""
    final: AssistantMessage | None = conversation.now().final
    if final is None:
        return None, None
    text = cut_text(final.text, offset=0, max_bytes=FINAL_BYTES)
    if len(text) == len(final.text):
        return text, None
    event = event_id(None, final.seq)
    return text, Rest(event=event, offset=len(text), size=len(final.text))


def cursor_now(task: str, conversation: Conversation) -> str | None:
    """The cursor from which a tail tells what comes after this reading."""
    if conversation.root is None:
        return None
    marks = {session: mark_at(event) for session, event in conversation.lasts.items()}
    root = marks.pop(conversation.session)
    return encode(cursor_at(task, root, marks))


def _warnings(conversation: Conversation) -> tuple[str, ...]:
    unread = [d.ref.session for d in conversation.descendants if d.timeline is None]
    left_out = conversation.unread_children
    warnings = [f"subagent {session} cannot be read" for session in unread]
    return (*warnings, *((f"{left_out} older subagents were not looked at",) if left_out else ()))


def _moves(history: tuple[Recorded, ...]) -> list[Stage]:
    return [stage for stage in stages(history) if stage.source != stage.state]


def failure_info(launch: Launch, problem: Failure | None) -> FailureInfo | None:
    """Why a launch failed, or why its fate or its conversation cannot be told now."""
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
