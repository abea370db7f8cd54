"""The tail: what each event says, one order for all sessions, and replies that put together give the whole."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    ChildRef,
    Event,
    InboxSpliced,
    ModelChanged,
    ModelChoice,
    ModelRetried,
    OtherEvent,
    PresetChanged,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from agentlink.core.supervision.cursor import cursor_at, decode, encode
from agentlink.core.supervision.digest import TOOL_TEXT, Digest, digest, event_id, parse_event_id, text_of
from agentlink.core.supervision.tail import Strand, cut_text, deal

TASK = "dsh_0123456789ab"
CHILDREN = ("kid-a", "kid-b")
WHOLE = 1 << 40
_TEXT = st.text(max_size=40) | st.text(st.sampled_from('a"\\\n\x01é世😀'), max_size=1500)
_AT: dict[str, Any] = {"seq": st.just(0), "time_ms": st.integers(0, 30)}
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnStarted, turn=st.integers(1, 3), **_AT),
    st.builds(TurnEnded, turn=st.integers(1, 3), kind=st.just("completed"), error_code=st.none(), **_AT),
    st.builds(UserMessage, request=st.sampled_from((None, f"{TASK}.1.0")), by_person=st.booleans(), text=_TEXT, **_AT),
    st.builds(AssistantMessage, text=_TEXT, calls_tools=st.booleans(), interrupted=st.booleans(), **_AT),
    st.builds(ToolCalled, call=st.just("c"), name=st.just("bash"), arguments=_TEXT, **_AT),
    st.builds(ToolEnded, call=st.just("c"), text=_TEXT | st.just("ab😀" * TOOL_TEXT), **_AT),
    st.builds(OtherEvent, type=st.just("step/start"), **_AT),
)
LOGS = st.dictionaries(st.sampled_from((None, *CHILDREN)), st.lists(EVENTS, max_size=8), min_size=1)


def numbered(events: Sequence[Event], *, sorted_: bool = False) -> list[Event]:
    times = [event.time_ms for event in events]
    times = sorted(times) if sorted_ else times
    return [replace(event, seq=seq, time_ms=times[seq]) for seq, event in enumerate(events)]


class Reply(msgspec.Struct):
    parts: list[Digest]
    cursor: str
    used: int
    full: bool


def reply(logs: dict[str | None, list[Event]], cursor: str | None, *, room: int, window: int) -> Reply:
    """What the application does with one call, over whole logs at hand."""
    known = cursor_at(TASK, Strand().mark) if cursor is None else decode(cursor, task=TASK)
    marks = {None: known.root} | {name: known.child(name) for name in logs if name is not None}
    strands = [Strand(session=name, mark=marks[name]) for name in logs]
    parts: list[Digest] = []
    left = room
    while True:
        dealt = deal(strands, task=TASK, room=left, first=not parts)
        strands, left = list(dealt.strands), left - dealt.used
        parts += dealt.parts
        if dealt.hungry is None:
            break
        strand = strands[dealt.hungry]
        start = strand.mark.next_seq + len(strand.events)
        events = logs[strand.session][start : start + window]
        strands[dealt.hungry] = replace(
            strand, events=strand.events + tuple(events), whole=start + window >= len(logs[strand.session])
        )
    after = {strand.session: strand.mark for strand in strands}
    root = after.pop(None, known.root)
    return Reply(
        parts, encode(cursor_at(TASK, root, {str(name): mark for name, mark in after.items()})), room - left, dealt.full
    )


def joined(parts: Sequence[Digest]) -> list[Digest]:
    """The digests, each put together again from its parts, which must follow each other without gap or double."""
    whole: list[Digest] = []
    open_: Digest | None = None
    for part in parts:
        if open_ is None:
            assert part.offset == 0
        else:
            assert (part.id, part.offset) == (open_.id, len(open_.text))
            part = replace(part, text=open_.text + part.text, offset=0)
        if part.more:
            open_ = part
            continue
        if open_ is not None and part.size == len(part.text):
            part = replace(part, size=None)
        whole.append(part)
        open_ = None
    assert open_ is None
    return whole


@settings(deadline=None)
@given(LOGS, st.lists(st.integers(150, 4000), min_size=1, max_size=6), st.integers(1, 5), st.booleans())
@example({None: [UserMessage(seq=0, time_ms=0, request=None, by_person=True, text="😀" * 500)]}, [1], 1, False)
def test_replies_of_any_sizes_put_together_are_the_whole_story(
    drawn: dict[str | None, list[Event]], rooms: list[int], window: int, sorted_: bool
) -> None:
    logs = {name: numbered(events, sorted_=sorted_) for name, events in drawn.items()}
    whole = reply(logs, None, room=WHOLE, window=1000)
    assert not whole.full
    parts: list[Digest] = []
    cursor = None
    for turn in range(100_000):
        room = rooms[turn % len(rooms)]
        one = reply(logs, cursor, room=room, window=window)
        assert one.used <= room or len(one.parts) == 1
        assert one.used == sum(len(msgspec.json.encode(part)) + 1 for part in one.parts)
        assert one.parts or not one.full
        parts += one.parts
        cursor = one.cursor
        if not one.full:
            break
    assert joined(parts) == whole.parts
    assert len({part.id for part in whole.parts}) == len(whole.parts)
    assert reply(logs, cursor, room=WHOLE, window=3).parts == []


@given(LOGS)
def test_the_order_is_that_of_the_hosts_clock_and_of_each_log(drawn: dict[str | None, list[Event]]) -> None:
    logs = {name: numbered(events, sorted_=True) for name, events in drawn.items()}
    told = reply(logs, None, room=WHOLE, window=1000).parts
    expected = [
        (event.time_ms, name or "", event.seq)
        for name, events in logs.items()
        for event in events
        if digest(event, task=TASK, session=name) is not None
    ]
    assert [part.id for part in told] == [event_id(name or None, seq) for _, name, seq in sorted(expected)]


@given(LOGS, st.data())
def test_logs_that_grow_between_replies_are_told_once_and_in_order(
    drawn: dict[str | None, list[Event]], data: st.DataObject
) -> None:
    logs = {name: numbered(events) for name, events in drawn.items()}
    cursor, parts = None, []
    for _ in range(4):
        shown = {name: events[: data.draw(st.integers(0, len(events)))] for name, events in logs.items()}
        marks = cursor and decode(cursor, task=TASK)
        for name in shown:  # a log does not become shorter
            mark = None if not marks else marks.root if name is None else marks.child(name)
            shown[name] = logs[name][: max(len(shown[name]), 0 if mark is None else mark.seq + 1)]
        one = reply(shown, cursor, room=data.draw(st.integers(1, 2000)), window=2)
        cursor, parts = one.cursor, parts + one.parts
    full = True
    while full:
        one = reply(logs, cursor, room=5000, window=2)
        cursor, full, parts = one.cursor, one.full, parts + one.parts
    for name in logs:
        mine = [part for part in parts if part.session == name]
        assert joined(mine) == [d for e in logs[name] if (d := digest(e, task=TASK, session=name)) is not None]


@given(_TEXT, st.integers(0, 50), st.integers(-5, 200))
def test_a_cut_text_fits_and_is_never_empty_before_its_end(text: str, offset: int, max_bytes: int) -> None:
    piece = cut_text(text, offset=offset, max_bytes=max_bytes)
    assert text[offset:].startswith(piece)
    assert len(msgspec.json.encode(piece)) - 2 <= max_bytes or len(piece) == 1 or not text[offset:]
    assert piece or not text[offset:]


def test_a_message_that_fits_a_reply_is_not_cut_to_fill_the_one_before() -> None:
    logs: dict[str | None, list[Event]] = {
        None: numbered([message("a" * 300), message("b" * 300), message("c" * 5000)])
    }
    sizes = []
    cursor, full = None, True
    while full:
        one = reply(logs, cursor, room=1000, window=10)
        cursor, full = one.cursor, one.full
        sizes.append([(part.offset, len(part.text)) for part in one.parts])
    assert sizes[0] == [(0, 300), (0, 300)]
    assert all(len(parts) == 1 for parts in sizes[1:])


def test_a_subagent_is_introduced_before_it_works_and_read_only_when_its_time_comes() -> None:
    child = ChildRef("kid-a", "label", "continuable", 20)
    root: tuple[Event, ...] = (
        TurnStarted(seq=0, time_ms=10, turn=1),
        SubagentStarted(seq=1, time_ms=30, child=child),
        TurnEnded(seq=2, time_ms=31, turn=1, kind="completed"),
    )
    unread = Strand(session="kid-a", since_ms=20)
    dealt = deal((Strand(events=root, whole=True), unread), task=TASK, room=WHOLE)
    assert [part.kind for part in dealt.parts] == ["turn_started", "subagent_started"]
    assert dealt.hungry == 1
    read = replace(unread, events=(TurnStarted(seq=0, time_ms=5, turn=1),), whole=True)
    dealt = deal((dealt.strands[0], read), task=TASK, room=WHOLE)
    assert [part.session for part in dealt.parts] == ["kid-a", None]
    assert (dealt.hungry, dealt.full) == (None, False)
    later = deal((Strand(events=root, whole=True), replace(unread, since_ms=99)), task=TASK, room=1)
    assert (later.hungry, later.full) == (None, True)


def message(text: str, **more: Any) -> UserMessage:
    return UserMessage(seq=0, time_ms=0, request=more.pop("request", None), by_person=True, text=text, **more)


AT: dict[str, Any] = {"seq": 7, "time_ms": 1_000}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (TurnStarted(turn=2, **AT), {"kind": "turn_started", "turn": 2}),
        (
            TurnEnded(turn=2, kind="error", error_code="E", **AT),
            {"kind": "turn_ended", "turn": 2, "outcome": "error", "errorCode": "E"},
        ),
        (
            UserMessage(request=f"{TASK}.1.0", by_person=True, text="go", **AT),
            {"kind": "message", "from": "agentlink", "requestId": f"{TASK}.1.0", "text": "go"},
        ),
        (
            UserMessage(request=f"{TASK}0.1", by_person=True, text="go", **AT),
            {"kind": "message", "from": "person", "requestId": f"{TASK}0.1", "text": "go"},
        ),
        (
            UserMessage(request=None, by_person=False, source="subagent-settled", text="t", reports="kid", **AT),
            {"kind": "message", "from": "subagent", "subagent": "kid", "text": "t"},
        ),
        (
            UserMessage(request=None, by_person=False, source="plugin", text="t", **AT),
            {"kind": "message", "from": "host", "text": "t"},
        ),
        (UserMessage(request=None, by_person=False, source="runtime-context", text="t", **AT), None),
        (UserMessage(request=None, by_person=False, source="time-context", text="t", **AT), None),
        (AssistantMessage(text="hi", calls_tools=True, **AT), {"kind": "answer", "text": "hi"}),
        (AssistantMessage(text="", calls_tools=True, **AT), None),
        (AssistantMessage(text="", calls_tools=False, interrupted=True, **AT), {"kind": "answer", "interrupted": True}),
        (
            ToolCalled(call="c1", name="bash", arguments="{}", **AT),
            {"kind": "tool_called", "tool": "bash", "callId": "c1", "text": "{}"},
        ),
        (
            ToolCalled(call="c1", name="bash", arguments="x" * 3000, **AT),
            {"kind": "tool_called", "tool": "bash", "callId": "c1", "text": "x" * TOOL_TEXT, "size": 3000},
        ),
        (
            ToolEnded(call="c1", failed=True, error_code="E", text="no", **AT),
            {"kind": "tool_ended", "callId": "c1", "failed": True, "errorCode": "E", "text": "no"},
        ),
        (
            ToolCalled(call="c2", name="ask_user_question", arguments="q" * 3000, **AT),
            {"kind": "question_asked", "requestId": "c2@7", "callId": "c2", "text": "q" * 3000},
        ),
        (
            ApprovalAsked(approval="a", tool="bash", call="c3", reason="why", **AT),
            {
                "kind": "approval_asked",
                "requestId": "a",
                "callId": "c3",
                "approvalId": "a",
                "tool": "bash",
                "text": "why",
            },
        ),
        (
            ApprovalAsked(approval="a", tool="bash", **AT),
            {"kind": "approval_asked", "requestId": "a", "approvalId": "a", "tool": "bash"},
        ),
        (
            ApprovalDecided(approval="a", outcome="rejected", **AT),
            {"kind": "approval_decided", "approvalId": "a", "outcome": "rejected"},
        ),
        (
            InboxSpliced(target="next-turn", start=0, removed=0, inserted=("r1", None), canceled=False, **AT),
            {"kind": "queue_changed", "queued": ["r1"], "queuedCount": 2},
        ),
        (
            InboxSpliced(target="next-turn", start=0, removed=2, inserted=(), canceled=True, **AT),
            {"kind": "queue_changed", "removedCount": 2},
        ),
        (InboxSpliced(target="next-turn", start=0, removed=1, inserted=(), canceled=False, **AT), None),
        (
            SubagentStarted(child=ChildRef("kid", "label"), **AT),
            {"kind": "subagent_started", "subagent": "kid", "label": "label"},
        ),
        (
            ModelRetried(retry=1, of=3, error_code="E", **AT),
            {"kind": "model_retry", "retry": 1, "of": 3, "errorCode": "E"},
        ),
        (PresetChanged(preset="p", **AT), {"kind": "preset_changed", "preset": "p"}),
        (
            ModelChanged(model=ModelChoice("p", "m"), **AT),
            {"kind": "model_changed", "provider": "p", "model": "m"},
        ),
        (OtherEvent(type="x", **AT), None),
    ],
)
def test_each_event_says_what_a_caller_needs_and_nothing_empty(event: Event, told: dict[str, Any] | None) -> None:
    found = digest(event, task=TASK)
    at = {"id": "root:7", "at": "1970-01-01T00:00:01.000Z"}
    assert msgspec.json.decode(msgspec.json.encode(found)) == (None if told is None else at | told)
    if found is not None:
        assert text_of(event).startswith(found.text)


def test_a_subagents_event_names_its_session_and_its_parents_words() -> None:
    found = digest(message("go"), task=TASK, session="kid")
    assert found is not None
    assert (found.session, found.sender, found.id) == ("kid", "parent", event_id("kid", 0))
    told = digest(message("go", request="r"), task=TASK, session="kid")
    assert told is not None
    assert told.sender == "person"


@given(st.none() | st.text(), st.integers(0, 10**14))
def test_an_events_id_is_read_back(session: str | None, seq: int) -> None:
    parsed = parse_event_id(event_id(session, seq))
    assert parsed is not None
    assert parsed[1] == seq
    assert event_id("s", seq, root="s") == event_id(None, seq)


@given(st.text())
@example("root:")
@example("root:01")
@example("root:-1")
@example("root:²")
@example("ROOT:1")
@example("0123456g:1")
@example("root:1:2")
@example("root:" + "1" * 16)
def test_any_other_text_is_no_id(text: str) -> None:
    parsed = parse_event_id(text)
    assert parsed is None or f"{parsed[0]}:{parsed[1]}" == text


def test_any_time_of_a_host_can_be_told() -> None:
    for time_ms in (-(10**18), 10**18):
        assert digest(TurnStarted(seq=0, time_ms=time_ms, turn=1), task=TASK) is not None
