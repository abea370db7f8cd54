"""Where one prompt request stands in a session's log: the fold behind every delivery question (dsh-wire 5)."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from agentlink.core.host.values import Event, InboxSpliced, TurnEnded, UserMessage

Standing = Literal["absent", "waiting", "claimed", "delivered", "removed", "consumed"]


class Found(msgspec.Struct, frozen=True):
    """What the log says of a request; `seq` and `time_ms` are those of the event that says it."""

    standing: Standing
    seq: int = -1
    time_ms: int = 0


ABSENT = Found("absent")


class InboxFold:
    """Follows the two inbox lists through their splices, so that a removal is charged to the right request."""

    def __init__(self) -> None:
        self._lists: dict[str, list[str | None]] = {"next-turn": [], "next-step": []}

    def splice(self, event: InboxSpliced) -> list[str | None]:
        """Applies one splice and returns the request ids it removed."""
        entries = self._lists[event.target]
        removed = entries[event.start : event.start + event.removed]
        entries[event.start : event.start + event.removed] = event.inserted
        return removed

    def holds(self, request: str) -> bool:
        """Whether an entry of this request still waits in one of the lists."""
        return any(request in entries for entries in self._lists.values())


def find_prompt(events: Iterable[Event], request: str) -> Found:
    """The standing of `request` after a whole log, from its first event on.

    A `user/message` wins; otherwise the last entry for a reused id counts. A claimed prompt whose turn ended
    without its message was consumed.
    """
    inbox = InboxFold()
    found = ABSENT
    for event in events:
        match event:
            case UserMessage() if event.request == request:
                return Found("delivered", event.seq, event.time_ms)
            case InboxSpliced():
                removed = inbox.splice(event)
                if request in event.inserted or (request in removed and inbox.holds(request)):
                    found = Found("waiting", event.seq, event.time_ms)
                elif request in removed:
                    found = Found("removed" if event.canceled else "claimed", event.seq, event.time_ms)
            case TurnEnded() if found.standing == "claimed":
                found = Found("consumed", event.seq, event.time_ms)
            case _:
                pass
    return found


def others_took_part(events: Iterable[Event], ours: frozenset[str]) -> bool:
    """Whether a person or another client has a message in the log that is none of our requests."""
    return any(isinstance(event, UserMessage) and event.by_person and event.request not in ours for event in events)
