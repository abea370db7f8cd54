"""The fold of a task's launch facts: what is known about one delegation, as a frozen value."""

from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from agentlink.core.facts.base import Fact, fact_type
from agentlink.core.facts.launch import (
    ClaimMode,
    Evidence,
    LaunchAbandoned,
    LaunchClaimed,
    LaunchFact,
    LaunchFailed,
    LaunchRecovered,
    LaunchRequested,
    LaunchSelected,
    Mode,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    RosterRead,
    SessionCreated,
    SessionLost,
    Verified,
)
from agentlink.core.facts.work import ClaimReleased, ClaimTaken, TaskLineFact, WriteIntended, WriteSettled
from agentlink.core.launch import machine
from agentlink.core.launch.writes import IllegalWrite, Writes, intend, settle
from agentlink.core.statechart.table import START, Stepper


class Launch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One task's launch so far. Fields of an attempt are reset when the next one begins."""

    state: str = START
    attempt: int = 0
    mode: Mode = "dsh-default"
    cwd: str = ""
    claim_mode: ClaimMode = "exclusive-write"
    claim_held: bool = False
    host: str = ""
    origin: str = ""
    binding: str | None = None
    asked_preset: str | None = None
    key: str | None = None
    input: str | None = None
    rule: str | None = None
    reason: str | None = None
    preset: str | None = None
    intended_session: str | None = None
    session: str | None = None
    resolved: str | None = None
    verification: Verified | None = None
    request: str | None = None
    evidence: Evidence | None = None
    confirmed_seq: int | None = None
    code: str | None = None
    host_code: str | None = None
    failed_stage: str | None = None
    abandoned: bool = False
    earlier_requests: tuple[str, ...] = ()
    """Request ids of earlier attempts that may still turn up in the session's log."""
    absent_sessions: tuple[str, ...] = ()
    """Sessions that were intended and settled as absent: `recover` looks whether one came late."""
    writes: Writes = Writes()
    """What was written to the session after the prompt."""

    @property
    def failed(self) -> bool:
        return self.state == machine.LAUNCH_FAILED

    @property
    def confirmed(self) -> bool:
        """The prompt is in the Host's durable log: nothing about the launch can change any more."""
        return self.confirmed_seq is not None

    @property
    def settled(self) -> bool:
        """No launch work is left: confirmed or failed."""
        return self.failed or self.confirmed

    @property
    def unprompted(self) -> bool:
        """A failed attempt left a session that can still be used: what `recover` lists."""
        return self.failed and self.session is not None and not self.abandoned

    @property
    def prompt_sent(self) -> bool | None:
        """Whether the Host has the prompt; None while that is unknown (design section 3, rule 13)."""
        if self.state == machine.CLAIMED:
            return None
        return self.state == machine.PROMPT_SENT


class IllegalFact(Exception):
    """The fact cannot follow in this state; nothing has changed."""

    def __init__(self, state: str, fact: Fact) -> None:
        super().__init__(f"{fact_type(fact)} cannot follow in state {state}")
        self.state = state
        self.fact = fact


GUARDS: dict[str, Callable[[Launch], bool]] = {
    "automatic": lambda launch: launch.mode == "automatic",
    "named_or_default": lambda launch: launch.mode != "automatic",
    "claim_stands": lambda launch: launch.claim_held,
    "not_confirmed": lambda launch: not launch.confirmed,
    "session_absent": lambda launch: launch.session is None,
    "session_known": lambda launch: launch.session is not None,
    "recoverable": lambda launch: launch.unprompted,
}

_stepper = Stepper(machine.TABLE, GUARDS)
_TRIGGERS: dict[type[Fact], str] = {}


def _trigger(fact: Fact) -> str:
    kind = type(fact)
    trigger = _TRIGGERS.get(kind)
    if trigger is None:
        trigger = _TRIGGERS[kind] = fact_type(fact)
    return trigger


def apply(launch: Launch, fact: TaskLineFact) -> Launch:
    """The launch after one more fact. Raises IllegalFact, and then nothing has changed."""
    evolve = _EVOLVE.get(type(fact))
    if evolve is None:
        return _after_launch(launch, fact)
    state = _stepper.target(launch.state, _trigger(fact), launch)
    if state is None:
        raise IllegalFact(launch.state, fact)
    return evolve(launch, fact, state)


def _after_launch(launch: Launch, fact: TaskLineFact) -> Launch:
    """What becomes of the claim, and of writes to a session that has its prompt."""
    match fact:
        case ClaimReleased() if launch.claim_held:
            return replace(launch, claim_held=False)
        case ClaimTaken() if not launch.claim_held and launch.state == machine.PROMPT_SENT:
            return replace(launch, claim_held=True)
        case WriteIntended() if launch.state == machine.PROMPT_SENT:
            return replace(launch, writes=_legal(launch, fact, intend))
        case WriteSettled():
            return replace(launch, writes=_legal(launch, fact, settle))
        case _:
            raise IllegalFact(launch.state, fact)


def _legal(launch: Launch, fact: Any, step: Callable[[Writes, Any], Writes]) -> Writes:
    try:
        return step(launch.writes, fact)
    except IllegalWrite:
        raise IllegalFact(launch.state, fact) from None


def _requested(launch: Launch, fact: LaunchRequested, state: str) -> Launch:
    return Launch(
        state=state,
        attempt=fact.attempt,
        mode=fact.mode,
        cwd=fact.cwd,
        claim_mode=fact.claim,
        host=fact.host,
        origin=fact.origin,
        binding=fact.binding,
        asked_preset=fact.preset,
        key=fact.key or launch.key,
        input=fact.input or launch.input,
        absent_sessions=launch.absent_sessions,
        writes=launch.writes,
    )


def _roster_read(launch: Launch, fact: RosterRead, state: str) -> Launch:  # noqa: ARG001  one shape for all
    return replace(launch, state=state)


def _selected(launch: Launch, fact: LaunchSelected, state: str) -> Launch:
    return replace(
        launch,
        state=state,
        preset=fact.preset,
        rule=fact.rule,
        reason=fact.reason,
        intended_session=fact.session,
        claim_held=True,
    )


def _created(launch: Launch, fact: SessionCreated, state: str) -> Launch:
    return replace(launch, state=state, session=fact.session, resolved=fact.resolved)


def _verified(launch: Launch, fact: PresetVerified, state: str) -> Launch:
    return replace(launch, state=state, verification=fact.verification)


def _claimed(launch: Launch, fact: LaunchClaimed, state: str) -> Launch:
    return replace(launch, state=state, request=fact.request)


def _sent(launch: Launch, fact: PromptSent, state: str) -> Launch:
    return replace(launch, state=state, request=fact.request, evidence=fact.evidence)


def _confirmed(launch: Launch, fact: PromptConfirmed, state: str) -> Launch:
    return replace(launch, state=state, confirmed_seq=fact.seq)


def _failed(launch: Launch, fact: LaunchFailed, state: str) -> Launch:
    return replace(
        launch,
        state=state,
        code=fact.code,
        host_code=fact.host_code,
        failed_stage=fact.stage,
        resolved=fact.resolved or launch.resolved,
        claim_held=False,
        absent_sessions=_with_absent(launch, fact),
    )


def _recovered(launch: Launch, fact: LaunchRecovered, state: str) -> Launch:
    earlier = launch.earlier_requests
    return replace(
        launch,
        state=state,
        attempt=fact.attempt,
        binding=fact.binding or launch.binding,
        resolved=fact.resolved,
        claim_held=True,
        verification=None,
        request=None,
        evidence=None,
        code=None,
        host_code=None,
        failed_stage=None,
        earlier_requests=earlier if launch.request is None else (*earlier, launch.request),
    )


def _lost(launch: Launch, fact: SessionLost, state: str) -> Launch:
    return replace(launch, state=state, session=None, absent_sessions=(*launch.absent_sessions, fact.session))


def _abandoned(launch: Launch, fact: LaunchAbandoned, state: str) -> Launch:  # noqa: ARG001  one shape for all
    return replace(launch, state=state, abandoned=True)


_EVOLVE: dict[type[Fact], Callable[[Launch, Any, str], Launch]] = {
    # By the fact's own class: replay is bound by this step, and a chain of comparisons took half of it.
    LaunchRequested: _requested,
    RosterRead: _roster_read,
    LaunchSelected: _selected,
    SessionCreated: _created,
    PresetVerified: _verified,
    LaunchClaimed: _claimed,
    PromptSent: _sent,
    PromptConfirmed: _confirmed,
    LaunchFailed: _failed,
    LaunchRecovered: _recovered,
    SessionLost: _lost,
    LaunchAbandoned: _abandoned,
}
if set(_EVOLVE) != set(get_args(LaunchFact)):  # pragma: no cover  (a new fact must be handled above)
    raise AssertionError("a launch fact has no step in the fold")


def _with_absent(launch: Launch, fact: LaunchFailed) -> tuple[str, ...]:
    """A create that the Host refused with a code made nothing; any other failed one may still arrive."""
    intended = launch.intended_session
    if launch.session is not None or intended is None or fact.host_code is not None:
        return launch.absent_sessions
    return (*launch.absent_sessions, intended)


def fold(facts: Iterable[TaskLineFact], launch: Launch | None = None) -> Launch:
    """The launch after all these facts. Raises IllegalFact at the first that cannot follow."""
    launch = launch or Launch()
    for fact in facts:
        launch = apply(launch, fact)
    return launch
