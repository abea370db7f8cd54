"""What a caller cares about in one Host event: a small value with the event's own text in it, or nothing at all.

Messages and questions keep their whole text. What goes into a tool and what comes out of it is cut; `size` tells
how long the whole is, and the event's id is what the rest is asked for with.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    Event,
    InboxSpliced,
    ModelChanged,
    ModelRetried,
    PresetChanged,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from agentlink.core.supervision.cursor import short_id

TOOL_TEXT = 2_000
"""How many characters of a tool's arguments or result are shown unasked."""
_NAME = 200
_QUESTION_TOOL = "ask_user_question"
_ROOT = "root"
_LAST_MS = 253_402_300_799_999
_CONTEXT = frozenset({"runtime-context", "time-context", "system-prompt"})
"""Messages that the Host writes for the model before every turn."""

Kind = Literal[
    "turn_started",
    "turn_ended",
    "message",
    "answer",
    "tool_called",
    "tool_ended",
    "question_asked",
    "approval_asked",
    "approval_decided",
    "queue_changed",
    "subagent_started",
    "model_retry",
    "preset_changed",
    "model_changed",
]
Sender = Literal["agentlink", "person", "parent", "subagent", "host"]


class Digest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One event, told shortly. A text may come in parts: `offset` is where this part begins, and with `more` the
    next reply goes on; `size` is the length of the whole text. All three count characters (code points)."""

    id: str
    at: str
    """The Host's clock."""
    kind: Kind
    session: str | None = None
    """Only for a subagent's event."""
    turn: int | None = None
    outcome: str | None = None
    error_code: str | None = None
    sender: Sender | None = msgspec.field(default=None, name="from")
    request_id: str | None = None
    """Of a message: the client request behind it. Of a question or an approval: what its answer is given under."""
    interrupted: bool = False
    tool: str | None = None
    call_id: str | None = None
    failed: bool = False
    approval_id: str | None = None
    queued: tuple[str, ...] = ()
    """Request ids of the prompts that came into the queue, as far as clients made them."""
    queued_count: int = 0
    removed_count: int = 0
    subagent: str | None = None
    label: str | None = None
    retry: int | None = None
    of: int | None = None
    preset: str | None = None
    provider: str | None = None
    model: str | None = None
    text: str = ""
    offset: int = 0
    size: int | None = None
    more: bool = False


def session_key(session: str | None) -> str:
    """What stands for a session in the ids of its events; None is the task's root session."""
    return _ROOT if session is None else short_id(session).hex()


def event_id(session: str | None, seq: int, *, root: str | None = None) -> str:
    """The stable name of an event within its task; the root session may be given as None or by its id."""
    return f"{session_key(None if session == root else session)}:{seq}"


def parse_event_id(text: str) -> tuple[str, int] | None:
    """The session key and the seq in an event's id, or None when it has not that form."""
    key, _, number = text.partition(":")
    known = key == _ROOT or (len(key) == 8 and set(key) <= set("0123456789abcdef"))
    if not known or not number.isascii() or not number.isdigit() or len(number) > 15 or str(int(number)) != number:
        return None
    return key, int(number)


def digest(event: Event, *, task: str, session: str | None = None) -> Digest | None:
    """What the event says to a caller, uncut except for a tool's text; None when it says nothing.

    `session` is None for the task's root session.
    """
    told = _told(event, task, session)
    if told is None:
        return None
    return Digest(id=event_id(session, event.seq), at=_iso(event.time_ms), session=session, **told)


def text_of(event: Event) -> str:
    """The whole text behind an event's digest."""
    match event:
        case UserMessage() | AssistantMessage() | ToolEnded():
            return event.text
        case ToolCalled():
            return event.arguments
        case ApprovalAsked():
            return event.reason
        case _:
            return ""


def _told(event: Event, task: str, session: str | None) -> dict[str, Any] | None:
    match event:
        case UserMessage():
            return _message(event, task, session)
        case InboxSpliced():
            return _queue(event)
        case _:
            tell = _TELL.get(type(event))
            return None if tell is None else tell(event)


def _message(event: UserMessage, task: str, session: str | None) -> dict[str, Any] | None:
    if event.source in _CONTEXT:
        return None
    sender: Sender = "host"
    if event.request is not None and event.request.startswith(f"{task}."):
        sender = "agentlink"
    elif event.by_person:
        # A subagent's parent writes like a person, only without a client's request.
        sender = "parent" if session is not None and event.request is None else "person"
    elif event.reports is not None or event.source == "subagent-settled":
        sender = "subagent"
    return {
        "kind": "message",
        "sender": sender,
        "request_id": event.request,
        "subagent": event.reports,
        "text": event.text,
    }


def _queue(event: InboxSpliced) -> dict[str, Any] | None:
    removed = event.removed if event.canceled or event.inserted else 0
    if not event.inserted and not removed:  # the agent took a prompt: its message follows
        return None
    return {
        "kind": "queue_changed",
        "queued": tuple(request for request in event.inserted if request is not None),
        "queued_count": len(event.inserted),
        "removed_count": removed,
    }


def _answer(event: AssistantMessage) -> dict[str, Any] | None:
    if not event.text and not event.interrupted:
        return None
    return {"kind": "answer", "text": event.text, "interrupted": event.interrupted}


def _called(event: ToolCalled) -> dict[str, Any]:
    if event.name == _QUESTION_TOOL:
        asked = {"kind": "question_asked", "request_id": f"{event.call}@{event.seq}", "call_id": event.call}
        return asked | {"text": event.arguments}
    return {"kind": "tool_called", "tool": _short(event.name), "call_id": event.call} | _cut(event.arguments)


def _ended(event: ToolEnded) -> dict[str, Any]:
    told = {"kind": "tool_ended", "call_id": event.call, "failed": event.failed, "error_code": _short(event.error_code)}
    return told | _cut(event.text)


def _asked(event: ApprovalAsked) -> dict[str, Any]:
    return {
        "kind": "approval_asked",
        "request_id": event.approval,
        "call_id": event.call,
        "approval_id": event.approval,
        "tool": _short(event.tool),
        "text": event.reason,
    }


def _started(event: SubagentStarted) -> dict[str, Any]:
    return {"kind": "subagent_started", "subagent": event.child.session, "label": _short(event.child.label) or None}


def _retry(event: ModelRetried) -> dict[str, Any]:
    return {"kind": "model_retry", "retry": event.retry, "of": event.of, "error_code": _short(event.error_code)}


_TELL: dict[type[Any], Callable[[Any], dict[str, Any] | None]] = {
    TurnStarted: lambda event: {"kind": "turn_started", "turn": event.turn},
    TurnEnded: lambda event: {
        "kind": "turn_ended",
        "turn": event.turn,
        "outcome": _short(event.kind),
        "error_code": _short(event.error_code),
    },
    AssistantMessage: _answer,
    ToolCalled: _called,
    ToolEnded: _ended,
    ApprovalAsked: _asked,
    ApprovalDecided: lambda event: {
        "kind": "approval_decided",
        "approval_id": event.approval,
        "outcome": _short(event.outcome),
    },
    SubagentStarted: _started,
    ModelRetried: _retry,
    PresetChanged: lambda event: {"kind": "preset_changed", "preset": _short(event.preset)},
    ModelChanged: lambda event: {
        "kind": "model_changed",
        "provider": _short(event.model.provider),
        "model": _short(event.model.model),
    },
}


def _cut(text: str) -> dict[str, Any]:
    return {"text": text} if len(text) <= TOOL_TEXT else {"text": text[:TOOL_TEXT], "size": len(text)}


def _short(text: str | None) -> str | None:
    return None if text is None else text[:_NAME]


def _iso(time_ms: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(max(time_ms, 0), _LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
