from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.host.timeline import FINISHED, LastTurn, last_turn
from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    Event,
    OtherEvent,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

START = TurnStarted(seq=1, time_ms=1, turn=1)
SAID = AssistantMessage(seq=2, time_ms=2, text="done", calls_tools=False)
ASKED = ToolCalled(seq=3, time_ms=3, call="q", name="ask_user_question")
TOOL = ToolCalled(seq=3, time_ms=3, call="t", name="bash")
APPROVAL = ApprovalAsked(seq=4, time_ms=4, approval="a")
MESSAGE = UserMessage(seq=5, time_ms=5, request="r", by_person=True)


def end(kind: str, code: str | None = None) -> TurnEnded:
    return TurnEnded(seq=9, time_ms=9, turn=1, kind=kind, error_code=code)


@pytest.mark.parametrize(
    ("kind", "execution"),
    [
        ("completed", "turn_completed"),
        ("max-tokens", "turn_incomplete"),
        ("error", "failed"),
        ("blocked", "blocked"),
        ("aborted", "canceled"),
        ("interrupted", "interrupted"),
        ("forked", "failed"),
        ("from-the-future", "failed"),
    ],
)
def test_each_kind_of_end_has_its_execution(kind: str, execution: str) -> None:
    turn = last_turn([START, SAID, end(kind, "TRANSPORT")], waiting=0)
    assert turn.execution == execution
    assert turn.execution in FINISHED
    assert (turn.final_text, turn.error_code, turn.ended_seq) == ("done", "TRANSPORT", 9)


def test_prompts_that_wait_make_an_ended_or_an_empty_session_queued() -> None:
    assert last_turn([START, SAID, end("completed")], waiting=1).execution == "queued"
    assert last_turn([], waiting=1).execution == "queued"
    assert last_turn([], waiting=0) == LastTurn(execution="not_started")
    assert last_turn([OtherEvent(seq=1, time_ms=1, type="session/title")], waiting=0).execution == "not_started"


def test_an_open_turn_runs_whatever_waits_behind_it() -> None:
    assert last_turn([START, SAID], waiting=3) == LastTurn(execution="running")
    assert last_turn([START, TOOL], waiting=0).execution == "running"


def test_an_open_question_or_approval_waits_for_a_person_until_it_is_answered() -> None:
    assert last_turn([START, ASKED], waiting=0).execution == "awaiting_input"
    answered = ToolEnded(seq=6, time_ms=6, call="q")
    assert last_turn([START, ASKED, answered], waiting=0).execution == "running"
    assert last_turn([START, TOOL, APPROVAL], waiting=0).execution == "awaiting_approval"
    assert last_turn([START, ASKED, APPROVAL], waiting=0).execution == "awaiting_approval"
    decided = ApprovalDecided(seq=7, time_ms=7, approval="a")
    assert last_turn([START, TOOL, APPROVAL, decided], waiting=0).execution == "running"


def test_only_the_last_turn_counts() -> None:
    older = [START, ASKED, end("aborted")]
    assert last_turn([*older, START, MESSAGE], waiting=0) == LastTurn(execution="running")
    assert last_turn([*older, START, end("completed")], waiting=0).final_text is None


def test_the_last_words_of_a_turn_are_its_final_text() -> None:
    empty = AssistantMessage(seq=4, time_ms=4, text="", calls_tools=True)
    assert last_turn([START, SAID, empty, end("completed")], waiting=0).final_text == "done"


def test_a_tail_from_within_a_turn_is_a_running_turn() -> None:
    for inside in (SAID, TOOL, ToolEnded(seq=1, time_ms=1, call="t")):
        assert last_turn([inside], waiting=0).execution == "running"


EVENTS = st.sampled_from(
    [
        START,
        SAID,
        ASKED,
        TOOL,
        APPROVAL,
        MESSAGE,
        end("completed"),
        end("aborted"),
        ToolEnded(seq=6, time_ms=6, call="q"),
        ApprovalDecided(seq=7, time_ms=7, approval="a"),
        OtherEvent(seq=8, time_ms=8, type="?"),
    ]
)


@given(st.lists(EVENTS, max_size=12), st.integers(0, 2), st.data())
def test_a_tail_that_still_has_the_last_start_tells_the_same_as_the_whole_log(
    log: list[Event], waiting: int, data: st.DataObject
) -> None:
    starts = [i for i, event in enumerate(log) if event is START]
    cut = data.draw(st.integers(0, starts[-1] if starts else 0))
    assert last_turn(log[cut:], waiting=waiting) == last_turn(log, waiting=waiting)


@given(st.lists(EVENTS, max_size=12), st.integers(0, 2), st.data())
def test_a_log_cut_anywhere_gives_an_answer_and_an_end_in_it_is_seen(
    log: list[Event], waiting: int, data: st.DataObject
) -> None:
    tail = log[data.draw(st.integers(0, len(log))) :]
    turn = last_turn(tail, waiting=waiting)
    starts = [i for i, event in enumerate(tail) if event is START]
    closing = tail[starts[-1] if starts else 0 :]
    ended = any(isinstance(event, TurnEnded) for event in closing)
    assert ended == (turn.ended_seq is not None)
    assert (turn.execution in FINISHED) == (ended and not waiting)


@given(st.lists(EVENTS, max_size=12), st.integers(0, 12))
def test_unknown_events_change_nothing(log: list[Event], place: int) -> None:
    more = [*log[:place], OtherEvent(seq=99, time_ms=9, type="from/the-future"), *log[place:]]
    assert last_turn(more, waiting=0) == last_turn(log, waiting=0)
