from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.errors import Code
from agentlink.core.facts.launch import (
    LaunchAbandoned,
    LaunchFailed,
    LaunchRecovered,
    PromptConfirmed,
    PromptSent,
    RosterRead,
    SessionCreated,
    SessionLost,
)
from agentlink.core.facts.work import ClaimReleased, TaskLineFact
from agentlink.core.host.find_prompt import Found, Standing
from agentlink.core.launch.settle import Look, Seen, settlement
from agentlink.core.launch.state import Launch, fold
from tests.core.test_launch_fold import (
    CLAIMED,
    CREATED,
    REQUESTED,
    SELECTED,
    SENT,
    TO_CLAIMED,
    VERIFIED,
)
from tests.strategies import launches

NOW = 100_000
STANDINGS: tuple[Standing, ...] = ("absent", "waiting", "claimed", "delivered", "removed", "consumed")
FOUNDS = (None, *(Found(standing, 7, NOW - age) for standing in STANDINGS for age in (-500, 0, 999, 1000, 60_000)))
SEEN = tuple(
    Seen(
        session_exists=exists,
        resolved=resolved,
        found=found,
        nothing_underway=quiet,
        host_proof=proof,
        host_now_ms=now,
    )
    for exists, resolved, found, quiet, proof, now in product(
        (True, False), (None, "p"), FOUNDS, (True, False), (None, "binding", "sibling", "person"), (None, NOW)
    )
)
FAILED = LaunchFailed(code="interrupted", stage="session-created", session="s1")
RECOVERED = LaunchRecovered(attempt=2, resolved="p")
AUTOMATIC = [
    type(REQUESTED)(attempt=1, mode="automatic", cwd="/w", claim="read-only", host="h", origin="o"),
    RosterRead(presets=3, broken=0, wire="remote"),
]
WINDOWS: dict[str, list[TaskLineFact]] = {
    "requested": [REQUESTED],
    "roster-read": [*AUTOMATIC],
    "selected": [REQUESTED, SELECTED],
    "session-created": [REQUESTED, SELECTED, CREATED],
    "preset-verified": [REQUESTED, SELECTED, CREATED, VERIFIED],
    "claimed": TO_CLAIMED,
    "claimed, claim released": [*TO_CLAIMED, ClaimReleased(forced=True)],
    "prompt-sent": [*TO_CLAIMED, SENT],
    "recovered": [REQUESTED, SELECTED, CREATED, FAILED, RECOVERED],
    "claimed again": [REQUESTED, SELECTED, CREATED, FAILED, RECOVERED, VERIFIED, CLAIMED],
    "unprompted": [REQUESTED, SELECTED, CREATED, FAILED],
}
FINISHED: dict[str, list[TaskLineFact]] = {
    "nothing": [],
    "confirmed": [*TO_CLAIMED, SENT, PromptConfirmed(seq=7)],
    "failed without a session": [REQUESTED, SELECTED, LaunchFailed(code="interrupted", stage="selected")],
    "abandoned": [*WINDOWS["unprompted"], LaunchAbandoned()],
    "lost": [*WINDOWS["unprompted"], SessionLost(session="s1", proof="person")],
}


def everything_known(seen: Seen) -> bool:
    return (
        seen.nothing_underway
        and seen.host_proof is not None
        and seen.host_now_ms is not None
        and (seen.found is not None or not seen.session_exists)
    )


def is_old(seen: Seen) -> bool:
    return seen.found is not None and seen.host_now_ms is not None and seen.host_now_ms - seen.found.time_ms >= 1000


@pytest.mark.parametrize("window", WINDOWS)
def test_whatever_was_seen_each_window_is_settled_by_legal_facts_or_not_at_all(window: str) -> None:
    launch = fold(WINDOWS[window])
    for seen in SEEN:
        facts = settlement(launch, seen)
        assert facts == settlement(launch, seen)
        assert not isinstance(facts, Look)
        if facts is not None:
            assert facts != ()
            after = fold(facts, launch)
            assert after.settled or after.state == "prompt-sent"
            assert not (after.failed and after.claim_held)


@pytest.mark.parametrize("window", FINISHED)
def test_a_finished_launch_is_never_settled_again(window: str) -> None:
    launch = fold(FINISHED[window])
    assert all(settlement(launch, seen) is None for seen in (None, *SEEN))


@pytest.mark.parametrize("window", ["requested", "roster-read", "session-created", "preset-verified", "recovered"])
def test_an_attempt_without_an_intent_is_interrupted_without_asking_the_host(window: str) -> None:
    launch = fold(WINDOWS[window])
    assert settlement(launch, None) == (LaunchFailed(code="interrupted", stage=launch.state, session=launch.session),)


@pytest.mark.parametrize(
    ("window", "look"),
    [
        ("selected", Look.SESSION),
        ("unprompted", Look.SESSION),
        ("claimed", Look.PROMPT),
        ("claimed again", Look.PROMPT),
        ("prompt-sent", Look.PROMPT),
    ],
)
def test_an_intent_asks_for_the_one_thing_it_named(window: str, look: Look) -> None:
    assert settlement(fold(WINDOWS[window]), None) is look


@pytest.mark.parametrize("window", ["selected", "claimed", "claimed again", "prompt-sent", "unprompted"])
def test_absence_without_proof_settles_nothing(window: str) -> None:
    launch = fold(WINDOWS[window])
    for seen in SEEN:
        absent = not seen.session_exists or (seen.found is not None and seen.found.standing == "absent")
        unproven = not seen.nothing_underway or seen.host_proof is None
        if absent and unproven and not (window in ("selected", "unprompted") and seen.session_exists):
            assert settlement(launch, seen) is None


@pytest.mark.parametrize("window", ["claimed", "claimed again", "prompt-sent"])
def test_a_removal_or_a_consumption_younger_than_a_second_settles_nothing(window: str) -> None:
    launch = fold(WINDOWS[window])
    for seen in SEEN:
        gone = seen.session_exists and seen.found is not None and seen.found.standing in ("removed", "consumed")
        if gone and not is_old(seen):
            assert settlement(launch, seen) is None


@pytest.mark.parametrize("window", ["claimed", "claimed again", "prompt-sent"])
def test_only_an_old_delivery_confirms(window: str) -> None:
    launch = fold(WINDOWS[window])
    for seen in SEEN:
        delivered = seen.session_exists and seen.found is not None and seen.found.standing == "delivered"
        facts = settlement(launch, seen)
        confirms = facts is not None and not isinstance(facts, Look) and PromptConfirmed(seq=7) in facts
        assert confirms == (delivered and is_old(seen))


@pytest.mark.parametrize("window", WINDOWS)
def test_with_full_knowledge_a_launch_is_settled_or_waits_for_the_host_alone(window: str) -> None:
    for seen in filter(everything_known, SEEN):
        launch = fold(WINDOWS[window])
        for _ in range(3):
            facts = settlement(launch, seen)
            if facts is None:
                break
            assert not isinstance(facts, Look)
            launch = fold(facts, launch)
        else:
            pytest.fail("never comes to rest")
        waits = seen.found is not None and (
            seen.found.standing in ("waiting", "claimed") or (seen.found.standing != "absent" and not is_old(seen))
        )
        assert launch.settled or (seen.session_exists and waits and launch.state in ("claimed", "prompt-sent"))


def test_a_session_found_after_the_crash_is_recorded_and_its_attempt_interrupted() -> None:
    launch = fold(WINDOWS["selected"])
    assert settlement(launch, Seen(session_exists=True, resolved="q")) == (
        SessionCreated(session="s1", resolved="q"),
        LaunchFailed(code="interrupted", stage="session-created", session="s1"),
    )


def test_a_session_proven_absent_leaves_the_intended_id_in_the_failure() -> None:
    launch = fold(WINDOWS["selected"])
    proof = Seen(session_exists=False, nothing_underway=True, host_proof="binding")
    assert settlement(launch, proof) == (LaunchFailed(code="interrupted", stage="selected", session="s1"),)


@pytest.mark.parametrize(
    ("standing", "claimed", "sent"),
    [
        ("absent", Code.INTERRUPTED, Code.PROMPT_LOST),
        ("removed", Code.PROMPT_DISCARDED, Code.PROMPT_DISCARDED),
        ("consumed", Code.PROMPT_CONSUMED, Code.PROMPT_CONSUMED),
    ],
)
def test_a_prompt_that_is_provably_gone_fails_with_its_own_code(standing: Standing, claimed: Code, sent: Code) -> None:
    seen = Seen(
        session_exists=True,
        found=Found(standing, 7, 0),
        nothing_underway=True,
        host_proof="sibling",
        host_now_ms=NOW,
    )
    for window, code in (("claimed", claimed), ("prompt-sent", sent)):
        facts: Any = settlement(fold(WINDOWS[window]), seen)
        assert [fact.code for fact in facts] == [code]


@pytest.mark.parametrize("standing", ["waiting", "claimed"])
def test_a_prompt_found_in_the_inbox_counts_as_sent_and_waits(standing: Standing) -> None:
    seen = Seen(session_exists=True, found=Found(standing, 7, 0), host_now_ms=NOW)
    assert settlement(fold(WINDOWS["claimed"]), seen) == (PromptSent(request="t.1.0", evidence="log"),)
    assert settlement(fold(WINDOWS["prompt-sent"]), seen) is None


def test_a_missing_session_is_lost_only_on_its_own_host_and_says_how_that_was_known() -> None:
    launch = fold(WINDOWS["unprompted"])
    seen = Seen(session_exists=False, nothing_underway=True, host_proof="person")
    assert settlement(launch, seen) == (SessionLost(session="s1", proof="person"),)


def test_a_launch_without_the_id_it_should_name_is_left_alone() -> None:
    seen = Seen(session_exists=True, nothing_underway=True, host_proof="binding")
    assert settlement(Launch(state="claimed"), seen) is None
    assert settlement(Launch(state="selected"), Seen(session_exists=True)) is None


@given(launches(), st.none() | st.sampled_from(SEEN))
def test_settling_any_reachable_launch_gives_facts_it_accepts(launch: Launch, seen: Seen | None) -> None:
    facts = settlement(launch, seen)
    if facts is not None and not isinstance(facts, Look):
        fold(facts, launch)
