from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.host.faults import BadReply, Refused
from agentlink.core.host.find_prompt import find_prompt
from agentlink.core.host.timeline import Timeline, final_message, fold_all, session_execution
from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    CreatedSession,
    InboxSpliced,
    ModelCatalog,
    ModelChoice,
    OtherEvent,
    Page,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from agentlink.wire import remote
from tests.strategies import JSON

SAMPLES = Path(__file__).parent.parent / "samples" / "remote"
FLASH = ModelChoice("deepseek-official", "deepseek-flash")
ASKED = "session-00000000-0000-4000-8000-000000000001"


def sample(name: str) -> bytes:
    return (SAMPLES / f"{name}.json").read_bytes()


def value_of(name: str) -> msgspec.Raw:
    return remote.reply_value(sample(name), rpc_id="call-1")


def page_of(name: str) -> Page:
    return remote.decode_page(value_of(name), host_now_ms=5)


def as_page(value: msgspec.Raw) -> Page:
    return remote.decode_page(value, host_now_ms=None)


DECODERS: tuple[Callable[[msgspec.Raw], Any], ...] = (
    remote.decode_roster,
    remote.decode_created,
    remote.decode_state,
    remote.decode_catalog,
    as_page,
    remote.decode_accepted,
)


def decode_all(raw: bytes) -> None:
    """Any answer to any call is a value, a refusal or no reply."""
    for decode in DECODERS:
        with contextlib.suppress(Refused, BadReply):
            decode(remote.reply_value(raw, rpc_id="call-1"))


def test_the_roster_of_a_real_host_names_default_and_broken_presets() -> None:
    roster = {preset.id: preset for preset in remote.decode_roster(value_of("roster"))}
    assert [preset.id for preset in roster.values() if preset.is_default] == ["standard"]
    assert "never started" in (roster["broken-one"].broken or "")
    assert (roster["team"].name, roster["team"].broken) == ("Team", None)


def test_a_real_create_and_acceptance_are_read() -> None:
    assert remote.decode_created(value_of("create")) == CreatedSession(ASKED, "standard")
    remote.decode_accepted(value_of("prompt"))


def test_a_real_catalog_names_default_and_routable_providers() -> None:
    assert remote.decode_catalog(value_of("catalog")) == ModelCatalog(FLASH, ("deepseek-official",))
    assert remote.decode_catalog(msgspec.Raw(b"{}")) == ModelCatalog(None, ())


def test_real_states_tell_blank_preset_model_and_waiting_prompts() -> None:
    blank = remote.decode_state(value_of("state_blank"))
    done = remote.decode_state(value_of("state_done"))
    waiting = remote.decode_state(value_of("state_waiting"))
    assert blank is not None
    assert done is not None
    assert waiting is not None
    assert (blank.blank, blank.preset, blank.waiting) == (True, "standard", ())
    assert (done.blank, done.model, done.last_seq, done.waiting) == (False, FLASH, 28, ())
    assert waiting.waiting == ("dsh_0123456789ab.1.2",)


def test_only_a_null_that_is_there_means_that_the_session_is_absent() -> None:
    assert remote.decode_state(value_of("state_absent")) is None
    empty = b'{"type":"server-response","rpcId":"call-1","result":{"ok":true}}'
    with pytest.raises(BadReply):
        remote.decode_state(remote.reply_value(empty, rpc_id="call-1"))


@pytest.mark.parametrize(
    ("values", "as_of", "blank", "waiting"),
    [
        ({}, -1, True, ()),
        ({}, 3, False, ()),
        ({"sessionListMetadata": {}}, 3, True, ()),
        ({"sessionListMetadata": None, "modelSelection": None}, 3, False, ()),
        ({"inbox": {"next-step": [{"source": {"rpcId": "a"}}], "next-turn": [{}], "new": [{}]}}, 3, False, (None, "a")),
    ],
)
def test_a_state_with_few_projections_is_read_as_far_as_it_goes(
    values: dict[str, Any], as_of: int, blank: bool, waiting: tuple[str | None, ...]
) -> None:
    raw = msgspec.json.encode({"kind": "sequenced", "asOfSeq": as_of, "values": values})
    state = remote.decode_state(msgspec.Raw(raw))
    assert state is not None
    assert (state.blank, state.waiting, state.model, state.preset) == (blank, waiting, None, None)


@pytest.mark.parametrize(
    ("name", "code", "kind", "final"),
    [
        ("create_not_found", "agent-preset/not-found", "preset_not_found", True),
        ("create_broken", "agent-preset/invalid", "preset_broken", True),
        ("page_not_found", "session/not-found", "session_not_found", True),
        ("select_locked", "agent-preset/locked", "other", True),
        ("missing_args", "gateway/arguments-invalid", "other", True),
        ("wrong_envelope", "gateway/bad-request", "other", True),
    ],
)
def test_f06_a_refusal_inside_an_http_200_is_always_an_error(name: str, code: str, kind: str, final: bool) -> None:
    with pytest.raises(Refused) as caught:
        value_of(name)
    assert (caught.value.code, caught.value.kind, caught.value.final) == (code, kind, final)


def test_f06_a_refused_preset_brings_the_ids_that_exist_or_the_reason() -> None:
    with pytest.raises(Refused) as missing:
        value_of("create_not_found")
    assert "standard" in missing.value.details["available"]  # type: ignore[operator]
    with pytest.raises(Refused) as broken:
        value_of("create_broken")
    assert "never started" in str(broken.value.details["reason"])


@pytest.mark.parametrize("code", ["gateway/internal", "gateway/cancelled", "gateway/peer-disposed"])
def test_a_failure_inside_the_host_proves_nothing(code: str) -> None:
    assert remote.refusal_kind(code) == "unproven"


def test_a_real_tool_turn_is_read_event_by_event() -> None:
    page = page_of("page_whole")
    known = [event for event in page.events if not isinstance(event, OtherEvent)]
    assert {type(event) for event in known} == {
        TurnStarted,
        TurnEnded,
        UserMessage,
        AssistantMessage,
        InboxSpliced,
        ToolCalled,
        ToolEnded,
        ApprovalAsked,
        ApprovalDecided,
    }
    assert [event.kind for event in known if isinstance(event, TurnEnded)] == ["completed", "aborted", "aborted"]
    assert (page.has_more, page.host_now_ms, [event.seq for event in page.events]) == (False, 5, list(range(55)))


@pytest.mark.parametrize(
    ("number", "standing"),
    [(0, "delivered"), (1, "delivered"), (2, "removed"), (3, "delivered"), (4, "absent")],
)
def test_each_prompt_of_a_real_session_is_found_where_it_ended(number: int, standing: str) -> None:
    events = page_of("page_whole").events
    assert find_prompt(events, f"dsh_0123456789ab.1.{number}").standing == standing


@pytest.mark.parametrize(
    ("name", "execution", "text"),
    [
        ("page_tool_turn", "turn_completed", "grüße 世界"),
        ("page_window", "turn_completed", "grüße 世界"),
        ("page_question_open", "awaiting_input", None),
        ("page_approval_open", "awaiting_approval", None),
        ("page_whole", "canceled", None),
    ],
)
def test_the_last_turn_of_a_real_page_is_told(name: str, execution: str, text: str | None) -> None:
    events = page_of(name).events
    timeline = fold_all(Timeline(last_seq=events[0].seq - 1), events)
    assert session_execution(timeline, now_ms=timeline.last_ms) == execution
    final = final_message(timeline)
    if text is not None:
        assert final is not None
        assert final.text == text


def test_a_page_with_a_gap_a_double_or_the_wrong_order_is_no_reply() -> None:
    value = msgspec.json.decode(value_of("page_tool_turn"))
    records = value["records"]
    for changed in (records[:3] + records[4:], [records[0], *records], records[::-1]):
        with pytest.raises(BadReply):
            as_page(msgspec.Raw(msgspec.json.encode(value | {"records": changed})))


def test_a_record_of_another_kind_is_passed_over_and_an_empty_event_is_no_reply() -> None:
    assert as_page(msgspec.Raw(b'{"records":[{"type":"marker"}],"hasMore":true}')) == Page((), True, None)
    with pytest.raises(BadReply):
        as_page(msgspec.Raw(b'{"records":[{"type":"event"}],"hasMore":false}'))


def one_event(kind: str, data: Any) -> Any:
    event = {"type": kind, "seq": 0, "time": 0, "data": data, "surfaceOp": "append"}
    value = {"records": [{"type": "event", "event": event}], "hasMore": False}
    return as_page(msgspec.Raw(msgspec.json.encode(value))).events[0]


def test_an_event_from_the_future_is_kept_by_its_name() -> None:
    assert one_event("new/kind", [1, {"a": None}]) == OtherEvent(seq=0, time_ms=0, type="new/kind")


def test_an_end_brings_its_error_code_and_a_message_its_source() -> None:
    error = {"turn": 1, "reason": {"kind": "error", "error": {"code": "NO_ADAPTER"}}}
    assert one_event("turn/end", error).error_code == "NO_ADAPTER"
    assert one_event("user/message", {"source": {"kind": "runtime-context"}}).by_person is False
    assert one_event("user/message", {}).request is None
    moved = one_event("agent/inbox/spliced", {"target": "next-step", "inserted": [{}], "outcome": "canceled"})
    assert (moved.target, moved.inserted, moved.canceled, moved.removed) == ("next-step", (None,), True, 0)
    parts = [{"type": "text", "text": "a"}, {"type": "tool-call"}, {"type": "text", "text": "b"}]
    said = one_event("assistant/message", {"message": {"content": parts}})
    assert (said.text, said.calls_tools) == ("ab", True)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("turn/start", {}),
        ("turn/end", {"turn": 1}),
        ("assistant/message", {}),
        ("agent/inbox/spliced", {}),
        ("agent/inbox/spliced", {"target": "next-turn", "start": -1}),
        ("agent/inbox/spliced", {"target": "next-turn", "removedCount": -1}),
        ("tool/call", {"callId": "c"}),
        ("tool/result", {}),
        ("approval/asked", {}),
        ("approval/decided", None),
    ],
)
def test_a_known_event_without_what_it_always_has_is_no_reply(kind: str, data: Any) -> None:
    with pytest.raises(BadReply):
        one_event(kind, data)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'{"type":"server-response","rpcId":"other","result":{"ok":true}}',
        b'{"type":"client-request","rpcId":"call-1","result":{"ok":true}}',
        b'{"type":"server-response","rpcId":"call-1","result":{"ok":false}}',
        b'{"type":"server-response","rpcId":"call-1","result":{"ok":1}}',
        b'{"type":"server-response","rpcId":"call-1","result":{"ok":true,"value":"\\ud800"}}',
    ],
)
def test_what_is_no_reply_to_this_call_is_no_reply(raw: bytes) -> None:
    with pytest.raises(BadReply):
        remote.reply_value(raw, rpc_id="call-1")


def test_json_nested_without_end_is_no_reply_and_not_a_crash() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    head = b'{"type":"server-response","rpcId":"call-1","result":'
    for body in (b'{"ok":true,"value":' + deep, b'{"ok":false,"error":{"code":"c","details":' + deep + b"}"):
        with pytest.raises(BadReply):
            remote.reply_value(head + body + b"}}", rpc_id="call-1")
    for decode in DECODERS:
        with pytest.raises(BadReply):
            decode(msgspec.Raw(b'{"records":' + deep + b',"x":' + deep + b"}"))
    with pytest.raises(BadReply):
        decode_deep_event(deep)


def decode_deep_event(deep: bytes) -> None:
    record = b'{"type":"event","event":{"type":"turn/start","seq":0,"time":0,"data":{"turn":1,"x":%b}}}' % deep
    as_page(msgspec.Raw(b'{"records":[' + record + b'],"hasMore":false}'))


def test_an_id_that_is_a_text_is_no_reply() -> None:
    long = b'"' + b"x" * 201 + b'"'
    with pytest.raises(BadReply):
        remote.decode_created(msgspec.Raw(b'{"sessionId":' + long + b"}"))
    with pytest.raises(BadReply):
        remote.decode_created(msgspec.Raw(b'{"sessionId":"s","agentPreset":' + long + b"}"))
    state = b'{"kind":"sequenced","asOfSeq":1,"values":{"agentPreset":' + long + b"}}"
    with pytest.raises(BadReply):
        remote.decode_state(msgspec.Raw(state))


@given(JSON)
def test_any_json_is_a_value_a_refusal_or_no_reply(value: Any) -> None:
    raw = msgspec.json.encode(value)
    for decode in DECODERS:
        with contextlib.suppress(BadReply):
            decode(msgspec.Raw(raw))
    decode_all(raw)
    decode_all(
        msgspec.json.encode({"type": "server-response", "rpcId": "call-1", "result": {"ok": True, "value": value}})
    )
    error = {"ok": False, "error": value}
    decode_all(msgspec.json.encode({"type": "server-response", "rpcId": "call-1", "result": error}))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_a_refusal_or_no_reply(raw: bytes) -> None:
    decode_all(raw)
    decode_all(b'{"type":"server-response","rpcId":"call-1","result":{"ok":true,"value":' + raw + b"}}")


SMALL = sorted(path.stem for path in SAMPLES.glob("*.json") if path.stat().st_size < 2_000)


@given(st.sampled_from(SMALL), st.data())
def test_a_real_answer_with_any_byte_changed_or_cut_is_a_value_a_refusal_or_no_reply(
    name: str, data: st.DataObject
) -> None:
    raw = bytearray(sample(name))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    decode_all(bytes(raw))
    decode_all(bytes(raw[:place]))


def replaced_somewhere(draw: st.DrawFn, value: Any) -> Any:
    """The same JSON with one part of it, at any depth, replaced or left out."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 4)):
            return {k: v for k, v in value.items() if k != key}
        return value | {key: replaced_somewhere(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], replaced_somewhere(draw, value[place]), *value[place + 1 :]]
    return draw(JSON)


PAGES = {
    name: msgspec.json.decode(sample(name)) for name in ("page_tool_turn", "page_whole", "state_waiting", "roster")
}


@given(st.composite(lambda draw: replaced_somewhere(draw, PAGES[draw(st.sampled_from(sorted(PAGES)))]))())
def test_a_real_answer_with_any_part_replaced_is_a_value_a_refusal_or_no_reply(value: Any) -> None:
    decode_all(msgspec.json.encode(value))


def test_a_call_is_an_envelope_with_its_arguments_under_args() -> None:
    body = msgspec.json.decode(remote.call_bytes("session/create", {"request": {"cwd": "/ü"}}, rpc_id="r"))
    assert body == {
        "type": "client-request",
        "rpcId": "r",
        "method": "session/create",
        "payload": {"args": {"request": {"cwd": "/ü"}}},
    }
