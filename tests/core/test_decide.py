from __future__ import annotations

import pytest
from hypothesis import given

from agentlink.core.errors import NEXT, Code
from agentlink.core.facts.launch import LaunchFailed, LaunchRequested, LaunchSelected, Mode, SessionCreated
from agentlink.core.host.faults import (
    BadReply,
    HostFault,
    LoginNeeded,
    Refused,
    ReplyLost,
    Unreachable,
    Unsupported,
)
from agentlink.core.host.values import CreatedSession, ModelCatalog, ModelChoice, SessionState
from agentlink.core.launch.decide import (
    Stop,
    failed,
    judge_identity,
    judge_model_route,
    judge_preset,
    stop_for_fault,
)
from agentlink.core.launch.state import Launch, apply, fold
from tests.requirements import requirement
from tests.strategies import launches

SECRET = "token=hunter2"


def created_launch(mode: Mode, preset: str | None) -> Launch:
    requested = LaunchRequested(attempt=1, mode=mode, cwd="/w", claim="read-only", host="h", origin="o")
    base = fold([requested]) if mode != "automatic" else Launch(state="roster-read", mode=mode, attempt=1)
    return fold(
        [LaunchSelected(session="s1", reason="r", preset=preset), SessionCreated(session="s1", resolved=preset)], base
    )


@pytest.mark.parametrize(
    ("mode", "asked", "resolved", "reports", "expected"),
    [
        ("dsh-default", None, "standard", True, "not-required"),
        ("dsh-default", None, None, True, "not-required"),
        ("manual", "p", "p", True, "verified"),
        ("manual", "p", "p", False, "verified"),
        ("manual", "p", None, False, "unavailable"),
        ("manual", "p", None, True, Code.RESOLVED_PRESET_UNOBSERVABLE),
        ("manual", "p", "q", True, Code.RESOLVED_PRESET_MISMATCH),
        ("manual", "p", "q", False, Code.RESOLVED_PRESET_MISMATCH),
        ("manual", "p", "P", True, Code.RESOLVED_PRESET_MISMATCH),
        ("automatic", "p", "p", True, "verified"),
        ("automatic", "p", None, True, Code.ROUTING_VERIFICATION_UNAVAILABLE),
        ("automatic", "p", None, False, Code.ROUTING_VERIFICATION_UNAVAILABLE),
        ("automatic", "p", "q", False, Code.RESOLVED_PRESET_MISMATCH),
    ],
)
@requirement("FR-06")
def test_the_preset_is_judged_by_what_the_mode_demands(
    mode: Mode, asked: str | None, resolved: str | None, reports: bool, expected: str
) -> None:
    verdict = judge_preset(created_launch(mode, asked), resolved, host_reports_presets=reports)
    assert (verdict.code if isinstance(verdict, Stop) else verdict) == expected


def test_f06_a_missing_preset_is_named_with_the_ids_that_exist() -> None:
    ids = [f"p{i}" for i in range(25)]
    fault = Refused(
        "agent-preset/not-found",
        "Unknown agent preset: builder",
        kind="preset_not_found",
        details={"agentPreset": "builder", "available": ids, "path": "/secret"},
    )
    stop = stop_for_fault(fault)
    assert stop.code == Code.PRESET_NOT_FOUND
    assert stop.details == {"agentPreset": "builder", "available": ids[:20], "availableMore": 5}
    assert stop.host_code == "agent-preset/not-found"


def test_f06_a_broken_preset_gives_the_reason_of_the_host_without_its_secrets() -> None:
    fault = Refused(
        "agent-preset/invalid",
        SECRET,
        kind="preset_broken",
        details={"agentPreset": "reviewer", "reason": f"mount failed {SECRET}", "available": 3},
    )
    stop = stop_for_fault(fault)
    assert stop.code == Code.PRESET_BROKEN
    assert stop.details is not None
    assert stop.details["agentPreset"] == "reviewer"
    assert "mount failed" in stop.details["reason"]
    assert "hunter2" not in repr(stop)


def test_f06_another_preset_than_the_one_asked_names_both_and_the_session_left_behind() -> None:
    launch = created_launch("manual", "builder")
    stop = judge_preset(launch, "standard", host_reports_presets=True)
    assert isinstance(stop, Stop)
    assert stop.details == {"requestedPreset": "builder", "resolvedPreset": "standard"}
    fact = failed(launch, stop)
    assert (fact.code, fact.stage, fact.resolved, fact.session) == (
        "resolved_preset_mismatch",
        "session-created",
        "standard",
        "s1",
    )
    assert apply(launch, fact).prompt_sent is False


def test_f06_details_that_the_host_leaves_out_or_gives_in_another_form_are_left_out() -> None:
    for details in ({}, {"agentPreset": None, "available": 7}, {"available": ("a", 1)}):
        stop = stop_for_fault(Refused("agent-preset/not-found", "m", kind="preset_not_found", details=details))
        assert stop.details == ({"available": ["a", "1"]} if isinstance(details.get("available"), tuple) else {})


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Refused("session/not-found", "gone", kind="session_not_found"), Code.SESSION_NOT_FOUND),
        (Refused("gateway/internal", "oops", kind="unproven"), Code.HOST_ERROR),
        (Refused("session/conflict", "no", kind="other"), Code.HOST_ERROR),
        (LoginNeeded("login", expired=True), Code.LOGIN_REQUIRED),
        (Unsupported("legacy"), Code.HOST_UNSUPPORTED),
        (BadReply("html"), Code.BAD_HOST_REPLY),
        (Unreachable("refused"), Code.HOST_UNREACHABLE),
        (ReplyLost("timeout"), Code.HOST_UNREACHABLE),
        (HostFault("other", sent=True), Code.HOST_ERROR),
    ],
)
def test_each_fault_has_its_code(fault: HostFault, code: Code) -> None:
    stop = stop_for_fault(fault)
    assert stop.code == code
    assert code in NEXT


def test_nothing_of_a_fault_that_looks_like_text_reaches_the_journal() -> None:
    for code in (f"no {SECRET}", "x" * 500, "", "a\nb"):
        stop = stop_for_fault(Refused(code, SECRET, kind="other", details={"a": SECRET}))
        assert stop.host_code == "unreadable"
        assert "hunter2" not in repr(stop)


def test_only_an_unproven_refusal_leaves_the_outcome_open() -> None:
    assert not Refused("gateway/internal", "", kind="unproven").final
    assert Refused("session/conflict", "", kind="other").final


def test_another_session_than_the_one_asked_is_a_mismatch_that_names_both() -> None:
    launch = created_launch("manual", "p")
    assert judge_identity(launch, CreatedSession("s1", "p")) is None
    stop = judge_identity(launch, CreatedSession("s2", "p"))
    assert stop is not None
    assert stop.code == Code.SESSION_IDENTITY_MISMATCH
    assert stop.details == {"asked": "s1", "got": "s2"}


def state(model: ModelChoice | None) -> SessionState:
    return SessionState(last_seq=1, preset="p", model=model, waiting=(), blank=True)


def test_a_model_is_routable_by_the_choice_of_the_session_else_by_the_default() -> None:
    good, bad = ModelChoice("good", "m"), ModelChoice("bad", "m")
    assert judge_model_route(ModelCatalog(bad, ("good",)), state(good)) is None
    assert judge_model_route(ModelCatalog(good, ("good",)), state(None)) is None
    for catalog, choice in (
        (ModelCatalog(good, ("good",)), bad),
        (ModelCatalog(bad, ("good",)), None),
        (ModelCatalog(None, ("good",)), None),
        (ModelCatalog(good, ()), None),
    ):
        stop = judge_model_route(catalog, state(choice))
        assert stop is not None
        assert stop.code == Code.MODEL_UNROUTABLE


@given(launches(where=lambda launch: launch.state != "none" and not launch.settled))
def test_a_stop_can_end_every_open_attempt_and_names_its_session(launch: Launch) -> None:
    fact = failed(launch, Stop(code=Code.HOST_ERROR, message="m"))
    assert isinstance(fact, LaunchFailed)
    assert fact.stage == launch.state
    assert fact.session == (launch.session or launch.intended_session)
    assert apply(launch, fact).failed
