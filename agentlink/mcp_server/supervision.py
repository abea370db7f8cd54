"""The tools for a task that runs: watch, wait, answer, steer, stop (003 FR-13)."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from agentlink.app.answer import answer_question, resolve_approval
from agentlink.app.cancel import Scope, cancel
from agentlink.app.followup import FollowUp, follow_up
from agentlink.app.runtime import Runtime
from agentlink.app.tail import DEFAULT_BYTES, read_event, tail
from agentlink.app.wait import MAX_TASKS, MAX_WAIT_S, Say, Until, WaitRequest, wait
from agentlink.core.errors import Code, Failure
from agentlink.core.supervision.interactions import Answer, Outcome
from agentlink.mcp_server.spec import RequestKey, ToolSpec, checked_task, given

SinceCursor = Annotated[str, Meta(description="Refuse if news came after it")]


class TailArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """From where to tell, or which text to read on."""

    task_id: str
    cursor: Annotated[str, Meta(description="Of an earlier reply")] | UnsetType = UNSET
    max_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000)] | UnsetType = UNSET
    event: Annotated[str, Meta(description="Id of an event to read whole")] | UnsetType = UNSET
    offset: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class WaitArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to wait for, and how long."""

    task_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_TASKS)]
    timeout_seconds: Annotated[float, Meta(ge=0, description="At most 45")] | UnsetType = UNSET
    until: Literal["settled", "any"] | UnsetType = UNSET
    cursor: Annotated[str, Meta(description="With any: changes after it")] | UnsetType = UNSET


class FollowUpArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Another prompt."""

    task_id: str
    prompt: Annotated[str, Meta(min_length=1)]
    mode: Literal["queue", "steer"]
    since_cursor: SinceCursor | UnsetType = UNSET
    request_key: RequestKey | UnsetType = UNSET


class AnswerItem(msgspec.Struct, forbid_unknown_fields=True):
    """One question's answer."""

    id: str
    selected: Annotated[list[str], Meta(description="Labels")] | UnsetType = UNSET
    custom: Annotated[str, Meta(description="Own text")] | UnsetType = UNSET


class AnswerArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The answers to all questions of one request."""

    task_id: str
    request_id: str
    answers: list[AnswerItem]
    since_cursor: SinceCursor | UnsetType = UNSET


class ApprovalArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What a person decided."""

    task_id: str
    request_id: str
    outcome: Literal["allow_once", "reject"]
    since_cursor: SinceCursor | UnsetType = UNSET


class CancelArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to stop."""

    task_id: str
    scope: Literal["turn", "queue", "all"] | UnsetType = UNSET


async def _tail(runtime: Runtime, args: TailArgs, _say: Say) -> msgspec.Struct:
    task = checked_task(args.task_id)
    max_bytes = DEFAULT_BYTES if args.max_bytes is UNSET else args.max_bytes
    if args.event is UNSET:
        if args.offset is not UNSET:
            raise Failure(Code.INVALID_REQUEST, "offset goes with event", details={"argument": "offset"})
        return await tail(runtime, task, cursor=given(args.cursor), max_bytes=max_bytes)
    if args.cursor is not UNSET:
        raise Failure(Code.INVALID_REQUEST, "give either cursor or event", details={"argument": "event"})
    return await read_event(runtime, task, args.event, offset=given(args.offset) or 0, max_bytes=max_bytes)


async def _wait(runtime: Runtime, args: WaitArgs, say: Say) -> msgspec.Struct:
    until: Until = "settled" if args.until is UNSET else args.until
    asked = WaitRequest(
        tasks=tuple(checked_task(text) for text in args.task_ids),
        timeout_s=MAX_WAIT_S if args.timeout_seconds is UNSET else args.timeout_seconds,
        until=until,
        cursor=given(args.cursor),
    )
    return await wait(runtime, asked, say=say)


async def _follow_up(runtime: Runtime, args: FollowUpArgs, _say: Say) -> msgspec.Struct:
    asked = FollowUp(
        prompt=args.prompt,
        mode=args.mode,
        since_cursor=given(args.since_cursor),
        request_key=given(args.request_key),
    )
    return await follow_up(runtime, checked_task(args.task_id), asked)


async def _answer(runtime: Runtime, args: AnswerArgs, _say: Say) -> msgspec.Struct:
    answers = [Answer(one.id, tuple(given(one.selected) or ()), given(one.custom)) for one in args.answers]
    task = checked_task(args.task_id)
    return await answer_question(runtime, task, args.request_id, answers, since_cursor=given(args.since_cursor))


async def _resolve(runtime: Runtime, args: ApprovalArgs, _say: Say) -> msgspec.Struct:
    outcome: Outcome = args.outcome
    task = checked_task(args.task_id)
    return await resolve_approval(runtime, task, args.request_id, outcome, since_cursor=given(args.since_cursor))


async def _cancel(runtime: Runtime, args: CancelArgs, _say: Say) -> msgspec.Struct:
    scope: Scope = "turn" if args.scope is UNSET else args.scope
    return await cancel(runtime, checked_task(args.task_id), scope=scope)


SUPERVISION = (
    ToolSpec(
        "dsh_wait",
        "Wait for tasks",
        "Wait until the first of the tasks is done, needs a person or cannot go on. Ends by itself within 45 s with "
        "timedOut: call again, the tasks run on. until any: every change.",
        WaitArgs,
        _wait,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_tail",
        "What a task did",
        "Messages, answers and tool calls after the cursor, or from the beginning. With `more`, call again with the "
        "new cursor. event and offset read on a text that was cut.",
        TailArgs,
        _tail,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_followup",
        "Send another prompt",
        "queue: a turn of its own after what waits. steer: joins the running turn at its next step. Needs the "
        "workspace claim. On delivery_unknown do not send again.",
        FollowUpArgs,
        _follow_up,
    ),
    ToolSpec(
        "dsh_answer_question",
        "Answer a question",
        "Answer all questions of one request as the person chose: labels in selected, or custom text.",
        AnswerArgs,
        _answer,
    ),
    ToolSpec(
        "dsh_resolve_approval",
        "Resolve an approval",
        "Tell what a person decided about one tool call. Never decide yourself: ask the user first.",
        ApprovalArgs,
        _resolve,
        destructive=True,
        needs_person=True,
    ),
    ToolSpec(
        "dsh_cancel",
        "Stop a task",
        "turn (default): stop the running turn, park waiting prompts. queue: remove them. all: both, and subagents.",
        CancelArgs,
        _cancel,
        destructive=True,
        idempotent=True,
    ),
)
