"""The crash windows of a launch and what settles each (design section 3, second table).

`settlement` is a pure function of the launch and of what a reader of the Host has seen; it answers with facts to
append, with `Look` for what must be read first, or with None when nothing can or need be said now.
"""

from enum import Enum
from typing import Literal, assert_never

import msgspec

from agentlink.core.errors import Code
from agentlink.core.facts.launch import (
    LaunchFact,
    LaunchFailed,
    PromptConfirmed,
    PromptSent,
    SessionCreated,
    SessionLost,
)
from agentlink.core.host.find_prompt import Found
from agentlink.core.launch import machine
from agentlink.core.launch.state import Launch

MIN_AGE_MS = 1_000
"""How old an event must be by the Host's own clock before a crash of the Host can no longer take it back."""


class Look(Enum):
    """What must be read from the Host before the launch can be settled."""

    SESSION = "whether the session exists"
    PROMPT = "where the prompt request stands in the session's log"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. What is not there proves something only once nothing is under way (rule 7), on the task's own
    Host (section 5)."""

    session_exists: bool
    resolved: str | None = None
    found: Found | None = None
    nothing_underway: bool = False
    """The call's connection has ended, and this is the second read since, at least 3 s later."""
    host_proof: Literal["binding", "sibling", "person"] | None = None
    """How the Host was recognised as the task's own; None while it was not."""
    host_now_ms: int | None = None


def settlement(launch: Launch, seen: Seen | None) -> tuple[LaunchFact, ...] | Look | None:
    """The facts that settle an attempt whose driver is gone."""
    match launch.state:
        case machine.REQUESTED | machine.ROSTER_READ | machine.SESSION_CREATED | machine.PRESET_VERIFIED:
            return (_failed(launch, Code.INTERRUPTED),)
        case machine.SELECTED:
            return Look.SESSION if seen is None else _settle_selected(launch, seen)
        case machine.CLAIMED:
            return Look.PROMPT if seen is None else _settle_claimed(launch, seen)
        case machine.PROMPT_SENT if not launch.confirmed:
            return Look.PROMPT if seen is None else _settle_sent(launch, seen)
        case machine.LAUNCH_FAILED if launch.unprompted:
            return Look.SESSION if seen is None else _settle_unprompted(launch, seen)
        case _:
            return None


def _settle_selected(launch: Launch, seen: Seen) -> tuple[LaunchFact, ...] | None:
    if seen.session_exists and launch.intended_session is not None:
        created = SessionCreated(session=launch.intended_session, resolved=seen.resolved)
        code = LaunchFailed(code=Code.INTERRUPTED.value, stage=machine.SESSION_CREATED, session=launch.intended_session)
        return (created, code)
    if _proven_absent(seen):
        return (_failed(launch, Code.INTERRUPTED),)
    return None


def _settle_claimed(launch: Launch, seen: Seen) -> tuple[LaunchFact, ...] | None:
    if launch.request is None:
        return None
    match judged(seen):
        case "delivered" | "accepted" as standing:
            sent = PromptSent(request=launch.request, evidence="log")
            confirmed = _confirmation(seen) if standing == "delivered" else ()
            return (sent, *confirmed)
        case "discarded":
            return (_failed(launch, Code.PROMPT_DISCARDED),)
        case "consumed":
            return (_failed(launch, Code.PROMPT_CONSUMED),)
        case "absent":
            return (_failed(launch, Code.INTERRUPTED),)
        case None:
            return None
        case _ as never:
            assert_never(never)


def _settle_sent(launch: Launch, seen: Seen) -> tuple[LaunchFact, ...] | None:
    match judged(seen):
        case "delivered":
            return _confirmation(seen) or None
        case "discarded":
            return (_failed(launch, Code.PROMPT_DISCARDED),)
        case "consumed":
            return (_failed(launch, Code.PROMPT_CONSUMED),)
        case "absent":
            return (_failed(launch, Code.PROMPT_LOST),)
        case "accepted" | None:
            return None
        case _ as never:
            assert_never(never)


def _settle_unprompted(launch: Launch, seen: Seen) -> tuple[LaunchFact, ...] | None:
    if seen.session_exists or launch.session is None or seen.host_proof is None or not seen.nothing_underway:
        return None
    return (SessionLost(session=launch.session, proof=seen.host_proof),)


def judged(seen: Seen) -> Literal["delivered", "accepted", "discarded", "consumed", "absent"] | None:
    """What the log proves about the request; None while it proves nothing."""
    if not seen.session_exists:
        return "absent" if _proven_absent(seen) else None
    if seen.found is None:
        return None
    match seen.found.standing:
        case "delivered":
            return "delivered"
        case "waiting" | "claimed":
            return "accepted"
        case "removed":
            return "discarded" if old_enough(seen) and seen.nothing_underway else None
        case "consumed":
            return "consumed" if old_enough(seen) and seen.nothing_underway else None
        case "absent":
            return "absent" if _proven_absent(seen) else None
        case _ as never:
            assert_never(never)


def _confirmation(seen: Seen) -> tuple[LaunchFact, ...]:
    if seen.found is None or not old_enough(seen):
        return ()
    return (PromptConfirmed(seq=seen.found.seq),)


def old_enough(seen: Seen) -> bool:
    """Whether the event that was found can no longer be taken back by a crash of the Host."""
    if seen.found is None or seen.host_now_ms is None:
        return False
    return seen.host_now_ms - seen.found.time_ms >= MIN_AGE_MS


def _proven_absent(seen: Seen) -> bool:
    return seen.nothing_underway and seen.host_proof is not None


def _failed(launch: Launch, code: Code) -> LaunchFailed:
    return LaunchFailed(code=code.value, stage=launch.state, session=launch.session or launch.intended_session)
