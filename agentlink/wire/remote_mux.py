"""The live connection of the "remote" wire: one WebSocket that carries many streams (dsh-wire sections 8 and 9).

Text frames in and out. Any bytes give a value, None for what this version has no use for, or `BadReply`.
"""

import re
from typing import Any, TypeVar

import msgspec

from agentlink.core.host.faults import BadReply
from agentlink.core.host.values import (
    Address,
    AskedApproval,
    AskedQuestions,
    Attached,
    LiveItem,
    Offer,
    Snapshot,
    TextDelta,
    Withdrawn,
)
from agentlink.wire.remote import address_args, decode_page, decode_state
from agentlink.wire.remote_events import UNREADABLE, RawEvent, neutral_event

MUX_PATH = "/api/remote.mux"
FOLLOWED_MESSAGES = 20
"""How many messages a snapshot brings along; what is older, a page tells."""

_ITEM_OF = re.compile(r'\{"type":"item","streamId":"([^"\\]+)"')

T = TypeVar("T")


class Item(msgspec.Struct, frozen=True):
    """One value of a stream."""

    stream: str
    value: msgspec.Raw


class Ended(msgspec.Struct, frozen=True):
    """The Host has ended this stream; `code` and `message` are its own when it failed."""

    stream: str
    code: str | None = None
    message: str = ""


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Frame(msgspec.Struct, rename="camel"):
    type: str
    stream_id: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


class _Kind(msgspec.Struct):
    type: str = ""


class _AsOf(msgspec.Struct, rename="camel"):
    as_of_seq: int
    values: msgspec.Raw


class _Chunk(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Packed(msgspec.Struct):
    """A part of an attempt so far: one chunk, or the texts of several that followed each other."""

    type: str = ""
    chunk: _Chunk | None = None
    texts: list[str] = []


class _Attempt(msgspec.Struct):
    stream: list[_Packed] = []


class _SoFar(msgspec.Struct, rename="camel"):
    active_attempt: _Attempt | None = None


class _Snapshot(msgspec.Struct, rename="camel"):
    cursor: int
    records: msgspec.Raw
    has_more: bool
    projections: _AsOf
    assistant_stream: _SoFar | None = None


class _Event(msgspec.Struct):
    event: RawEvent


class _StreamFrame(msgspec.Struct):
    type: str = ""
    chunk: _Chunk | None = None


class _Streamed(msgspec.Struct):
    frame: _StreamFrame


class _Ready(msgspec.Struct, rename="camel"):
    client_id: str


class _Waterfall(msgspec.Struct, rename="camel"):
    event: str
    event_id: str
    agent_id: str = ""
    request: msgspec.Raw = msgspec.Raw(b"{}")


class _Approval(msgspec.Struct, rename="camel"):
    tool_name: str = ""
    call_id: str | None = None
    reason: str | None = None


class _Questions(msgspec.Struct):
    questions: msgspec.Raw


class _Cancel(msgspec.Struct, rename="camel"):
    event_id: str


def _open(stream: str, endpoint: str, args: dict[str, Any]) -> str:
    frame = {"type": "open", "streamId": stream, "endpoint": endpoint, "payload": {"args": args}}
    return msgspec.json.encode(frame).decode()


def follow_frame(stream: str, address: Address) -> str:
    """Opens a session's events. `stream` must never have been used on this connection."""
    request = {
        "address": address_args(address),
        "maxMessages": FOLLOWED_MESSAGES,
        "turnWindow": {"minMessages": 1, "minTurns": 1},
        "assistantStream": True,
    }
    return _open(stream, "session/follow", {"request": request})


def offers_frame(stream: str) -> str:
    """Opens what the Host's agents ask a person."""
    return _open(stream, "$events", {})


def cancel_frame(stream: str) -> str:
    """Gives a stream up; it is not acknowledged, and frames of it may still come."""
    return msgspec.json.encode({"type": "cancel", "streamId": stream}).decode()


def decode_frame(raw: str | bytes) -> Item | Ended | None:
    """One message of the Host. Raises BadReply when it is no frame at all."""
    frame = _decode(raw, _Frame)
    match frame.type:
        case "item":
            return Item(frame.stream_id, frame.value)
        case "end":
            return Ended(frame.stream_id)
        case "error":
            error = frame.error or _Error()
            return Ended(frame.stream_id, error.code or "gateway/internal", error.message)
        case _:
            return None


def stream_of_cut_frame(head: str) -> str | None:
    """Which stream a message belongs to of which only the beginning is there."""
    found = _ITEM_OF.match(head)
    return found[1] if found else None


def decode_live(value: msgspec.Raw) -> tuple[LiveItem, ...]:
    """One item of `session/follow`: a snapshot also gives the answer so far, as far as the model has come."""
    match _decode(value, _Kind).type:
        case "snapshot":
            return _snapshot(_decode(value, _Snapshot))
        case "event":
            return (neutral_event(_decode(value, _Event).event),)
        case "assistant-stream":
            return _delta(_decode(value, _Streamed).frame)
        case _:
            return ()


def _snapshot(raw: _Snapshot) -> tuple[LiveItem, ...]:
    # The Host puts the answers of two of its calls into one item; they are read by what reads those answers.
    projections = raw.projections
    head = b'{"kind":"sequenced","asOfSeq":%d,"values":' % projections.as_of_seq
    state = decode_state(msgspec.Raw(head + bytes(projections.values) + b"}"))
    page = decode_page(msgspec.Raw(b'{"hasMore":false,"records":' + bytes(raw.records) + b"}"), host_now_ms=None)
    last = page.events[-1].seq if page.events else raw.cursor
    if state is None or not state.last_seq == raw.cursor == last:
        raise BadReply(f"a snapshot at {raw.cursor} with events to {last} and a state of {projections.as_of_seq}")
    items: list[LiveItem] = [Snapshot(state, page.events, raw.has_more)]
    attempt = raw.assistant_stream.active_attempt if raw.assistant_stream else None
    if attempt is not None:
        items.append(TextDelta("".join(_text_so_far(part) for part in attempt.stream), begins=True))
    return tuple(items)


def _text_so_far(part: _Packed) -> str:
    if part.type == "text-chunks":
        return "".join(part.texts)
    if part.type == "chunk" and part.chunk is not None and part.chunk.type == "text-delta":
        return part.chunk.text
    return ""


def _delta(frame: _StreamFrame) -> tuple[LiveItem, ...]:
    if frame.type == "start":
        return (TextDelta("", begins=True),)
    if frame.type == "chunk" and frame.chunk is not None and frame.chunk.type == "text-delta":
        return (TextDelta(frame.chunk.text),)
    return ()


def decode_offer(value: msgspec.Raw) -> tuple[Offer, ...]:
    """One item of `$events`: an offer or nothing."""
    match _decode(value, _Kind).type:
        case "ready":
            return (Attached(_decode(value, _Ready).client_id),)
        case "waterfall":
            return _asked(_decode(value, _Waterfall))
        case "cancel":
            return (Withdrawn(_decode(value, _Cancel).event_id),)
        case _:
            return ()


def _asked(raw: _Waterfall) -> tuple[Offer, ...]:
    match raw.event:
        case "approval/request":
            asked = _decode(raw.request, _Approval)
            return (AskedApproval(raw.event_id, raw.agent_id, asked.tool_name, asked.call_id, asked.reason or ""),)
        case "user-questions/request":
            return (AskedQuestions(raw.event_id, raw.agent_id, bytes(_decode(raw.request, _Questions).questions)),)
        case _:
            return ()


def _decode(value: msgspec.Raw | str | bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except (*UNREADABLE, UnicodeError) as error:
        raise BadReply(f"unexpected frame: {error}") from None
