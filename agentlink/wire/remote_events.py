"""Session events of the "remote" wire as core's neutral events (dsh-wire section 6). Unknown ones become OtherEvent."""

from typing import Annotated, Any

import msgspec

from agentlink.core.host.faults import BadReply
from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    ChildRef,
    Event,
    InboxSpliced,
    ModelChanged,
    ModelChoice,
    ModelRetried,
    OtherEvent,
    PresetChanged,
    SubagentStarted,
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
    sender_session_id: str | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct):
    source: _Source = msgspec.field(default_factory=_Source)
    content: list[_Part] = []
    id: str = ""


class _AssistantContent(msgspec.Struct):
    content: list[_Part] = []


class _Assistant(msgspec.Struct):
    message: _AssistantContent
    interrupted: bool = False


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
    arguments: str = ""


class _ToolMessage(msgspec.Struct, rename="camel"):
    tool_call_id: str
    content: list[_Part] = []
    is_error: bool = False


class _ToolResult(msgspec.Struct):
    message: _ToolMessage
    error: _EndError | None = None


class _Asked(msgspec.Struct, rename="camel"):
    id: str
    tool_name: str = ""
    call_id: str | None = None
    reason: str | None = None


class _Decided(msgspec.Struct):
    id: str
    outcome: str = ""


class _Catalog(msgspec.Struct, rename="camel"):
    child_id: str
    label: str | None = None
    mode: str | None = None
    child_created_at: int = 0


class _Failure(msgspec.Struct):
    code: str | None = None


class _Retry(msgspec.Struct, rename="camel"):
    retry: int = 0
    max_retries: int = 0
    failure: _Failure | None = None


class _Preset(msgspec.Struct, rename="camel"):
    agent_preset: str


class _Model(msgspec.Struct):
    provider: str
    model: str


SETTLED = "subagent-settled"


def joined_text(parts: list[_Part]) -> str:
    """The text parts of a message, one after the other."""
    return "".join(part.text for part in parts if part.type == "text")


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
            message = msgspec.json.decode(raw.data, type=_Message)
            source = message.source
            return UserMessage(
                request=source.rpc_id,
                by_person=source.kind == "user",
                source=source.kind,
                text=joined_text(message.content),
                reports=source.sender_session_id if source.kind == SETTLED else None,
                **at,
            )
        case "assistant/message":
            assistant = msgspec.json.decode(raw.data, type=_Assistant)
            parts = assistant.message.content
            calls = any(part.type == "tool-call" for part in parts)
            return AssistantMessage(text=joined_text(parts), calls_tools=calls, interrupted=assistant.interrupted, **at)
        case "agent/inbox/spliced":
            spliced = msgspec.json.decode(raw.data, type=_Spliced)
            sources = [message.source for message in spliced.inserted]
            return InboxSpliced(
                target="next-step" if spliced.target == "next-step" else "next-turn",
                start=spliced.start,
                removed=spliced.removed_count,
                inserted=tuple(source.rpc_id for source in sources),
                canceled=spliced.outcome == "canceled",
                items=tuple(message.id for message in spliced.inserted),
                reports=tuple(s.sender_session_id for s in sources if s.kind == SETTLED and s.sender_session_id),
                **at,
            )
        case "tool/call":
            call = msgspec.json.decode(raw.data, type=_Call)
            return ToolCalled(call=call.call_id, name=call.name, arguments=call.arguments, **at)
        case "tool/result":
            result = msgspec.json.decode(raw.data, type=_ToolResult)
            return ToolEnded(
                call=result.message.tool_call_id,
                failed=result.message.is_error,
                error_code=result.error.code if result.error else None,
                text=joined_text(result.message.content),
                **at,
            )
        case "approval/asked":
            asked = msgspec.json.decode(raw.data, type=_Asked)
            return ApprovalAsked(
                approval=asked.id, tool=asked.tool_name, call=asked.call_id, reason=asked.reason or "", **at
            )
        case "approval/decided":
            decided = msgspec.json.decode(raw.data, type=_Decided)
            return ApprovalDecided(approval=decided.id, outcome=decided.outcome, **at)
        case "subagent/catalog":
            entry = msgspec.json.decode(raw.data, type=_Catalog)
            child = ChildRef(entry.child_id, entry.label or "", entry.mode or "unknown", entry.child_created_at)
            return SubagentStarted(child=child, **at)
        case "llm/retry":
            again = msgspec.json.decode(raw.data, type=_Retry)
            code = again.failure.code if again.failure else None
            return ModelRetried(retry=again.retry, of=again.max_retries, error_code=code, **at)
        case "agent-preset/selected":
            return PresetChanged(preset=msgspec.json.decode(raw.data, type=_Preset).agent_preset, **at)
        case "model/selection":
            model = msgspec.json.decode(raw.data, type=_Model)
            return ModelChanged(model=ModelChoice(model.provider, model.model), **at)
        case _:
            return OtherEvent(type=raw.type, **at)
