"""Where a reader of a task's conversation stands: opaque, short, and proof against a history that was rewound.

A task is one root session and its subagents. Of each the cursor holds the last event that was delivered: its seq and
an anchor over its type and time, by which a later read notices that another event stands there now (a killed Host
loses its last 200 ms). The anchor also tells the time roughly: enough to say which events are surely older.

Text form: base64url without padding of version, digest of the task, the root's mark, then digest and mark of each
subagent, and a check sum. A mark is a varint of `2 * (seq + 1) + cut`, six bytes of anchor and, when the event was
delivered in part, a varint of how many characters of its text were.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from agentlink.core.host.values import Event, event_type

VERSION = 1
_DIGEST_BYTES = 3
_TIME_BYTES = 3
_TIME_SHIFT = 10
"""About seconds; they repeat after 199 days."""
_TIMES = 1 << 8 * _TIME_BYTES
UNPROVEN = bytes(_DIGEST_BYTES + _TIME_BYTES)
"""The anchor of a mark that no event was read for: nothing can be checked against it."""
_ID_BYTES = 4
_SUM_BYTES = 2
_VARINT_BITS = 62

Reason = Literal["damaged", "foreign", "newer"]
_SAID: dict[Reason, str] = {
    "damaged": "this is not a whole cursor of Agentlink",
    "foreign": "the cursor belongs to another task",
    "newer": "a newer version of Agentlink made this cursor",
}


class CursorInvalid(Exception):
    """The text is no cursor of this task."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(_SAID[reason])
        self.reason = reason


class Mark(msgspec.Struct, frozen=True):
    """The last delivered event of one session; -1 when there is none.

    With an `offset` only that many characters of the event's text were delivered.
    """

    seq: int = -1
    anchor: bytes = UNPROVEN
    offset: int = 0

    @property
    def next_seq(self) -> int:
        """The event from which delivery goes on."""
        return self.seq if self.offset else self.seq + 1


START = Mark()


class Cursor(msgspec.Struct, frozen=True):
    """One mark for the root session, and one for each subagent that was met, by the digest of its session id."""

    task: str
    root: Mark = START
    children: tuple[tuple[bytes, Mark], ...] = ()

    def child(self, session: str) -> Mark:
        """Where that subagent stands; at its beginning when it was never met."""
        key = short_id(session)
        return next((mark for known, mark in self.children if known == key), START)


def short_id(text: str) -> bytes:
    """What stands for a long id inside a cursor."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).digest()


def anchor_of(event: Event) -> bytes:
    """What makes this event another one than any that could take its place, and its time in seconds."""
    told = f"{event_type(event)} {event.time_ms}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(told, digest_size=_DIGEST_BYTES).digest()
    return digest + _seconds(event).to_bytes(_TIME_BYTES)


def surely_older(event: Event, anchor: bytes) -> bool:
    """Whether the event had happened before the one behind the anchor, by more than the anchor's precision.

    Right for events up to 99 days apart; further apart, a late event can be taken for an old one.
    """
    since = (_seconds(event) - int.from_bytes(anchor[_DIGEST_BYTES:])) % _TIMES
    return since >= _TIMES // 2


def _seconds(event: Event) -> int:
    return (event.time_ms >> _TIME_SHIFT) % _TIMES


def mark_at(event: Event | None) -> Mark:
    """The mark of a reader who has everything up to this event; None for an empty log."""
    return START if event is None else Mark(event.seq, anchor_of(event))


def cursor_at(task: str, root: Mark, children: Mapping[str, Mark] | None = None) -> Cursor:
    """A cursor from what is known: the root's mark, and each subagent's by its session id."""
    met = {short_id(session): mark for session, mark in (children or {}).items()}
    return Cursor(task, root, tuple(sorted(met.items())))


def encode(cursor: Cursor) -> str:
    """The cursor as callers hold it."""
    raw = bytes([VERSION]) + short_id(cursor.task) + _mark_bytes(cursor.root)
    raw += b"".join(key + _mark_bytes(mark) for key, mark in cursor.children)
    return base64.urlsafe_b64encode(raw + _sum(raw)).rstrip(b"=").decode()


def decode(text: str, *, task: str) -> Cursor:
    """The cursor behind a text. Raises CursorInvalid for every text that `encode` did not make for this task."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise CursorInvalid("damaged") from None
    body, check = raw[:-_SUM_BYTES], raw[-_SUM_BYTES:]
    if len(body) <= _ID_BYTES or _sum(body) != check:
        raise CursorInvalid("damaged")
    if body[0] > VERSION:
        raise CursorInvalid("newer")
    if body[0] < VERSION:
        raise CursorInvalid("damaged")
    if body[1 : 1 + _ID_BYTES] != short_id(task):
        raise CursorInvalid("foreign")
    cursor = _read(body, 1 + _ID_BYTES, task)
    if encode(cursor) != text:  # one cursor has one text
        raise CursorInvalid("damaged")
    return cursor


def _read(body: bytes, at: int, task: str) -> Cursor:
    root, at = _read_mark(body, at)
    children: list[tuple[bytes, Mark]] = []
    while at < len(body):
        key = body[at : at + _ID_BYTES]
        mark, at = _read_mark(body, at + _ID_BYTES)
        children.append((key, mark))
    return Cursor(task, root, tuple(children))


def _sum(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=_SUM_BYTES, person=b"cursor").digest()


def _mark_bytes(mark: Mark) -> bytes:
    head = _varint(2 * (mark.seq + 1) + bool(mark.offset)) + mark.anchor
    return head + _varint(mark.offset) if mark.offset else head


def _read_mark(body: bytes, at: int) -> tuple[Mark, int]:
    number, at = _read_varint(body, at)
    anchor, at = body[at : at + len(UNPROVEN)], at + len(UNPROVEN)
    offset = 0
    if number % 2:
        offset, at = _read_varint(body, at)
    if at > len(body):
        raise CursorInvalid("damaged")
    return Mark(number // 2 - 1, anchor, offset), at


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(body) and shift < _VARINT_BITS:
        number |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
        if body[at - 1] < 0x80:
            return number, at
    raise CursorInvalid("damaged")
