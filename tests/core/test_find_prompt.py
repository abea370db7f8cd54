from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.host.find_prompt import Found, InboxFold, find_prompt, others_took_part
from agentlink.core.host.values import (
    AssistantMessage,
    Event,
    InboxSpliced,
    OtherEvent,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from tests.strategies import logs

R = "dsh_0123456789ab.1.0"


def numbered(*events: Event) -> list[Event]:
    """The same events with dense numbers; event n happened n seconds into the log."""
    return [
        type(e)(**{**{f: getattr(e, f) for f in e.__struct_fields__}, "seq": i, "time_ms": 1000 * i})
        for i, e in enumerate(events)
    ]


def put(*requests: str | None, at: int = 0, target: str = "next-turn") -> InboxSpliced:
    return InboxSpliced(seq=0, time_ms=0, target=target, start=at, removed=0, inserted=requests, canceled=False)  # type: ignore[arg-type]


def take(at: int = 0, *, canceled: bool = False, target: str = "next-turn", count: int = 1) -> InboxSpliced:
    return InboxSpliced(seq=0, time_ms=0, target=target, start=at, removed=count, inserted=(), canceled=canceled)  # type: ignore[arg-type]


def started() -> TurnStarted:
    return TurnStarted(seq=0, time_ms=0, turn=1)


def ended(kind: str = "completed") -> TurnEnded:
    return TurnEnded(seq=0, time_ms=0, turn=1, kind=kind)


def message(request: str | None = R, *, by_person: bool = True) -> UserMessage:
    return UserMessage(seq=0, time_ms=0, request=request, by_person=by_person)


def other() -> OtherEvent:
    return OtherEvent(seq=0, time_ms=0, type="from/the-future")


def test_a_log_without_the_request_shows_nothing() -> None:
    assert find_prompt([], R) == Found("absent")
    assert find_prompt(numbered(put("else"), started(), take(), message("else"), ended()), R) == Found("absent")


def test_an_inserted_request_waits_until_it_is_taken_out() -> None:
    assert find_prompt(numbered(put(R)), R) == Found("waiting", 0, 0)
    assert find_prompt(numbered(put(R), other(), started()), R).standing == "waiting"


def test_a_removed_request_will_not_run_and_says_when() -> None:
    assert find_prompt(numbered(put(R), other(), take(canceled=True)), R) == Found("removed", 2, 2000)


def test_a_claimed_request_becomes_delivered_with_the_seq_of_its_message() -> None:
    log = numbered(put(R), started(), take(), other(), message(), ended("error"))
    assert find_prompt(log[:3], R) == Found("claimed", 2, 2000)
    assert find_prompt(log, R) == Found("delivered", 4, 4000)


def test_a_turn_that_ends_before_the_message_has_consumed_the_request() -> None:
    log = numbered(put(R), started(), take(), ended("blocked"), other())
    assert find_prompt(log, R) == Found("consumed", 3, 3000)


def test_the_end_of_a_turn_does_not_touch_a_waiting_or_a_removed_request() -> None:
    assert find_prompt(numbered(put(R), ended()), R).standing == "waiting"
    assert find_prompt(numbered(put(R), take(canceled=True), ended()), R).standing == "removed"


def test_a_move_from_one_list_to_the_other_leaves_the_request_waiting() -> None:
    log = numbered(put("x", R), take(1, canceled=True), put(R, target="next-step"))
    assert find_prompt(log, R) == Found("waiting", 2, 2000)
    assert find_prompt([*log, *numbered(take(0, target="next-step"))], R).standing == "claimed"


def test_an_edit_that_puts_the_same_request_back_leaves_it_waiting() -> None:
    edit = InboxSpliced(seq=0, time_ms=0, target="next-turn", start=0, removed=1, inserted=(R,), canceled=True)
    assert find_prompt(numbered(put(R), edit), R).standing == "waiting"


def test_for_a_reused_id_a_message_wins_over_everything_after_it() -> None:
    log = numbered(put(R), started(), take(), message(), put(R), take(canceled=True))
    assert find_prompt(log, R) == Found("delivered", 3, 3000)


def test_for_a_reused_id_without_a_message_the_last_entry_counts() -> None:
    removed_then_sent_again = numbered(put(R), take(canceled=True), put(R))
    assert find_prompt(removed_then_sent_again, R).standing == "waiting"
    consumed_then_removed = numbered(put(R), started(), take(), ended("error"), put(R), take(canceled=True))
    assert find_prompt(consumed_then_removed, R) == Found("removed", 5, 5000)


def test_a_doubled_request_waits_as_long_as_one_of_its_entries_does() -> None:
    assert find_prompt(numbered(put(R), put(R, at=1), take(0, canceled=True)), R).standing == "waiting"
    one_claimed = numbered(put(R), put(R, at=1), started(), take(0), ended("error"))
    assert find_prompt(one_claimed, R).standing == "waiting"


def test_two_interleaved_prompts_are_told_apart() -> None:
    log = numbered(put("a"), put("b"), started(), take(1), message("a"), ended(), take(0, canceled=True))
    assert find_prompt(log, "a") == Found("delivered", 4, 4000)
    assert find_prompt(log, "b") == Found("removed", 6, 6000)


def test_a_splice_beyond_the_list_takes_what_is_there() -> None:
    inbox = InboxFold()
    inbox.splice(put("a", None))
    assert inbox.splice(take(1, count=5)) == [None]
    assert inbox.splice(take(7)) == []
    assert inbox.holds("a")
    assert not inbox.holds("b")


@given(logs(), st.data())
def test_every_legal_log_gives_the_standing_that_counting_its_entries_gives(
    log: list[Event], data: st.DataObject
) -> None:
    request = data.draw(st.sampled_from(("r1", "r2", "r3")))
    found = find_prompt(log, request)
    entries: list[str] = []
    queue: list[tuple[str, int]] = []
    claimed: int | None = None
    for event in log:
        match event:
            case InboxSpliced():
                for _, index in queue[event.start : event.start + event.removed]:
                    if index >= 0:
                        entries[index] = "removed" if event.canceled else "claimed"
                        claimed = claimed if event.canceled else index
                new = []
                for inserted in event.inserted:
                    mine = inserted == request
                    entries += ["waiting"] * mine
                    new.append((str(inserted), len(entries) - 1 if mine else -1))
                queue[event.start : event.start + event.removed] = new
            case UserMessage() if event.request == request:
                assert found == Found("delivered", event.seq, event.time_ms)
                return
            case TurnEnded() if claimed is not None:
                if entries[claimed] == "claimed":
                    entries[claimed] = "consumed"
                claimed = None
            case _:
                pass
    if not entries:
        assert found.standing == "absent"
    elif "waiting" in entries:
        assert found.standing == "waiting"
    else:
        assert found.standing in entries
        assert log[found.seq].time_ms == found.time_ms


@given(logs(), st.data())
def test_events_that_nobody_knows_change_nothing(log: list[Event], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(log)))
    more = [*log[:place], OtherEvent(seq=99, time_ms=0, type="x"), *log[place:]]
    assert find_prompt(more, "r1") == find_prompt(log, "r1")


@given(logs(), st.data())
def test_a_delivery_stays_whatever_comes_after(log: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    if find_prompt(log[:cut], "r1").standing == "delivered":
        assert find_prompt(log, "r1") == find_prompt(log[:cut], "r1")


def test_only_messages_of_persons_that_are_not_ours_count_as_others() -> None:
    assert others_took_part([message("theirs")], frozenset({R}))
    assert others_took_part([message(None)], frozenset({R}))
    assert not others_took_part([message(R)], frozenset({R}))
    assert not others_took_part([message(None, by_person=False)], frozenset())
    assert not others_took_part([AssistantMessage(seq=0, time_ms=0, text="", calls_tools=False)], frozenset())
