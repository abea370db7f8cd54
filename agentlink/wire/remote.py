"""The "remote" wire (Host 0.2.1-rc.2): bytes of calls out, bytes of answers in, neutral values (dsh-wire 2-7).

Any bytes give a value, a `Refused`, or `BadReply`; nothing else comes out of here.
"""

from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from agentlink.core.host.faults import BadReply, RefusalKind, Refused
from agentlink.core.host.values import (
    Address,
    ChildRef,
    CreatedSession,
    Event,
    ModelCatalog,
    ModelChoice,
    Page,
    Preset,
    QueuedItem,
    SessionState,
)
from agentlink.wire.remote_events import UNREADABLE, RawEvent, neutral_event

REPORTS_PRESETS = True
"""This generation says which preset a session has; manual mode relies on it (design section 3, rule 4)."""

T = TypeVar("T")

Id = Annotated[str, msgspec.Meta(max_length=200)]
"""An id that goes into the journal; anything longer is no id but text (design section 3, rule 14)."""

_KINDS: dict[str, RefusalKind] = {
    "agent-preset/not-found": "preset_not_found",
    "agent-preset/invalid": "preset_broken",
    "session/not-found": "session_not_found",
    "session/queue-item-not-found": "not_queued",
}
_UNPROVEN = ("gateway/internal", "gateway/service-unavailable", "gateway/cancelled", "gateway/peer-disposed")


class _Error(msgspec.Struct):
    code: str
    message: str = ""
    details: Any = None


class _Result(msgspec.Struct):
    ok: bool
    value: msgspec.Raw = msgspec.Raw(b"")
    """Absent when the method returns nothing; null is a value, and for a session it means that there is none."""
    error: _Error | None = None


class _Reply(msgspec.Struct):
    type: Literal["server-response"]
    rpc_id: str = msgspec.field(name="rpcId")
    result: _Result


class _Preset(msgspec.Struct, rename="camel"):
    id: str
    is_default: bool = False
    broken: str | None = None
    name: str | None = None


class _Presets(msgspec.Struct):
    presets: list[_Preset]


class _Created(msgspec.Struct, rename="camel"):
    session_id: Id
    agent_preset: Id | None = None


class _Choice(msgspec.Struct):
    provider: str
    model: str


class _Catalog(msgspec.Struct, rename="camel"):
    default: _Choice | None = None
    routable_providers: list[str] = []


class _Selection(msgspec.Struct):
    next: _Choice | None = None


class _Source(msgspec.Struct, rename="camel"):
    rpc_id: str | None = None


class _Waiting(msgspec.Struct):
    source: _Source = msgspec.field(default_factory=_Source)
    id: str = ""


class _Child(msgspec.Struct, rename="camel"):
    id: str
    label: str | None = None
    mode: str | None = None
    created_at: int = 0


class _ListMetadata(msgspec.Struct):
    blank: bool = True


class _Projections(msgspec.Struct, rename="camel"):
    agent_preset: Id | None = None
    model_selection: _Selection | None = None
    inbox: dict[str, list[_Waiting]] = {}
    session_list_metadata: _ListMetadata | None = None
    subagent_catalog: list[_Child] | None = None


class _State(msgspec.Struct, rename="camel"):
    kind: Literal["sequenced"]
    as_of_seq: int
    values: _Projections


class _Record(msgspec.Struct):
    type: str
    event: RawEvent | None = None


class _Page(msgspec.Struct, rename="camel"):
    records: list[_Record]
    has_more: bool


class _Row(msgspec.Struct, rename="camel"):
    session_id: str
    running: bool = False
    parent_session_id: str | None = None


class _Rows(msgspec.Struct):
    items: list[_Row]


class _Accepted(msgspec.Struct):
    accepted: Literal[True]


_reply_decoder = msgspec.json.Decoder(_Reply)


def call_bytes(method: str, args: dict[str, Any], *, rpc_id: str) -> bytes:
    """The body of `POST /api/<method>`."""
    return msgspec.json.encode({"type": "client-request", "rpcId": rpc_id, "method": method, "payload": {"args": args}})


def reply_value(raw: bytes, *, rpc_id: str) -> msgspec.Raw:
    """The value inside a reply. Raises Refused for `ok: false`, BadReply for anything that is no reply to this call."""
    try:
        reply = _reply_decoder.decode(raw)
    except UNREADABLE as error:
        raise BadReply(f"not a Host reply: {error}") from None
    if reply.rpc_id not in (rpc_id, "invalid-request"):
        raise BadReply("the reply belongs to another call")
    result = reply.result
    if not result.ok and result.error is not None:
        error_ = result.error
        details = error_.details if isinstance(error_.details, dict) else {}
        raise Refused(error_.code, error_.message, kind=refusal_kind(error_.code), details=details)
    if not result.ok:
        raise BadReply("the Host refused without saying why")
    return result.value


def refusal_kind(code: str) -> RefusalKind:
    """What a Host error code of this wire means to a launch."""
    return _KINDS.get(code, "unproven" if code.startswith(_UNPROVEN) else "other")


def _decode(value: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except UNREADABLE as error:
        raise BadReply(f"unexpected answer: {error}") from None


def decode_roster(value: msgspec.Raw) -> tuple[Preset, ...]:
    """The answer of `agentPresets/list`."""
    rows = _decode(value, _Presets).presets
    return tuple(Preset(row.id, row.is_default, row.broken, row.name) for row in rows)


def decode_created(value: msgspec.Raw) -> CreatedSession:
    """The answer of `session/create`."""
    created = _decode(value, _Created)
    return CreatedSession(created.session_id, created.agent_preset)


def decode_state(value: msgspec.Raw) -> SessionState | None:
    """The answer of `session/projections`; None when the Host has no such session."""
    state = _decode(value, _State | None)  # type: ignore[arg-type]
    if state is None:
        return None
    return _neutral_state(state)


def _neutral_state(state: Any) -> SessionState:
    values = state.values
    choice = values.model_selection.next if values.model_selection else None
    next_turn, next_step = _queue(values, "next-turn"), _queue(values, "next-step")
    return SessionState(
        last_seq=state.as_of_seq,
        preset=values.agent_preset,
        model=None if choice is None else ModelChoice(choice.provider, choice.model),
        waiting=tuple(item.request for item in (*next_turn, *next_step)),
        blank=values.session_list_metadata.blank if values.session_list_metadata else state.as_of_seq < 0,
        next_turn=next_turn,
        next_step=next_step,
        children=tuple(
            ChildRef(child.id, child.label or "", child.mode or "unknown", child.created_at)
            for child in values.subagent_catalog or ()
        ),
    )


def _queue(values: Any, name: str) -> tuple[QueuedItem, ...]:
    return tuple(QueuedItem(item.id, item.source.rpc_id) for item in values.inbox.get(name, ()))


def address_args(address: Address) -> dict[str, str]:
    """The address of a history call: a subagent's session is refused under its own id alone."""
    if address.parent is None:
        return {"kind": "session", "sessionId": address.session}
    return {
        "kind": "subagent",
        "parentSessionId": address.parent,
        "childSessionId": address.session,
        "mode": "unknown",
    }


def decode_catalog(value: msgspec.Raw) -> ModelCatalog:
    """The answer of `session/modelCatalog`."""
    catalog = _decode(value, _Catalog)
    default = catalog.default
    return ModelCatalog(
        None if default is None else ModelChoice(default.provider, default.model), tuple(catalog.routable_providers)
    )


def decode_page(value: msgspec.Raw, *, host_now_ms: int | None) -> Page:
    """The answer of `session/page`. Raises BadReply when the events are not contiguous."""
    page = _decode(value, _Page)
    if any(record.type == "event" and record.event is None for record in page.records):
        raise BadReply("a history page with an empty record")
    events: list[Event] = [neutral_event(record.event) for record in page.records if record.event is not None]
    if any(after.seq != before.seq + 1 for before, after in pairwise(events)):
        raise BadReply("a history page with a gap")
    return Page(tuple(events), page.has_more, host_now_ms)


def decode_running(value: msgspec.Raw) -> dict[str, bool]:
    """The answer of `session/list`: which sessions are at work, themselves or by a subagent."""
    rows = _decode(value, _Rows).items
    parents = {row.session_id: row.parent_session_id for row in rows}
    running = dict.fromkeys(parents, False)
    for row in rows:
        at: str | None = row.session_id if row.running else None
        while at in running and not running[at]:
            running[at] = True
            at = parents[at]
    return running


def decode_accepted(value: msgspec.Raw) -> None:
    """The answer of `session/prompt`. Raises BadReply for anything but an acceptance."""
    _decode(value, _Accepted)
