"""The frames of the live connection: what a Host sends is read as it is meant, and anything else does no harm."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.host.faults import BadReply
from agentlink.core.host.values import (
    Address,
    AskedApproval,
    AskedQuestions,
    Attached,
    OtherEvent,
    QueuedItem,
    SessionState,
    Snapshot,
    TextDelta,
    TurnStarted,
    Withdrawn,
)
from agentlink.wire import remote_mux as mux
from tests.strategies import JSON

TURN = {"type": "turn/start", "seq": 4, "time": 7, "data": {"turn": 1}}
STEP = {"type": "step/start", "seq": 5, "time": 8, "data": {"turn": 1, "step": 1}}
SNAPSHOT: dict[str, Any] = {
    "type": "snapshot",
    "header": {"version": 4, "id": "session-a"},
    "cursor": 5,
    "records": [{"type": "event", "event": TURN}, {"type": "event", "event": STEP}],
    "hasMore": True,
    "projections": {
        "asOfSeq": 5,
        "values": {
            "agentPreset": "minimal",
            "inbox": {"next-turn": [{"id": "i1", "source": {"kind": "user", "rpcId": "r2"}}], "next-step": []},
            "sessionListMetadata": {"blank": False},
        },
    },
    "assistantStream": {"revision": 3},
}
QUESTIONS = [{"id": "q1", "question": "Which?", "options": [{"label": "A"}], "multiSelect": False}]
WATERFALL = {"type": "waterfall", "event": "user-questions/request", "eventId": "e1", "agentId": "session-a"}
OFFERS: list[dict[str, Any]] = [
    {"type": "ready", "clientId": "c1", "host": {"home": "/h"}},
    {**WATERFALL, "request": {"questions": QUESTIONS}},
    {**WATERFALL, "event": "approval/request", "request": {"toolName": "bash", "callId": "k1", "reason": "why"}},
    {"type": "cancel", "eventId": "e1"},
]
STREAMED: list[dict[str, Any]] = [
    {"type": "start", "attemptId": "a:1", "turn": 1, "step": 1, "startedAfterSeq": 12},
    {"type": "chunk", "index": 1, "chunk": {"type": "text-delta", "index": 0, "text": "Hi"}},
    {"type": "chunk", "index": 2, "chunk": {"type": "tool-call-delta", "index": 0, "id": "c", "argumentsDelta": ""}},
    {"type": "end", "index": 3, "outcome": {"kind": "committed", "eventType": "assistant/message", "seq": 16}},
]
KNOWN: list[dict[str, Any]] = [
    SNAPSHOT,
    {"type": "event", "event": TURN},
    *({"type": "assistant-stream", "frame": frame} for frame in STREAMED),
    *OFFERS,
]


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def read_all(text: str | bytes) -> None:
    """Reads the text as everything a frame can be; only BadReply may come out of it."""
    value = msgspec.Raw(text.encode() if isinstance(text, str) else text)
    for read in (mux.decode_frame, lambda _: mux.decode_live(value), lambda _: mux.decode_offer(value)):
        try:
            read(text)
        except BadReply:
            continue


@given(JSON)
def test_any_json_gives_a_value_or_a_bad_reply(value: Any) -> None:
    read_all(json.dumps(value))
    read_all(json.dumps({"type": "item", "streamId": "s1", "value": value}))


@given(st.text() | st.binary())
def test_any_text_gives_a_value_or_a_bad_reply(text: str | bytes) -> None:
    read_all(text)


@given(st.data())
def test_a_known_item_with_a_spoilt_part_gives_a_value_or_a_bad_reply(data: st.DataObject) -> None:
    whole = json.loads(json.dumps(data.draw(st.sampled_from(KNOWN))))
    place = whole
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    read_all(json.dumps(whole))


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"streamId":"s1"}', "[" * 100_000, b"\xff", "\ud800"])
def test_what_is_no_frame_is_a_bad_reply(text: str | bytes) -> None:
    with pytest.raises(BadReply):
        mux.decode_frame(text)


def test_frames_are_told_apart() -> None:
    assert mux.decode_frame('{"type":"item","streamId":"s1","value":{"a":1}}') == mux.Item(
        "s1", msgspec.Raw(b'{"a":1}')
    )
    assert mux.decode_frame('{"type":"end","streamId":"s1"}') == mux.Ended("s1")
    failed = '{"type":"error","streamId":"s1","error":{"code":"session/not-found","message":"no","details":{}}}'
    assert mux.decode_frame(failed) == mux.Ended("s1", "session/not-found", "no")
    assert mux.decode_frame('{"type":"error","streamId":"s1"}') == mux.Ended("s1", "gateway/internal")
    assert mux.decode_frame('{"type":"later","streamId":"s1"}') is None


def test_opening_frames_hold_exactly_what_the_host_takes() -> None:
    assert json.loads(mux.follow_frame("s1", Address("session-a"))) == {
        "type": "open",
        "streamId": "s1",
        "endpoint": "session/follow",
        "payload": {
            "args": {
                "request": {
                    "address": {"kind": "session", "sessionId": "session-a"},
                    "maxMessages": 20,
                    "turnWindow": {"minMessages": 1, "minTurns": 1},
                    "assistantStream": True,
                }
            }
        },
    }
    child = json.loads(mux.follow_frame("s2", Address("child", "session-a")))["payload"]["args"]["request"]["address"]
    assert child == {"kind": "subagent", "parentSessionId": "session-a", "childSessionId": "child", "mode": "unknown"}
    offers = {"type": "open", "streamId": "s3", "endpoint": "$events", "payload": {"args": {}}}
    assert json.loads(mux.offers_frame("s3")) == offers
    assert json.loads(mux.cancel_frame("s3")) == {"type": "cancel", "streamId": "s3"}


def test_a_snapshot_is_the_exact_state_and_the_last_events() -> None:
    events = (TurnStarted(turn=1, seq=4, time_ms=7), OtherEvent(type="step/start", seq=5, time_ms=8))
    queued = (QueuedItem("i1", "r2"),)
    state = SessionState(last_seq=5, preset="minimal", model=None, waiting=("r2",), blank=False, next_turn=queued)
    assert mux.decode_live(raw(SNAPSHOT)) == (Snapshot(state, events, has_more=True),)


def test_a_snapshot_during_an_answer_brings_the_answer_so_far() -> None:
    packed = [
        {"type": "chunk", "time": 1, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 2, "index": 0, "dt": [1, 1], "texts": ["a", "b", " "]},
        {"type": "reasoning-chunks", "time0": 2, "index": 0, "dt": [], "texts": ["hidden"]},
        {"type": "chunk", "time": 5, "chunk": {"type": "text-delta", "index": 0, "text": "c"}},
    ]
    running = {"revision": 9, "activeAttempt": {"attemptId": "a:1", "nextIndex": 5, "stream": packed}}
    items = mux.decode_live(raw(SNAPSHOT | {"assistantStream": running}))
    assert items[1:] == (TextDelta("ab c", begins=True),)


@pytest.mark.parametrize("change", [{"cursor": 6}, {"cursor": 4}, {"records": SNAPSHOT["records"][:1]}, {"records": 1}])
def test_a_snapshot_that_does_not_agree_with_itself_is_a_bad_reply(change: dict[str, Any]) -> None:
    with pytest.raises(BadReply):
        mux.decode_live(raw(SNAPSHOT | change))


def test_only_the_text_of_an_answer_is_streamed() -> None:
    read = [mux.decode_live(raw({"type": "assistant-stream", "frame": frame})) for frame in STREAMED]
    assert read == [(TextDelta("", begins=True),), (TextDelta("Hi"),), (), ()]
    assert mux.decode_live(raw({"type": "something-new"})) == ()


def test_offers_are_read_and_notices_are_ignored() -> None:
    ready, questions, approval, cancel = (mux.decode_offer(raw(offer)) for offer in OFFERS)
    assert ready == (Attached("c1"),)
    assert questions == (AskedQuestions("e1", "session-a", json.dumps(QUESTIONS).encode()),)
    assert approval == (AskedApproval("e1", "session-a", "bash", "k1", "why"),)
    assert cancel == (Withdrawn("e1"),)
    assert mux.decode_offer(raw({"type": "emit", "event": "api-session/status", "args": ["session-a", True]})) == ()
    assert mux.decode_offer(raw(WATERFALL | {"event": "something/new", "request": 1})) == ()


def test_the_stream_of_a_frame_that_was_cut_off_is_known() -> None:
    assert mux.stream_of_cut_frame('{"type":"item","streamId":"s12","value":{"type":"snap') == "s12"
    assert mux.stream_of_cut_frame('{"streamId":"s12","type":"item"') is None
