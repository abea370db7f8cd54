"""Session events of the "remote" wire as core's neutral events (dsh-wire section 6). Unknown ones become OtherEvent."""

from typing import Annotated, Any

import msgspec

from agentlink.core.host.faults import BadReply
from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    Event,
    InboxSpliced,
    OtherEvent,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""What decoding raises: JSON nested some thousand levels deep ends in the second."""

Index = Annotated[int, msgspec.Meta(ge=0)]


class RawEvent(msgspec.Struct):
    """One event before its data is looked at."""

    type: str
    seq: int
    time: int
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _Source(msgspec.Struct, rename="camel"):
    kind: str = ""
    rpc_id: str | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct):
    source: _Source = msgspec.field(default_factory=_Source)


class _AssistantContent(msgspec.Struct):
    content: list[_Part] = []


class _Assistant(msgspec.Struct):
    message: _AssistantContent


class _Spliced(msgspec.Struct, rename="camel"):
    target: str
    start: Index = 0
    removed_count: Index = 0
    inserted: list[_Message] = []
    outcome: str | None = None


class _Turn(msgspec.Struct):
    turn: int


class _EndError(msgspec.Struct):
    code: str | None = None


class _EndReason(msgspec.Struct):
    kind: str
    error: _EndError | None = None


class _End(msgspec.Struct):
    turn: int
    reason: _EndReason


class _Call(msgspec.Struct, rename="camel"):
    call_id: str
    name: str


class _ToolMessage(msgspec.Struct, rename="camel"):
    tool_call_id: str


class _ToolResult(msgspec.Struct):
    message: _ToolMessage


class _Approval(msgspec.Struct):
    id: str


def neutral_event(raw: RawEvent) -> Event:
    """The event in core's terms. Raises BadReply when a known event lacks what every version of it has."""
    try:
        return _translate(raw)
    except UNREADABLE as error:
        raise BadReply(f"event {raw.seq} ({raw.type}): {error}") from None


def _translate(raw: RawEvent) -> Event:
    at: dict[str, Any] = {"seq": raw.seq, "time_ms": raw.time}
    match raw.type:
        case "turn/start":
            return TurnStarted(turn=msgspec.json.decode(raw.data, type=_Turn).turn, **at)
        case "turn/end":
            end = msgspec.json.decode(raw.data, type=_End)
            code = end.reason.error.code if end.reason.error else None
            return TurnEnded(turn=end.turn, kind=end.reason.kind, error_code=code, **at)
        case "user/message":
            source = msgspec.json.decode(raw.data, type=_Message).source
            return UserMessage(request=source.rpc_id, by_person=source.kind == "user", **at)
        case "assistant/message":
            parts = msgspec.json.decode(raw.data, type=_Assistant).message.content
            text = "".join(part.text for part in parts if part.type == "text")
            return AssistantMessage(text=text, calls_tools=any(part.type == "tool-call" for part in parts), **at)
        case "agent/inbox/spliced":
            spliced = msgspec.json.decode(raw.data, type=_Spliced)
            return InboxSpliced(
                target="next-step" if spliced.target == "next-step" else "next-turn",
                start=spliced.start,
                removed=spliced.removed_count,
                inserted=tuple(message.source.rpc_id for message in spliced.inserted),
                canceled=spliced.outcome == "canceled",
                **at,
            )
        case "tool/call":
            call = msgspec.json.decode(raw.data, type=_Call)
            return ToolCalled(call=call.call_id, name=call.name, **at)
        case "tool/result":
            return ToolEnded(call=msgspec.json.decode(raw.data, type=_ToolResult).message.tool_call_id, **at)
        case "approval/asked":
            return ApprovalAsked(approval=msgspec.json.decode(raw.data, type=_Approval).id, **at)
        case "approval/decided":
            return ApprovalDecided(approval=msgspec.json.decode(raw.data, type=_Approval).id, **at)
        case _:
            return OtherEvent(type=raw.type, **at)
