from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.facts.launch import (
    LaunchClaimed,
    LaunchRequested,
    LaunchSelected,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    SessionCreated,
)
from agentlink.core.facts.work import ClaimReleased, ClaimTaken, TaskLineFact, WriteIntended, WriteSettled
from agentlink.core.host.find_prompt import Found
from agentlink.core.launch.kinds import is_open
from agentlink.core.launch.settle import Seen
from agentlink.core.launch.settle_write import write_outcome
from agentlink.core.launch.state import IllegalFact, Launch, apply, fold
from agentlink.core.launch.writes import Write

PROMPTED: list[TaskLineFact] = [
    LaunchRequested(attempt=1, mode="manual", cwd="/w", claim="exclusive-write", host="default", origin="o"),
    LaunchSelected(session="s", reason="explicit_preset", preset="p"),
    SessionCreated(session="s", resolved="p"),
    PresetVerified(verification="verified"),
    LaunchClaimed(request="t.1.0"),
    PromptSent(request="t.1.0", evidence="receipt"),
    PromptConfirmed(seq=8),
]
INTENDED = WriteIntended(kind="followup-queue", request="t.1.1", key="k", input="i")


def settled(outcome: Any, request: str = "t.1.1") -> WriteSettled:
    return WriteSettled(request=request, outcome=outcome)


def refused(launch: Launch, fact: TaskLineFact) -> bool:
    try:
        apply(launch, fact)
    except IllegalFact:
        return True
    return False


def test_an_intent_is_open_until_its_outcome_is_final() -> None:
    launch = fold([*PROMPTED, ClaimReleased()])
    assert not is_open(launch)
    launch = apply(launch, INTENDED)
    assert is_open(launch)
    assert launch.writes.count == 1
    launch = apply(launch, settled("receipt"))
    assert is_open(launch)  # the Host may still lose it
    launch = apply(launch, settled("history"))
    assert not is_open(launch)
    assert launch.writes.open == ()


@pytest.mark.parametrize("outcome", ["history", "refused", "absent", "discarded", "consumed", "lost", "unknown"])
def test_a_final_outcome_is_not_followed_by_another(outcome: Any) -> None:
    launch = fold([*PROMPTED, INTENDED, settled(outcome)])
    assert launch.writes.open == ()
    assert refused(launch, settled("history"))


@pytest.mark.parametrize("outcome", ["receipt", "refused", "absent"])
def test_what_the_host_acknowledged_can_only_be_found_lost_or_kept(outcome: Any) -> None:
    assert refused(fold([*PROMPTED, INTENDED, settled("receipt")]), settled(outcome))


def test_answers_and_cancels_are_settled_by_their_receipt() -> None:
    launch = fold([*PROMPTED, WriteIntended(kind="cancel-turn", request="t.1.1"), settled("receipt")])
    assert launch.writes.open == ()
    assert launch.writes.count == 1


def test_nothing_is_written_to_a_session_without_its_prompt_and_no_intent_twice() -> None:
    assert refused(fold(PROMPTED[:5]), INTENDED)
    assert refused(fold([*PROMPTED, INTENDED]), INTENDED)
    assert refused(fold(PROMPTED), settled("history"))


def test_a_claim_is_taken_again_only_when_it_was_released() -> None:
    assert refused(fold(PROMPTED), ClaimTaken())
    assert fold([*PROMPTED, ClaimReleased(), ClaimTaken()]).claim_held
    assert refused(fold([*PROMPTED[:4], ClaimReleased()]), ClaimTaken())


def test_a_request_key_names_the_latest_follow_up_that_used_it() -> None:
    again = WriteIntended(kind="followup-queue", request="t.1.2", key="k", input="i")
    launch = fold([*PROMPTED, INTENDED, settled("absent"), again])
    under = launch.writes.under("k")
    assert under is not None
    assert (under.request, under.outcome) == ("t.1.2", None)
    assert launch.writes.under("other") is None
    known = apply(launch, settled("receipt", "t.1.2")).writes.under("k")
    assert known is not None
    assert known.took_effect


def followed_up(number: int, outcome: Any) -> list[TaskLineFact]:
    intent = WriteIntended(kind="followup-queue", request=f"t.1.{number}")
    return [intent, settled("receipt", intent.request), settled(outcome, intent.request)]


def test_a_follow_up_that_will_not_run_is_told_until_a_later_one_reached_the_agent() -> None:
    launch = fold([*PROMPTED, *followed_up(1, "lost"), *followed_up(2, "discarded")])
    assert [(w.request, w.outcome) for w in launch.writes.undelivered] == [("t.1.1", "lost"), ("t.1.2", "discarded")]
    assert fold(followed_up(3, "history"), launch).writes.undelivered == ()


def test_an_earlier_follow_up_that_arrived_says_nothing_of_a_later_one_that_did_not() -> None:
    first, second = followed_up(1, "history"), followed_up(2, "lost")
    launch = fold([*PROMPTED, *first[:2], *second, first[2]])
    assert [w.request for w in launch.writes.undelivered] == ["t.1.2"]


def test_what_its_sender_was_told_of_is_no_news() -> None:
    intent = WriteIntended(kind="followup-steer", request="t.1.1")
    assert fold([*PROMPTED, intent, settled("refused")]).writes.undelivered == ()
    cancel = WriteIntended(kind="cancel-all", request="t.1.1")
    assert fold([*PROMPTED, cancel, settled("unknown")]).writes.undelivered == ()


SEEN = st.builds(
    Seen,
    session_exists=st.booleans(),
    found=st.none()
    | st.builds(
        Found,
        st.sampled_from(("absent", "waiting", "claimed", "delivered", "removed", "consumed")),
        st.integers(0, 9),
        st.integers(0, 5_000),
    ),
    nothing_underway=st.booleans(),
    host_proof=st.none() | st.sampled_from(("binding", "sibling")),
    host_now_ms=st.none() | st.integers(0, 10_000),
)


@given(SEEN, st.sampled_from((None, "receipt")))
def test_only_proof_settles_a_follow_up(seen: Seen, outcome: Any) -> None:
    write = Write(kind="followup-queue", request="t.1.1", outcome=outcome)
    told = write_outcome(write, seen)
    standing = None if seen.found is None or not seen.session_exists else seen.found.standing
    if told in ("absent", "lost"):
        assert seen.nothing_underway
        assert seen.host_proof is not None
        assert standing in (None, "absent")
        assert (told == "lost") == (outcome == "receipt")
    if told == "history":
        assert standing == "delivered"
    if told == "receipt":
        assert outcome is None
        assert standing in ("delivered", "waiting", "claimed")
    if told in ("discarded", "consumed"):
        assert standing == {"discarded": "removed", "consumed": "consumed"}[told]
    if told is not None:  # what the fold accepts
        start = [*PROMPTED, INTENDED] if outcome is None else [*PROMPTED, INTENDED, settled("receipt")]
        assert not refused(fold(start), settled(told))


def test_history_says_nothing_about_answers_and_cancels() -> None:
    write = Write(kind="answer", request="t.1.1")
    assert write_outcome(write, Seen(session_exists=True, found=Found("delivered", 1, 1), host_now_ms=9_000)) is None
