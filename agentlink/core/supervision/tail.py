"""A task's sessions told in one stable order, in replies of bounded size.

At each step the strand whose next digest is earliest by the Host's clock is told, ties going to the session that was
made first. That choice depends only on where each strand stands, so a story cut anywhere goes on as if it were uncut,
even when a clock went backwards. A strand that must be read before the choice can be made is named as `hungry`.
"""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from agentlink.core.host.values import Event, SubagentStarted
from agentlink.core.supervision.cursor import START, Mark, anchor_of, mark_at
from agentlink.core.supervision.digest import Digest, digest

_TEXT_FIELD = len('"text":"",')
_encoder = msgspec.json.Encoder()


class Strand(msgspec.Struct, frozen=True, kw_only=True):
    """One session: what was delivered of it, and the events after that as far as they were read."""

    session: str | None = None
    """None for the root."""
    since_ms: int = 0
    """When a subagent was made: nothing of it is told as if it had been earlier."""
    mark: Mark = START
    events: tuple[Event, ...] = ()
    """From `mark.next_seq` on."""
    whole: bool = False
    """Whether nothing more can be read now."""


class Dealt(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into the reply, and the strands after it."""

    parts: tuple[Digest, ...]
    strands: tuple[Strand, ...]
    used: int
    """Bytes of the parts as JSON, with a separator each."""
    full: bool = False
    """Whether the next part did not fit."""
    hungry: int | None = None
    """The strand whose next events are needed to go on."""


class _Place:
    """Where dealing stands in one strand."""

    def __init__(self, strand: Strand, *, task: str) -> None:
        self.strand = strand
        self.mark = strand.mark
        self.at = 0
        self.head: Digest | None = None
        self._task = task
        self._seek()

    @property
    def done(self) -> bool:
        return self.head is None and self.strand.whole

    @property
    def order(self) -> tuple[int, int, str]:
        """Where its next digest stands among those of the others."""
        return self._time_ms, self.strand.since_ms, self.strand.session or ""

    @property
    def _time_ms(self) -> int:
        """When the next digest is told; a strand that was not read far enough might be next from its beginning on."""
        if self.head is None:
            return self.strand.since_ms
        event = self.strand.events[self.at]
        # A subagent works before its parent's log names it; it is introduced first all the same.
        named = event.child.created_ms if isinstance(event, SubagentStarted) else 0
        return max(named or event.time_ms, self.strand.since_ms)

    def take(self, part: Digest) -> None:
        """That part of the head was delivered; with `more`, its text goes on."""
        if part.more:
            event = self.strand.events[self.at]
            self.mark = Mark(event.seq, anchor_of(event), part.offset + len(part.text))
        else:
            self._pass()
            self._seek()

    def after(self) -> Strand:
        return replace(self.strand, mark=self.mark, events=self.strand.events[self.at :])

    def _pass(self) -> None:
        self.mark = mark_at(self.strand.events[self.at])
        self.at += 1

    def _seek(self) -> None:
        self.head = None
        while self.at < len(self.strand.events):
            event = self.strand.events[self.at]
            self.head = digest(event, task=self._task, session=self.strand.session)
            if self.head is not None:
                return
            self._pass()


def deal(strands: Sequence[Strand], *, task: str, room: int, first: bool = True) -> Dealt:
    """As many parts as fit into `room` bytes, in order; at least one when the reply is empty so far (`first`).

    A text that fits no reply is cut, and only where a reply begins with it.
    """
    places = [_Place(strand, task=task) for strand in strands]
    parts: list[Digest] = []
    left, full = room, False
    hungry: int | None = None
    while not full:
        index = _next(places)
        if index is None:
            break
        place = places[index]
        if place.head is None:
            hungry = index
            break
        part = rest_of(place.head, place.mark.offset)
        size = _size(part)
        if size > left:
            full = True
            if parts or not first:
                break
            part = first_of(part, room)
            size = _size(part)
        place.take(part)
        parts.append(part)
        left -= size
    return Dealt(
        parts=tuple(parts),
        strands=tuple(place.after() for place in places),
        used=room - left,
        full=full and any(not place.done for place in places),
        hungry=hungry,
    )


def rest_of(whole: Digest, offset: int) -> Digest:
    """The digest from that character of its text on."""
    if not offset:
        return whole
    size = len(whole.text) if whole.size is None else whole.size
    return replace(whole, text=whole.text[offset:], offset=offset, size=size)


def first_of(rest: Digest, room: int) -> Digest:
    """The first part of the digest, of at most `room` bytes but never without a character; all of it, if it fits."""
    size = rest.offset + len(rest.text) if rest.size is None else rest.size
    part = replace(rest, text="", size=size, more=True)
    text = cut_text(rest.text, offset=0, max_bytes=room - _size(part) - _TEXT_FIELD)
    return rest if len(text) == len(rest.text) else replace(part, text=text)


def cut_text(text: str, *, offset: int, max_bytes: int) -> str:
    """The text from that character on, as far as `max_bytes` of JSON hold it; at least one character, if there is one.

    Characters are code points, so none is ever torn.
    """
    piece = text[offset : offset + max(max_bytes, 1)]
    if _json_bytes(piece) <= max_bytes:
        return piece
    fitting = bisect_right(range(len(piece) + 1), max_bytes, key=lambda end: _json_bytes(piece[:end])) - 1
    return piece[: max(fitting, 1)]


def _next(places: Sequence[_Place]) -> int | None:
    return min(
        (index for index, place in enumerate(places) if not place.done),
        key=lambda index: places[index].order,
        default=None,
    )


def _size(part: Digest) -> int:
    return len(_encoder.encode(part)) + 1


def _json_bytes(text: str) -> int:
    return len(_encoder.encode(text)) - len('""')
