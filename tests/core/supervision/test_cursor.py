"""Cursors: short, exact, and refused when they are not ours."""

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.host.values import OtherEvent, TurnStarted
from agentlink.core.supervision.cursor import (
    START,
    UNPROVEN,
    Cursor,
    CursorInvalid,
    Mark,
    _sum,
    anchor_of,
    cursor_at,
    decode,
    encode,
    mark_at,
    short_id,
    surely_older,
)

TASK = "dsh_0123456789ab"
_BYTES = st.binary(min_size=6, max_size=6)
_MARKS = st.builds(Mark, st.integers(-1, 2**40), _BYTES, st.integers(0, 2**40))
_CHILDREN = st.dictionaries(st.uuids().map(str), _MARKS, max_size=4)


@given(_MARKS, _CHILDREN)
def test_a_cursor_comes_back_as_it_was_given_out(root: Mark, children: dict[str, Mark]) -> None:
    cursor = cursor_at(TASK, root, children)
    again = decode(encode(cursor), task=TASK)
    assert again == cursor
    assert again.root == root
    assert {name: again.child(name) for name in children} == children
    assert again.child("never met") == START


def test_a_cursor_of_a_task_without_subagents_is_short() -> None:
    text = encode(cursor_at(TASK, Mark(40_000, b"anchor")))
    assert len(text) <= 22
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")


def _reason(text: str) -> str | None:
    try:
        decode(text, task=TASK)
    except CursorInvalid as error:
        return error.reason
    return None


def _refused(text: str, task: str = TASK) -> str:
    with pytest.raises(CursorInvalid) as caught:
        decode(text, task=task)
    return caught.value.reason


@given(st.text())
def test_any_other_text_is_refused_as_damaged(text: str) -> None:
    assert _refused(text) == "damaged"


@given(st.binary())
def test_any_bytes_with_a_right_check_sum_give_a_cursor_or_a_refusal(body: bytes) -> None:
    raw = b"\1" + short_id(TASK) + body
    text = base64.urlsafe_b64encode(raw + _sum(raw)).rstrip(b"=").decode()
    reason = _reason(text)
    assert reason in (None, "damaged")
    assert reason or encode(decode(text, task=TASK)) == text


@given(_MARKS, _CHILDREN, st.data())
def test_one_wrong_character_or_a_missing_end_is_damage(
    root: Mark, children: dict[str, Mark], data: st.DataObject
) -> None:
    text = encode(cursor_at(TASK, root, children))
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(sorted(set(string.ascii_letters + string.digits + "-_") - {text[at]})))
    for changed in (text[:at] + other + text[at + 1 :], text[:at], text + other):
        assert _reason(changed) is not None


@given(_MARKS)
def test_the_cursor_of_another_task_is_foreign(root: Mark) -> None:
    assert _refused(encode(cursor_at("dsh_ffffffffffff", root))) == "foreign"


def test_the_cursor_of_a_newer_version_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentlink.core.supervision.cursor.VERSION", 2)
    newer = encode(Cursor(TASK))
    monkeypatch.setattr("agentlink.core.supervision.cursor.VERSION", 1)
    assert _refused(newer) == "newer"
    monkeypatch.setattr("agentlink.core.supervision.cursor.VERSION", 0)
    older = encode(Cursor(TASK))
    monkeypatch.setattr("agentlink.core.supervision.cursor.VERSION", 1)
    assert _refused(older) == "damaged"


def test_padding_and_loose_bits_are_refused() -> None:
    text = encode(Cursor(TASK))
    assert _refused(text + "=" * (-len(text) % 4 or 4)) == "damaged"
    assert _refused("") == "damaged"
    assert _refused("\ud800") == "damaged"


def test_the_anchor_follows_type_and_time_only() -> None:
    one = TurnStarted(seq=1, time_ms=5, turn=1)
    assert anchor_of(one) == anchor_of(TurnStarted(seq=9, time_ms=5, turn=2))
    assert anchor_of(one) == anchor_of(OtherEvent(seq=1, time_ms=5, type="turn/start"))
    assert anchor_of(one) != anchor_of(TurnStarted(seq=1, time_ms=6, turn=1))
    assert anchor_of(one) != anchor_of(OtherEvent(seq=1, time_ms=5, type="step/start"))


def test_the_mark_of_an_event_goes_on_after_it_and_of_a_part_with_it() -> None:
    event = TurnStarted(seq=7, time_ms=5, turn=1)
    assert mark_at(event) == Mark(7, anchor_of(event))
    assert mark_at(event).next_seq == 8
    assert Mark(7, anchor_of(event), 100).next_seq == 7
    assert mark_at(None) == START == Mark(-1, UNPROVEN)


_DAY_MS = 86_400_000


@given(st.integers(0, 2**42), st.integers(-99 * _DAY_MS, 99 * _DAY_MS))
def test_an_event_is_surely_older_only_when_it_is(time_ms: int, apart_ms: int) -> None:
    marked = TurnStarted(seq=1, time_ms=time_ms + 99 * _DAY_MS, turn=1)
    other = TurnStarted(seq=9, time_ms=marked.time_ms + apart_ms, turn=1)
    if surely_older(other, anchor_of(marked)):
        assert apart_ms < 0
    else:
        assert apart_ms > -1024
