"""Reading a session's log through bounded pages."""

from agentlink.app.ports import Host
from agentlink.core.host.find_prompt import ABSENT, Found, find_prompt
from agentlink.core.host.values import Event

_PAGE_MESSAGES = 200
_HEAD_EVENTS = 64


async def whole_log(host: Host, session: str, *, through: int) -> tuple[tuple[Event, ...], int | None]:
    """Every event up to `through` and the Host's clock at the last read. Raises HostFault."""
    pages: list[tuple[Event, ...]] = []
    before: int | None = None
    while True:
        page = await host.page(session, through=through, before=before, messages=_PAGE_MESSAGES)
        pages.append(page.events)
        if not page.has_more or not page.events:
            return tuple(event for part in reversed(pages) for event in part), page.host_now_ms
        before = page.events[0].seq


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
