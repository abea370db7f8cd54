from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentlink.core.host.timeline import (
    FINISHED,
    PICKED_UP_MS,
    Gap,
    Timeline,
    final_message,
    fold,
    fold_all,
    session_execution,
    timeline_at,
)
from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    ChildRef,
    Event,
    InboxSpliced,
    ModelRetried,
    OtherEvent,
    QueuedItem,
    SessionState,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

START = TurnStarted(seq=0, time_ms=0, turn=1)
SAID = AssistantMessage(seq=0, time_ms=0, text="done", calls_tools=False)
CALLS = AssistantMessage(seq=0, time_ms=0, text="let me look", calls_tools=True)
EMPTY = AssistantMessage(seq=0, time_ms=0, text="", calls_tools=True)
STOPPED = AssistantMessage(seq=0, time_ms=0, text="do", calls_tools=False, interrupted=True)
ASKS = ToolCalled(seq=0, time_ms=0, call="q", name="ask_user_question")
TOOL = ToolCalled(seq=0, time_ms=0, call="t", name="bash")
ANSWERED = ToolEnded(seq=0, time_ms=0, call="q")
RESULT = ToolEnded(seq=0, time_ms=0, call="t")
APPROVAL = ApprovalAsked(seq=0, time_ms=0, approval="a", tool="bash", call="t")
DECIDED = ApprovalDecided(seq=0, time_ms=0, approval="a", outcome="rejected")
MESSAGE = UserMessage(seq=0, time_ms=0, request="r", by_person=True)
RETRY = ModelRetried(seq=0, time_ms=0, retry=1, of=5)
OTHER = OtherEvent(seq=0, time_ms=0, type="from/the-future")


def end(kind: str = "completed", code: str | None = None) -> TurnEnded:
    return TurnEnded(seq=0, time_ms=0, turn=1, kind=kind, error_code=code)


def queued(*requests: str, at: int = 0, target: Any = "next-turn") -> InboxSpliced:
    items = tuple(f"item-{request}" for request in requests)
    return InboxSpliced(
        seq=0, time_ms=0, target=target, start=at, removed=0, inserted=requests, canceled=False, items=items
    )


def taken(count: int = 1) -> InboxSpliced:
    return InboxSpliced(seq=0, time_ms=0, target="next-turn", start=0, removed=count, inserted=(), canceled=False)


def log_of(*events: Event, step_ms: int = 10) -> list[Event]:
    """The events as one log: numbered, a step of Host time apart."""
    return [replace(event, seq=seq, time_ms=1_000 + seq * step_ms) for seq, event in enumerate(events)]


def told(*events: Event) -> Timeline:
    return fold_all(Timeline(), log_of(*events))


def doing(*events: Event, later_ms: int = 0) -> str:
    timeline = told(*events)
    return session_execution(timeline, now_ms=timeline.last_ms + later_ms)


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
    assert doing(START, SAID, end(kind, "TRANSPORT")) == execution
    assert execution in FINISHED
    timeline = told(START, SAID, end(kind, "TRANSPORT"))
    assert timeline.ended
    assert timeline.end is not None
    assert timeline.end.error_code == "TRANSPORT"


def test_a_log_without_a_turn_has_not_started_until_a_prompt_waits_in_it() -> None:
    assert doing() == "not_started"
    assert doing(OTHER) == "not_started"
    assert doing(queued("r")) == "queued"


def test_an_open_turn_runs_whatever_waits_behind_it() -> None:
    assert doing(queued("r"), START, taken(), SAID, queued("s")) == "running"
    assert doing(START, TOOL) == "running"
    assert told(START, TOOL, RETRY).retry is not None


def test_an_open_question_or_approval_waits_for_a_person_until_it_is_settled() -> None:
    assert doing(START, ASKS) == "awaiting_input"
    assert doing(START, ASKS, ANSWERED) == "running"
    assert doing(START, TOOL, APPROVAL) == "awaiting_approval"
    assert doing(START, ASKS, TOOL, APPROVAL) == "awaiting_approval"
    assert doing(START, TOOL, APPROVAL, DECIDED) == "running"
    assert doing(START, TOOL, APPROVAL, RESULT) == "running"


def test_an_approval_or_a_question_does_not_outlive_its_turn() -> None:
    timeline = told(START, ASKS, TOOL, APPROVAL, end("interrupted"))
    assert (timeline.approvals, timeline.questions, timeline.tools) == ((), (), ())
    assert doing(START, ASKS, TOOL, APPROVAL, end("interrupted")) == "interrupted"


@pytest.mark.parametrize("kind", ["completed", "max-tokens", "blocked"])
def test_a_turn_that_ends_by_itself_is_followed_by_the_next_prompt(kind: str) -> None:
    assert doing(START, queued("r"), SAID, end(kind)) == "queued"
    assert doing(START, queued("r"), SAID, end(kind), later_ms=PICKED_UP_MS + 1) in FINISHED


@pytest.mark.parametrize(("kind", "execution"), [("aborted", "canceled"), ("error", "failed")])
def test_a_turn_that_was_stopped_or_failed_parks_what_waits_until_another_prompt_comes(
    kind: str, execution: str
) -> None:
    assert doing(START, queued("r"), end(kind)) == execution
    assert told(START, queued("r"), end(kind)).waiting == 1
    assert doing(START, queued("r"), end(kind), queued("s", at=1)) == "queued"


def test_prompts_are_known_by_their_items_and_leave_in_the_right_order() -> None:
    timeline = told(START, queued("r"), queued("s", at=1), queued("u", at=0), queued("n", target="next-step"))
    assert [item.request for item in timeline.next_turn] == ["u", "r", "s"]
    assert timeline.next_step == (QueuedItem("item-n", "n"),)
    timeline = told(START, queued("r"), queued("s", at=1), end(), START, taken())
    assert timeline.next_turn == (QueuedItem("item-s", "s"),)


def test_only_the_last_turn_counts() -> None:
    assert doing(START, ASKS, end("aborted"), START, MESSAGE) == "running"
    assert final_message(told(START, SAID, end(), START, end())) is None


def test_the_final_message_is_the_last_thing_said_in_a_completed_turn() -> None:
    for said in ((SAID,), (CALLS, RESULT, SAID), (SAID, EMPTY, RESULT)):
        final = final_message(told(START, *said, end()))
        assert final is not None
        assert final.text == "done"
    beside = final_message(told(START, CALLS, RESULT, replace(EMPTY, calls_tools=False), end()))
    assert beside is not None
    assert beside.text == "let me look"


def test_a_turn_that_runs_or_said_nothing_has_no_final_message() -> None:
    assert final_message(told(START, SAID)) is None
    assert final_message(told(START, end())) is None
    assert final_message(told()) is None


@pytest.mark.parametrize("kind", ["aborted", "error", "interrupted", "max-tokens", "blocked"])
def test_what_was_said_on_the_way_to_an_early_end_is_no_final_message(kind: str) -> None:
    assert final_message(told(START, CALLS, TOOL, end(kind))) is None
    assert final_message(told(START, STOPPED, end(kind))) is None
    whole = final_message(told(START, SAID, end(kind)))
    assert whole is not None


def test_subagents_are_met_once_and_their_reports_are_kept_with_their_time() -> None:
    child = ChildRef("c", "look", "continuable", 5)
    started = SubagentStarted(seq=0, time_ms=0, child=child)
    report = replace(queued("x"), inserted=(None,), items=("i",), reports=("c",))
    timeline = told(START, started, started, end(), report)
    assert timeline.children == (child,)
    assert dict(timeline.reports) == {"c": 1_040}
    again = told(START, started, end(), report, START, taken(), replace(MESSAGE, reports="c"))
    assert dict(again.reports) == {"c": 1_060}


# -- the fold in any cutting

STEPS = st.sampled_from(
    [
        START, SAID, CALLS, EMPTY, STOPPED, ASKS, TOOL, ANSWERED, RESULT, APPROVAL, DECIDED, MESSAGE, RETRY, OTHER,
        end(), end("aborted"), end("error"), queued("r"), queued("s", "t", at=1), taken(), taken(2),
        SubagentStarted(seq=0, time_ms=0, child=ChildRef("c")), replace(MESSAGE, reports="c"),
    ]
)  # fmt: skip
LOGS = st.lists(STEPS, max_size=20).map(lambda events: log_of(*events))


@given(LOGS, st.data())
def test_any_cutting_with_any_doubles_gives_the_same_timeline(log: list[Event], data: st.DataObject) -> None:
    timeline = Timeline()
    at = 0
    while at < len(log):
        upto = data.draw(st.integers(at + 1, len(log)))
        again = data.draw(st.integers(0, at))
        timeline = fold_all(timeline, log[again:upto])
        at = upto
    assert timeline == fold_all(Timeline(), log)


@given(LOGS, st.data())
def test_a_missing_event_is_noticed_and_changes_nothing(log: list[Event], data: st.DataObject) -> None:
    timeline = Timeline()
    for event in log:
        skipped = replace(event, seq=event.seq + data.draw(st.integers(1, 3)))
        with pytest.raises(Gap) as gap:
            fold(timeline, skipped)
        assert (gap.value.expected, gap.value.found) == (event.seq, skipped.seq)
        timeline = fold(timeline, event)
    assert timeline.last_seq == len(log) - 1


@given(LOGS, st.integers(0, 20))
def test_events_of_an_unknown_kind_count_only_as_seen(log: list[Event], place: int) -> None:
    bare = [replace(event, seq=0, time_ms=0) for event in log]
    more = log_of(*bare[:place], OTHER, *bare[place:])
    known, unknown = fold_all(Timeline(), log), fold_all(Timeline(), more)
    assert session_execution(known, now_ms=known.last_ms) == session_execution(unknown, now_ms=unknown.last_ms)
    assert [call.call for call in known.tools] == [call.call for call in unknown.tools]
    assert (known.next_turn, known.children) == (unknown.next_turn, unknown.children)


def state_after(log: list[Event]) -> SessionState:
    """The exact state that a Host would give at the end of this log."""
    whole = fold_all(Timeline(), log)
    return SessionState(
        last_seq=whole.last_seq,
        preset="p",
        model=None,
        waiting=(),
        blank=not any(isinstance(event, TurnStarted) for event in log),
        next_turn=whole.next_turn,
        next_step=whole.next_step,
        children=whole.children,
    )


def turns() -> st.SearchStrategy[list[Event]]:
    """Whole logs as Hosts write them: a turn's end only after its beginning."""
    inner = st.lists(STEPS.filter(lambda event: not isinstance(event, TurnStarted | TurnEnded)), max_size=4)
    closed = st.tuples(inner, st.sampled_from([end(), end("aborted")])).map(lambda t: [START, *t[0], t[1]])
    open_ = inner.map(lambda events: [START, *events])
    outside = st.lists(st.sampled_from([OTHER, queued("r")]), max_size=2)
    return st.tuples(outside, st.lists(closed, max_size=3), st.just([]) | open_).map(
        lambda t: log_of(*t[0], *(event for turn in t[1] for event in turn), *t[2])
    )


@given(turns(), st.data())
def test_a_tail_with_the_exact_state_tells_the_same_as_the_whole_log(log: list[Event], data: st.DataObject) -> None:
    starts = [event.seq for event in log if isinstance(event, TurnStarted)]
    cut = data.draw(st.integers(0, starts[-1] if starts else 0))
    whole, tail = fold_all(Timeline(), log), timeline_at(state_after(log), log[cut:])
    assert session_execution(tail, now_ms=tail.last_ms) == session_execution(whole, now_ms=whole.last_ms)
    assert final_message(tail) == final_message(whole)
    assert (tail.approvals, tail.tools, tail.in_turn) == (whole.approvals, whole.tools, whole.in_turn)
    assert (tail.next_turn, tail.next_step, tail.children) == (whole.next_turn, whole.next_step, whole.children)


@given(turns(), st.data())
def test_a_tail_from_within_a_turn_still_tells_whether_it_is_open_and_what_waits(
    log: list[Event], data: st.DataObject
) -> None:
    whole = fold_all(Timeline(), log)
    state = state_after(log)
    cut = data.draw(st.integers(0, len(log)))
    if not any(isinstance(event, TurnStarted | TurnEnded) for event in log[cut:]) and not whole.in_turn:
        return  # a page always reaches back to the last turn that has ended
    tail = timeline_at(state, log[cut:])
    assert tail.in_turn == whole.in_turn
    assert tail.waiting == whole.waiting


def test_a_tail_that_does_not_end_at_its_state_is_a_gap() -> None:
    log = log_of(START, SAID, end())
    with pytest.raises(Gap):
        timeline_at(state_after(log), log[:-1])
