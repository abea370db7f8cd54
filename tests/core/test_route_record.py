from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import given

from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import (
    LaunchAbandoned,
    LaunchFailed,
    LaunchRecovered,
    LaunchRequested,
    SessionCreated,
    SessionLost,
)
from agentlink.core.facts.work import ClaimReleased, TaskFact, TaskLineFact
from agentlink.core.launch.history import Recorded, RouteRecord, StaleTask, replay, route_record, stages
from agentlink.core.launch.state import fold
from tests.core.test_launch_fold import CREATED, REQUESTED, SELECTED, TO_CLAIMED
from tests.requirements import requirement
from tests.strategies import recorded_lines

NINE = {
    "selectionMode",
    "routeRuleId",
    "requestedPreset",
    "resolvedPreset",
    "verification",
    "launchStage",
    "promptSent",
    "failureCode",
    "recordedAt",
}
CREATED_FAILED = [REQUESTED, SELECTED, CREATED, LaunchFailed(code="interrupted", stage="session-created")]


def lines_of(facts: list[Any]) -> list[Recorded]:
    return [Recorded(seq=i, at=f"at-{i}", n=i, facts=(fact,)) for i, fact in enumerate(facts, start=1)]


@requirement("FR-12", "NFR-06", "AC-24")
def test_the_record_has_exactly_the_nine_fields_of_the_requirement() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(RouteRecord)} == NINE


@given(recorded_lines())
@requirement("FR-12")
def test_at_every_prefix_the_record_is_absent_or_legal(lines: list[Recorded]) -> None:
    for end in range(len(lines) + 1):
        prefix = lines[:end]
        launch, record = replay(prefix), route_record(prefix)
        has_one = launch.state in ("session-created", "preset-verified", "claimed", "prompt-sent", "launch-failed")
        assert (record is not None) == has_one
        if record is None:
            continue
        shown = msgspec.json.decode(msgspec.json.encode(record))
        assert set(shown) <= NINE
        assert {"selectionMode", "verification", "launchStage", "promptSent", "recordedAt"} <= set(shown)
        assert msgspec.convert(shown, RouteRecord) == record
        assert record.prompt_sent == (record.launch_stage == "prompt-sent")
        assert (record.failure_code is not None) == (record.launch_stage == "launch-failed")
        if record.failure_code != "resolved_preset_mismatch" and record.selection_mode == "dsh-default":
            assert record.verification == "not-required"


@given(recorded_lines())
def test_the_record_of_a_failed_attempt_changes_only_with_a_new_attempt(lines: list[Recorded]) -> None:
    frozen: RouteRecord | None = None
    for end in range(1, len(lines) + 1):
        facts = lines[end - 1].facts
        record = route_record(lines[:end])
        if any(isinstance(fact, LaunchRequested | LaunchRecovered | LaunchFailed) for fact in facts):
            frozen = None
        if frozen is not None:
            assert record == frozen
        if replay(lines[:end]).failed:
            frozen = record


def test_a_session_found_lost_or_given_up_leaves_the_record_as_it_was() -> None:
    before = route_record(lines_of(CREATED_FAILED))
    assert route_record(lines_of([*CREATED_FAILED, SessionLost(session="s1", proof="person")])) == before
    assert route_record(lines_of([*CREATED_FAILED, LaunchAbandoned()])) == before


def test_a_released_claim_leaves_the_record_as_it_was() -> None:
    facts: list[TaskLineFact] = [REQUESTED, SELECTED, CREATED]
    assert route_record(lines_of([*facts, ClaimReleased()])) == route_record(lines_of(facts))


def test_a_claimed_launch_is_recorded_as_preset_verified() -> None:
    record = route_record(lines_of(TO_CLAIMED))
    assert record is not None
    assert (record.launch_stage, record.prompt_sent, record.verification) == ("preset-verified", False, "verified")


@requirement("FR-12", "AC-16")
def test_a_mismatch_is_a_failed_verification_with_the_value_that_was_read() -> None:
    failed = LaunchFailed(code="resolved_preset_mismatch", stage="session-created", resolved="other")
    record = route_record(lines_of([REQUESTED, SELECTED, SessionCreated(session="s1", resolved="other"), failed]))
    assert record is not None
    assert (record.verification, record.requested_preset, record.resolved_preset) == ("failed", "p", "other")


def test_before_a_choice_the_asked_preset_is_the_requested_one() -> None:
    record = route_record(lines_of([REQUESTED, LaunchFailed(code="host_unreachable", stage="requested")]))
    assert record is not None
    assert (record.requested_preset, record.verification) == ("p", "unavailable")


@given(recorded_lines())
def test_the_path_names_every_launch_fact_with_the_state_it_led_to(lines: list[Recorded]) -> None:
    facts = [fact for line in lines for fact in line.facts]
    path = stages(lines)
    assert [step.fact for step in path] == [fact_type(fact) for fact in facts if not isinstance(fact, TaskFact)]
    assert all(before.state == after.source for before, after in itertools.pairwise(path))
    assert replay(lines) == fold(facts)
    if path:
        assert path[-1].state == replay(lines).state


def test_a_stale_task_says_both_numbers() -> None:
    assert "expected line 3, found 4 lines" in str(StaleTask("t", expected=2, found=4))
