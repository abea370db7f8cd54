from __future__ import annotations

from msgspec.structs import replace

from agentlink.core.host.timeline import Timeline, fold_all
from agentlink.core.host.values import (
    ApprovalAsked,
    AssistantMessage,
    ChildRef,
    Event,
    InboxSpliced,
    ToolCalled,
    TurnEnded,
    TurnStarted,
)
from agentlink.core.supervision.status import NO_MESSAGE, REPORT_MS, Descendant, TaskNow, look_at

CHILD = ChildRef("child", "look", "continuable", 1)
START = TurnStarted(seq=0, time_ms=0, turn=1)
SAID = AssistantMessage(seq=0, time_ms=0, text="done", calls_tools=False)
END = TurnEnded(seq=0, time_ms=0, turn=1, kind="completed")
REPORT = InboxSpliced(
    seq=0, time_ms=0, target="next-turn", start=0, removed=0, inserted=(None,), canceled=False, reports=("child",)
)
TAKEN = InboxSpliced(seq=0, time_ms=0, target="next-turn", start=0, removed=1, inserted=(), canceled=False)


def line(*events: Event, begin_ms: int = 0) -> Timeline:
    return fold_all(Timeline(), [replace(e, seq=seq, time_ms=begin_ms + seq) for seq, e in enumerate(events)])


def now(root: Timeline, child: Timeline | None, *, at: int) -> TaskNow:
    return look_at(root, "root", [Descendant(CHILD, "root", child)], now_ms=at)


def test_a_task_is_done_only_when_no_subagent_is_at_work() -> None:
    root = line(START, SAID, END)
    running = now(root, line(START, begin_ms=5), at=100)
    assert (running.execution, running.running_children) == ("children_running", (CHILD,))
    assert (running.final, running.final_missing) == (None, "children_running")


def test_a_subagent_that_has_just_ended_counts_until_its_parent_is_woken_by_it() -> None:
    root, child = line(START, SAID, END), line(START, END, begin_ms=1_000)
    ended = 1_001
    just = now(root, child, at=ended + 10)
    assert (just.execution, just.settles_ms) == ("children_running", ended + REPORT_MS)
    woken = line(START, SAID, END, *(REPORT,), begin_ms=1_000)
    assert now(woken, child, at=ended + 15).execution == "queued"
    over = line(START, SAID, END, REPORT, START, TAKEN, SAID, END, begin_ms=1_000)
    done = now(over, child, at=ended + 20)
    assert (done.execution, done.settles_ms) == ("turn_completed", None)


def test_a_subagent_that_never_reports_does_not_keep_the_task_for_ever() -> None:
    root, child = line(START, SAID, END), line(START, END, begin_ms=1_000)
    assert now(root, child, at=1_001 + REPORT_MS).execution == "turn_completed"


def test_a_subagent_that_was_made_a_moment_ago_and_has_no_turn_yet_is_at_work() -> None:
    root, child = line(START, SAID, END), Timeline(last_seq=2, last_ms=1_000)
    assert now(root, child, at=1_050).execution == "children_running"
    assert now(root, child, at=1_000 + REPORT_MS).execution == "turn_completed"


def test_a_subagent_that_cannot_be_read_is_not_waited_for() -> None:
    assert now(line(START, SAID, END), None, at=100).execution == "turn_completed"


def test_what_the_root_does_itself_comes_before_its_subagents() -> None:
    busy = line(START, begin_ms=5)
    asks = line(
        START, ToolCalled(seq=0, time_ms=0, call="t", name="bash"), ApprovalAsked(seq=0, time_ms=0, approval="a")
    )
    assert now(asks, busy, at=50).execution == "awaiting_approval"
    assert now(line(START), busy, at=50).execution == "running"


def test_a_finished_turn_without_words_says_that_there_is_no_message() -> None:
    told = look_at(line(START, END), "root", [], now_ms=10)
    assert (told.execution, told.final, told.final_missing) == ("turn_completed", None, NO_MESSAGE)
    spoke = look_at(line(START, SAID, END), "root", [], now_ms=10)
    assert spoke.final is not None
    assert (spoke.final.text, spoke.final_missing) == ("done", None)


def test_a_subagents_failed_turn_does_not_change_the_tasks_own_end() -> None:
    failed = TurnEnded(seq=0, time_ms=0, turn=1, kind="error", error_code="X")
    told = now(line(START, SAID, END), line(START, failed), at=10_000)
    assert (told.execution, told.error_code) == ("turn_completed", None)


def test_prompts_that_wait_are_queued_or_parked_but_never_both() -> None:
    queue = InboxSpliced(
        seq=0, time_ms=0, target="next-turn", start=0, removed=0, inserted=("r", "s"), canceled=False, items=("1", "2")
    )
    running = look_at(line(START, queue), "root", [], now_ms=10)
    assert (running.queued, running.parked) == (2, 0)
    stopped = look_at(line(START, queue, replace(END, kind="aborted")), "root", [], now_ms=10)
    assert (stopped.execution, stopped.queued, stopped.parked) == ("canceled", 0, 2)
