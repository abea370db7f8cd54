"""Reading one session's log forward, from where a cursor stands, in windows of bounded size.

Host pages only reach back from their end, by messages and not by events, so each window asks for few messages and
walks back until it begins where it should. The first window begins with the event at the cursor: when another one
stands there, or none, the Host's history was rewound.
"""

from msgspec.structs import replace

from agentlink.app.ports import Host
from agentlink.core.host.faults import BadReply
from agentlink.core.host.values import Address, ChildRef, Event, TurnStarted
from agentlink.core.supervision.cursor import UNPROVEN, Mark, anchor_of, surely_older
from agentlink.core.supervision.tail import Strand

_FIRST_WINDOW, _LARGEST_WINDOW = 64, 512
_EVENTS_PER_MESSAGE = 4
"""Fewer than real logs have (about six), so that a window seldom reaches far back behind its beginning."""
_TURN_MESSAGES = 20


class Reader:
    """Reads one session's log forward, as far as it went when it was opened."""

    def __init__(self, host: Host, address: Address) -> None:
        self.children: tuple[ChildRef, ...] = ()
        self.last_seq: int | None = None
        """None until it was opened; -1 when there is nothing."""
        self.gone = False
        """The Host has no such session."""
        self.rewound_to: int | None = None
        """The event from which everything is told anew, when the history was rewound."""
        self.windows = 0
        """How often it was read."""
        self._host = host
        self._address = address
        self._size = _FIRST_WINDOW
        self._read_to = -1

    def left(self, strand: Strand) -> int:
        """How many events of the log are not delivered."""
        return 0 if self.last_seq is None or self.gone else self.last_seq + 1 - strand.mark.next_seq

    async def fill(self, strand: Strand) -> Strand:
        """The strand with the events that follow; `whole` once it has the last one. Raises HostFault."""
        if self.last_seq is not None:
            return await self._more(strand)
        state = await self._host.session_state(self._address.session)
        self.last_seq = -1 if state is None else state.last_seq
        self.children = () if state is None else state.children
        self.gone = state is None
        if state is None:
            return replace(strand, whole=True)  # and its mark stays
        mark = strand.mark
        if mark.seq <= self.last_seq:
            self._read_to = mark.seq - 1
            filled = await self._anchored(strand)
            if filled is not None:
                return filled
        self.rewound_to = await self._turn_before(mark)
        self._read_to = self.rewound_to - 2
        again = await self._anchored(replace(strand, mark=Mark(self.rewound_to - 1)))
        if again is None:  # pragma: no cover  a mark without an anchor fits
            raise BadReply("the history changed while it was read")
        return again

    async def _anchored(self, strand: Strand) -> Strand | None:
        """The first window, from the marked event on; None when that is another event than the mark says."""
        mark = strand.mark
        if mark.seq < 0:
            self._read_to = -1
            return await self._more(strand)
        filled = await self._more(strand)
        at = filled.events[0]
        if mark.anchor not in (UNPROVEN, anchor_of(at)):
            return None
        events = filled.events if mark.offset else filled.events[1:]
        return replace(filled, mark=replace(mark, anchor=anchor_of(at)), events=events)

    async def _more(self, strand: Strand) -> Strand:
        last = self.last_seq if self.last_seq is not None else -1
        events: tuple[Event, ...] = ()
        if self._read_to < last:
            self.windows += 1
            events = await self._window(self._read_to + 1, last)
            self._read_to = events[-1].seq
            self._size = min(2 * self._size, _LARGEST_WINDOW)
        return replace(strand, events=strand.events + events, whole=self._read_to >= last)

    async def _window(self, start: int, last: int) -> tuple[Event, ...]:
        while True:
            try:
                return await self._events(start, min(start + self._size - 1, last))
            except BadReply:
                if self._size == 1:
                    raise
                self._size = max(self._size // 4, 1)  # perhaps it was too large

    async def _events(self, start: int, end: int) -> tuple[Event, ...]:
        """The events from `start` to `end`, both included."""
        kept: list[tuple[Event, ...]] = []
        before = end + 1
        while before > start:
            events = await self._page(end, before, max(1, (end + 1 - start) // _EVENTS_PER_MESSAGE))
            before = events[0].seq
            kept.append(events[max(0, start - before) :])
        return tuple(event for part in reversed(kept) for event in part)

    async def _page(self, through: int, before: int, messages: int) -> tuple[Event, ...]:
        """Events that end before `before`; at least one."""
        page = await self._host.page(
            self._address.session,
            through=through,
            before=before if before <= through else None,
            messages=messages,
            parent=self._address.parent,
        )
        if not page.events or page.events[-1].seq != before - 1:
            raise BadReply(f"a history page that does not end before event {before}")
        return page.events

    async def _turn_before(self, mark: Mark) -> int:
        """Where the turn began in which the history was rewound at the latest; 0 when there is none.

        What came after the loss is not older than the lost event. It may lie before the mark: two short turns can
        have taken the place of many lost events.
        """
        last = -1 if self.last_seq is None else self.last_seq
        before, old = last + 1, False
        while before > 0:
            events = await self._page(last, before, _TURN_MESSAGES)
            for event in reversed(events):
                old = old or (event.seq <= mark.seq and surely_older(event, mark.anchor))
                if old and isinstance(event, TurnStarted):
                    return event.seq
            before = events[0].seq
        return 0
