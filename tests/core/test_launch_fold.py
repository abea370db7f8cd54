from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import (
    LaunchClaimed,
    LaunchFailed,
    LaunchRecovered,
    LaunchRequested,
    LaunchSelected,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    SessionCreated,
    SessionLost,
)
from agentlink.core.facts.work import ClaimReleased, TaskFact, TaskLineFact, WriteIntended, WriteSettled
from agentlink.core.launch import machine
from agentlink.core.launch.state import GUARDS, IllegalFact, Launch, apply, fold
from agentlink.core.statechart.engine import Engine
from tests.strategies import ANY_TASK_FACT, BY_NAME, FACTS, launches, legal_facts, legal_kinds

REQUESTED = LaunchRequested(
    attempt=1, mode="manual", cwd="/w", claim="exclusive-write", host="h", origin="http://o", preset="p"
)
SELECTED = LaunchSelected(session="s1", reason="explicit_preset", preset="p")
CREATED = SessionCreated(session="s1", resolved="p")
VERIFIED = PresetVerified(verification="verified")
CLAIMED = LaunchClaimed(request="t.1.0")
SENT = PromptSent(request="t.1.0", evidence="receipt")
TO_CLAIMED: list[TaskLineFact] = [REQUESTED, SELECTED, CREATED, VERIFIED, CLAIMED]

# design section 3, the first table, written down again by hand
DESIGN = {
    "none": {"launch/requested"},
    "requested": {"launch/roster-read", "launch/selected", "launch/failed"},
    "roster-read": {"launch/selected", "launch/failed"},
    "selected": {"launch/session-created", "launch/failed"},
    "session-created": {"launch/preset-verified", "launch/failed"},
    "preset-verified": {"launch/claimed", "launch/failed"},
    "claimed": {"launch/prompt-sent", "launch/failed"},
    "prompt-sent": {"launch/prompt-confirmed", "launch/failed"},
    "launch-failed": {"launch/requested", "launch/recovered", "launch/session-lost", "launch/abandoned"},
}


def test_the_table_allows_what_the_design_page_lists_and_nothing_more() -> None:
    table: dict[str, set[str]] = {}
    for row in machine.ROWS:
        table.setdefault(row.source, set()).add(row.trigger)
    assert table == DESIGN


@given(legal_facts(), st.data())
def test_folding_two_parts_one_after_the_other_is_folding_the_whole(
    facts: list[TaskLineFact], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(facts)))
    assert fold(facts[cut:], fold(facts[:cut])) == fold(facts)


def fits_the_writes(launch: Launch, fact: TaskLineFact) -> bool:
    """Whether a write's fact names what it may name: something new, or something open with that outcome to come."""
    match fact:
        case WriteIntended():
            return launch.writes.find(fact.request) is None
        case WriteSettled():
            write = launch.writes.find(fact.request)
            first = ("receipt", "refused", "absent")
            return write is not None and (write.outcome is None or fact.outcome not in first)
        case _:
            return True


@given(launches(), ANY_TASK_FACT)
def test_a_fact_is_accepted_exactly_when_the_table_and_its_guards_allow_it(launch: Launch, fact: TaskLineFact) -> None:
    legal = type(fact) in legal_kinds(launch) and fits_the_writes(launch, fact)
    before = repr(launch)
    if legal:
        assert apply(launch, fact) is not launch
    else:
        with pytest.raises(IllegalFact) as caught:
            apply(launch, fact)
        assert (caught.value.state, caught.value.fact) == (launch.state, fact)
    assert repr(launch) == before


@given(launches())
def test_replay_and_the_live_engine_agree_on_what_may_happen_next(launch: Launch) -> None:
    engine = Engine(machine.TABLE, GUARDS)
    allowed = {BY_NAME[name] for name in engine.allowed(launch.state, launch)}
    assert allowed == set(legal_kinds(launch)) - set(get_args(TaskFact))


@given(launches())
def test_prompt_sent_is_never_false_while_a_prompt_may_be_on_its_way(launch: Launch) -> None:
    expected = {"claimed": None, "prompt-sent": True}
    assert launch.prompt_sent is expected.get(launch.state, False)


def test_prompt_sent_at_each_step_of_a_delivery_is_no_then_unknown_then_yes() -> None:
    steps = [*TO_CLAIMED, SENT, PromptConfirmed(seq=8)]
    told = [fold(steps[:end]).prompt_sent for end in range(len(steps) + 1)]
    assert told == [False] * 5 + [None, True, True]


@given(launches())
def test_a_settled_launch_is_failed_or_confirmed_and_a_claim_never_outlives_a_failure(launch: Launch) -> None:
    assert launch.settled == (launch.state == "launch-failed" or launch.confirmed_seq is not None)
    assert not (launch.failed and launch.claim_held)
    assert launch.unprompted == (launch.failed and launch.session is not None and not launch.abandoned)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(launches(where=lambda launch: launch.confirmed))
def test_only_claims_and_later_writes_follow_a_confirmed_prompt(launch: Launch) -> None:
    assert set(legal_kinds(launch)) <= set(get_args(TaskFact))


def test_every_launch_fact_can_happen() -> None:
    after = {fact_type(kind) for kind in get_args(TaskFact)}
    assert {row.trigger for row in machine.ROWS} | after == set(BY_NAME)
    assert all(fact_type(kind) in BY_NAME for kind in FACTS)


def test_a_released_claim_stops_the_launch_before_its_prompt() -> None:
    launch = fold([REQUESTED, SELECTED, CREATED, VERIFIED, ClaimReleased(forced=True)])
    with pytest.raises(IllegalFact):
        apply(launch, CLAIMED)
    with pytest.raises(IllegalFact):
        apply(launch, ClaimReleased())


def test_a_recovery_takes_the_session_the_claim_and_the_earlier_request_along() -> None:
    failed = LaunchFailed(code="prompt_lost", stage="prompt-sent", session="s1")
    launch = fold([*TO_CLAIMED, SENT, failed, LaunchRecovered(attempt=2, resolved="q", binding="b")])
    assert launch.state == "session-created"
    assert (launch.session, launch.preset, launch.mode, launch.cwd) == ("s1", "p", "manual", "/w")
    assert launch.claim_held
    assert launch.earlier_requests == ("t.1.0",)
    assert (launch.request, launch.evidence, launch.code, launch.verification) == (None, None, None, None)
    assert (launch.attempt, launch.resolved, launch.binding) == (2, "q", "b")


def test_a_recovery_of_an_attempt_that_never_claimed_has_no_earlier_request() -> None:
    failed = LaunchFailed(code="interrupted", stage="session-created", session="s1")
    launch = fold([REQUESTED, SELECTED, CREATED, failed, LaunchRecovered(attempt=2)])
    assert launch.earlier_requests == ()


def test_a_new_attempt_keeps_only_the_request_key_of_the_one_before() -> None:
    first = LaunchRequested(
        attempt=1, mode="manual", cwd="/w", claim="read-only", host="h", origin="o", key="k", input="i"
    )
    again = LaunchRequested(attempt=2, mode="dsh-default", cwd="/x", claim="exclusive-write", host="h", origin="o")
    launch = fold([first, LaunchFailed(code="host_unreachable", stage="requested"), again])
    assert (launch.key, launch.input, launch.attempt, launch.cwd) == ("k", "i", 2, "/x")
    assert (launch.code, launch.failed_stage, launch.session) == (None, None, None)


def test_a_session_intended_and_never_seen_is_remembered_unless_the_host_refused_it() -> None:
    silent = LaunchFailed(code="interrupted", stage="selected", session="s1")
    refused = LaunchFailed(code="preset_not_found", stage="selected", host_code="agent-preset/not-found")
    launch = fold([REQUESTED, SELECTED, silent, REQUESTED, SELECTED, refused, REQUESTED])
    assert launch.absent_sessions == ("s1",)
    assert fold([REQUESTED, LaunchFailed(code="canceled", stage="requested")]).absent_sessions == ()
    assert fold([REQUESTED, SELECTED, CREATED, silent]).absent_sessions == ()


def test_a_lost_session_allows_a_new_attempt_and_a_kept_one_does_not() -> None:
    failed = fold([REQUESTED, SELECTED, CREATED, LaunchFailed(code="interrupted", stage="session-created")])
    with pytest.raises(IllegalFact):
        apply(failed, REQUESTED)
    lost = apply(failed, SessionLost(session="s1", proof="binding"))
    assert not lost.unprompted
    assert apply(lost, REQUESTED).state == "requested"


def test_a_confirmation_comes_once() -> None:
    launch = fold([*TO_CLAIMED, SENT, PromptConfirmed(seq=8)])
    assert launch.confirmed_seq == 8
    with pytest.raises(IllegalFact):
        apply(launch, PromptConfirmed(seq=8))
    with pytest.raises(IllegalFact):
        apply(launch, LaunchFailed(code="prompt_lost", stage="prompt-sent"))
