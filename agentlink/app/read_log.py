"""Reading a session's log through bounded pages."""

from agentlink.app.ports import Host
from agentlink.core.host.find_prompt import ABSENT, Found, find_prompt
from agentlink.core.host.values import Event

_PAGE_MESSAGES = 200
_HEAD_EVENTS = 64
_TAIL_MESSAGES = 40


async def whole_log(
    host: Host, session: str, *, through: int, after: int = -1, messages: int = _PAGE_MESSAGES
) -> tuple[tuple[Event, ...], int | None]:
    """Every event up to `through` that comes after `after`, perhaps with some before that, and the Host's clock at the
    last read. Raises HostFault."""
    pages: list[tuple[Event, ...]] = []
    before: int | None = None
    while True:
        page = await host.page(session, through=through, before=before, messages=messages)
        pages.append(page.events)
        if not page.has_more or not page.events or page.events[0].seq <= after + 1:
            return tuple(event for part in reversed(pages) for event in part), page.host_now_ms
        before = page.events[0].seq


async def late_standing_of(host: Host, session: str, request: str, *, last_seq: int) -> tuple[Found, int | None]:
    """The same for a request that was made long after the session began: its message is near the end."""
    if last_seq < 0:
        return ABSENT, None
    tail = await host.page(session, through=last_seq, messages=_TAIL_MESSAGES)
    found = find_prompt(tail.events, request)
    if found.standing == "delivered" or not tail.has_more:
        return found, tail.host_now_ms
    # Which entry a removal took can be told only from the whole log.
    events, now = await whole_log(host, session, through=last_seq)
    return find_prompt(events, request), now


async def standing_of(host: Host, session: str, request: str, *, last_seq: int) -> tuple[Found, int | None]:
    """Where the request stands in the log that ends at `last_seq`, and the Host's clock. Raises HostFault.

    A launch's own prompt is near the beginning, so that is read first; only a delivered message is final there.
    """
    if last_seq < 0:
        return ABSENT, None
    if last_seq >= _HEAD_EVENTS:
        head = await host.page(session, through=_HEAD_EVENTS - 1, messages=_PAGE_MESSAGES)
        found = find_prompt(head.events, request)
        if found.standing == "delivered":
            return found, head.host_now_ms
    events, now = await whole_log(host, session, through=last_seq)
    return find_prompt(events, request), now


async def events_after(host: Host, session: str, seq: int) -> tuple[Event, ...]:
    """Every event after `seq`, for as long as they are few; a session that is gone has none. Raises HostFault."""
    state = await host.session_state(session)
    if state is None or state.last_seq <= seq:
        return ()
    events, _ = await whole_log(host, session, through=state.last_seq, after=seq, messages=_TAIL_MESSAGES)
    return tuple(event for event in events if event.seq > seq)
