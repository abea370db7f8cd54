"""Hypothesis strategies for what the core, the wire and the journal speak about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from hypothesis import assume
from hypothesis import strategies as st
from msgspec.structs import replace

from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import (
    LaunchAbandoned,
    LaunchClaimed,
    LaunchFailed,
    LaunchRecovered,
    LaunchRequested,
    LaunchSelected,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    RosterRead,
    SessionCreated,
    SessionLost,
)
from agentlink.core.facts.work import (
    ClaimReleased,
    ClaimTaken,
    TailSetAside,
    TaskLineFact,
    WriteIntended,
    WriteKind,
    WriteOutcome,
    WriteSettled,
)
from agentlink.core.host.values import Event, InboxSpliced, OtherEvent, TurnEnded, TurnStarted, UserMessage
from agentlink.core.launch import machine
from agentlink.core.launch.history import Recorded
from agentlink.core.launch.state import GUARDS, Launch, apply

MODES = ("automatic", "manual", "dsh-default")
CODES = ("interrupted", "prompt_lost", "prompt_discarded", "resolved_preset_mismatch", "host_unreachable", "canceled")
STATES = tuple(state.name for state in machine.STATES)

TEXT = st.text(max_size=30)
"""Any text that JSON can hold, line separators and NUL included; no lone surrogates."""
SOME_TEXT = st.none() | TEXT
NUMBER = st.integers(0, 2**53)
NAMES = st.sampled_from(("a", "b", "c"))


def _facts(name: st.SearchStrategy[str], number: st.SearchStrategy[int]) -> dict[type, st.SearchStrategy[Any]]:
    some = st.none() | name
    return {
        LaunchRequested: st.builds(
            LaunchRequested,
            attempt=number,
            mode=st.sampled_from(MODES),
            cwd=name,
            claim=st.sampled_from(("exclusive-write", "read-only")),
            host=name,
            origin=name,
            binding=some,
            preset=some,
            hints=some,
            key=some,
            input=some,
        ),
        RosterRead: st.builds(RosterRead, presets=number, broken=number, wire=name),
        LaunchSelected: st.builds(LaunchSelected, session=name, reason=name, preset=some, rule=some),
        SessionCreated: st.builds(SessionCreated, session=name, resolved=some),
        PresetVerified: st.builds(
            PresetVerified, verification=st.sampled_from(("verified", "not-required", "unavailable"))
        ),
        LaunchClaimed: st.builds(LaunchClaimed, request=name),
        PromptSent: st.builds(PromptSent, request=name, evidence=st.sampled_from(("receipt", "log"))),
        PromptConfirmed: st.builds(PromptConfirmed, seq=number),
        LaunchFailed: st.builds(
            LaunchFailed,
            code=st.sampled_from(CODES),
            stage=st.sampled_from(STATES),
            host_code=some,
            resolved=some,
            session=some,
        ),
        LaunchRecovered: st.builds(LaunchRecovered, attempt=number, resolved=some, binding=some),
        SessionLost: st.builds(SessionLost, session=name, proof=st.sampled_from(("binding", "sibling", "person"))),
        LaunchAbandoned: st.builds(LaunchAbandoned),
        ClaimReleased: st.builds(ClaimReleased, forced=st.booleans()),
        ClaimTaken: st.builds(ClaimTaken),
        WriteIntended: st.builds(
            WriteIntended, kind=st.sampled_from(get_args(WriteKind)), request=name, target=some, key=some, input=some
        ),
        WriteSettled: st.builds(
            WriteSettled, request=name, outcome=st.sampled_from(get_args(WriteOutcome)), host_code=some
        ),
    }


FACTS = _facts(NAMES, st.integers(1, 4))
"""Fact class -> facts with short, colliding names."""
ANY_FACT = st.one_of(*_facts(TEXT, NUMBER).values(), st.builds(TailSetAside, file=TEXT, bytes=NUMBER))
"""Every fact the journal can hold, with any text."""
ANY_TASK_FACT = st.one_of(*FACTS.values())
BY_NAME = {fact_type(kind): kind for kind in FACTS}


def legal_kinds(launch: Launch) -> list[type]:
    """What may follow, read off the table and its guards; a held claim may be released in any state."""
    kinds = [
        BY_NAME[row.trigger]
        for row in machine.ROWS
        if row.source == launch.state and (row.guard is None or GUARDS[row.guard](launch))
    ]
    if launch.claim_held:
        kinds.append(ClaimReleased)
    if launch.state == machine.PROMPT_SENT:
        kinds += [WriteIntended] if launch.claim_held else [WriteIntended, ClaimTaken]
    return [*kinds, WriteSettled] if launch.writes.open else kinds


@st.composite
def _legal_fact(draw: st.DrawFn, kind: type, launch: Launch) -> TaskLineFact:
    """A fact of that kind; one of a write names a request that is new, or one that is open."""
    fact = draw(FACTS[kind])
    if isinstance(fact, WriteIntended):
        return replace(fact, request=f"w{launch.writes.count}")
    if isinstance(fact, WriteSettled):
        write = draw(st.sampled_from(launch.writes.open))
        outcomes = ("history", "lost", "discarded", "consumed", "unknown")
        fresh = write.outcome is None
        return replace(
            fact, request=write.request, outcome=draw(st.sampled_from(get_args(WriteOutcome) if fresh else outcomes))
        )
    return fact


@st.composite
def legal_facts(draw: st.DrawFn, *, max_size: int = 24, launch: Launch | None = None) -> list[TaskLineFact]:
    """Facts in an order that the table allows, over several attempts."""
    launch = launch or Launch()
    facts: list[TaskLineFact] = []
    for _ in range(draw(st.integers(0, max_size))):
        kinds = legal_kinds(launch)
        if not kinds:
            break
        # A failure is legal almost everywhere: drawn like the others it would end most walks early.
        kind = draw(st.sampled_from([k for k in kinds for _ in range(1 if k is LaunchFailed else 3)]))
        fact = draw(_legal_fact(kind, launch))
        facts.append(fact)
        launch = apply(launch, fact)
    return facts


@st.composite
def launches(draw: st.DrawFn, *, where: Callable[[Launch], bool] = lambda _: True) -> Launch:
    """A launch that a legal history leads to."""
    facts = draw(legal_facts())
    launch = Launch()
    seen = [launch]
    for fact in facts:
        launch = apply(launch, fact)
        seen.append(launch)
    fitting = [one for one in seen if where(one)]
    assume(fitting)
    # By state first: the late states are rare, and they are the interesting ones.
    state = draw(st.sampled_from(sorted({one.state for one in fitting})))
    return draw(st.sampled_from([one for one in fitting if one.state == state]))


@st.composite
def recorded_lines(draw: st.DrawFn) -> list[Recorded]:
    """A task's journal lines: legal facts, one to three in a line."""
    facts = draw(legal_facts())
    lines: list[Recorded] = []
    while facts:
        size = draw(st.integers(1, 3))
        part, facts = facts[:size], facts[size:]
        number = len(lines) + 1
        lines.append(Recorded(seq=number, at=f"2026-01-01T00:00:{number:02}Z", n=number, facts=tuple(part)))
    return lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def logs(draw: st.DrawFn, *, requests: tuple[str, ...] = ("r1", "r2")) -> list[Event]:
    """A session's log from its first event on, as a Host writes it: prompts wait, are claimed, reach the model or do
    not; each id at most twice."""
    events: list[Event] = []
    waiting: list[str] = []
    claimed: str | None = None
    turn = 0
    running = False
    left = dict.fromkeys(requests, 2)

    def at() -> dict[str, int]:
        return {"seq": len(events), "time_ms": 1_000 * len(events)}

    def splice(start: int, removed: int, inserted: tuple[str, ...] = (), *, canceled: bool = False) -> None:
        events.append(
            InboxSpliced(target="next-turn", start=start, removed=removed, inserted=inserted, canceled=canceled, **at())
        )

    for _ in range(draw(st.integers(0, 20))):
        steps = ["other"]
        steps += ["insert"] * any(left.values())
        steps += ["remove"] * bool(waiting)
        steps += ["start"] * (bool(waiting) and not running)
        steps += ["message"] * (claimed is not None) * 3
        steps += ["end"] * running
        match draw(st.sampled_from(steps)):
            case "insert":
                request = draw(st.sampled_from([r for r, n in left.items() if n]))
                left[request] -= 1
                place = draw(st.integers(0, len(waiting)))
                splice(place, 0, (request,))
                waiting.insert(place, request)
            case "remove":
                place = draw(st.integers(0, len(waiting) - 1))
                waiting.pop(place)
                splice(place, 1, canceled=True)
            case "start":
                turn, running = turn + 1, True
                events.append(TurnStarted(turn=turn, **at()))
                claimed = waiting.pop(0)
                splice(0, 1)
            case "message":
                events.append(UserMessage(request=claimed, by_person=True, **at()))
                claimed = None
            case "end":
                kind = draw(st.sampled_from(("completed", "aborted", "error", "interrupted", "blocked")))
                events.append(TurnEnded(turn=turn, kind=kind, **at()))
                running, claimed = False, None
            case _:
                events.append(OtherEvent(type="step/start", **at()))
    return events
