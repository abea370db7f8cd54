"""A task's conversation in bounded replies: whole, once and in order, over a scripted Host."""

import time
import tracemalloc
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agentlink.app.runtime import Runtime
from agentlink.app.tail import anything_since, read_event, tail
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import Unreachable
from agentlink.core.host.values import (
    ChildRef,
    Event,
    OtherEvent,
    SessionState,
    SubagentStarted,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch
from agentlink.core.supervision.cursor import START, cursor_at, decode, encode
from tests.app.tails import read_whole, whole_tail
from tests.fakes.log_host import PROMPTED, TASK, ScriptedHost, runtime_over, turns


async def refused(runtime: Runtime, **more: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await tail(runtime, TASK, **more)
    return caught.value


@pytest.mark.parametrize("max_bytes", [1_000, 5_000, 40_000])
async def test_parts_of_a_long_session_are_the_whole_and_each_near_its_size(max_bytes: int) -> None:
    host = ScriptedHost(root=turns(40, steps=3))
    runtime = runtime_over(host)
    whole, _ = await whole_tail(runtime, TASK)
    told, replies = await whole_tail(runtime, TASK, max_bytes=max_bytes)
    assert told == whole
    assert [part.kind for part in told].count("answer") == 120
    assert all(len(msgspec.json.encode(reply)) <= max_bytes for reply in replies)
    assert replies[-1].events_left == 0
    assert (await tail(runtime, TASK, cursor=replies[-1].cursor)).events == ()


async def test_five_hundred_events_of_fifty_kilobytes_come_in_replies_of_forty() -> None:
    host = ScriptedHost(root=turns(1, steps=250, text="x" * 50_000))
    told, replies = await whole_tail(runtime_over(host), TASK, max_bytes=40_000)
    assert all(len(msgspec.json.encode(reply)) <= 40_000 for reply in replies)
    answers = [part for part in told if part.kind == "answer"]
    assert [len(part.text) for part in answers] == [50_000] * 250
    tools = [part for part in told if part.kind == "tool_ended"]
    assert {(len(part.text), part.size) for part in tools} == {(2_000, 50_000)}


async def test_an_idle_reader_asks_little_and_the_news_come_alone() -> None:
    log = turns(50)
    host = ScriptedHost(root=log[:-1])
    runtime = runtime_over(host)
    _, replies = await whole_tail(runtime, TASK)
    host.calls = host.events_read = 0
    idle = await tail(runtime, TASK, cursor=replies[-1].cursor)
    assert (idle.events, idle.more, idle.cursor) == ((), False, replies[-1].cursor)
    assert host.calls == 2
    assert host.events_read <= 10
    assert not await anything_since(runtime, await _view(runtime), idle.cursor)
    host.logs["root"] = log
    assert await anything_since(runtime, await _view(runtime), idle.cursor)
    news = await tail(runtime, TASK, cursor=idle.cursor)
    assert [part.kind for part in news.events] == ["turn_ended"]


async def _view(runtime: Runtime) -> TaskView:
    view = await runtime.store.task(TASK)
    assert view is not None
    return view


async def test_answers_too_large_for_one_call_are_read_in_smaller_windows() -> None:
    host = ScriptedHost(root=turns(10, steps=4, text="y" * 1_000))
    whole, _ = await whole_tail(runtime_over(host), TASK)
    host.too_large = 4_000
    told, _ = await whole_tail(runtime_over(host), TASK)
    assert told == whole
    host.too_large = 500
    assert (await refused(runtime_over(host))).code is Code.BAD_HOST_REPLY


async def test_a_log_without_anything_to_tell_is_read_in_bounded_pieces() -> None:
    log: list[Event] = [OtherEvent(seq=seq, time_ms=seq, type="delta") for seq in range(70_000)]
    log.append(TurnStarted(seq=70_000, time_ms=70_000, turn=1))
    told, replies = await whole_tail(runtime_over(ScriptedHost(root=log)), TASK)
    assert [part.kind for part in told] == ["turn_started"]
    assert len(replies) > 1
    assert replies[0].events_left > 0


def _family() -> ScriptedHost:
    log = turns(6)
    children = []
    host = ScriptedHost()
    for number, at in enumerate((5, 25, 40)):
        name = f"kid-{number}"
        ref = ChildRef(name, f"job {number}", "continuable", log[at].time_ms)
        host.logs[name] = turns(2, at_ms=log[at].time_ms + 1, text=f"{name} {'w' * 900}")
        log[at] = SubagentStarted(seq=at, time_ms=log[at].time_ms, child=ref)
        children.append(ref)
    grandchild = ChildRef("grandkid", "deep", "continuable", log[30].time_ms)
    host.logs["grandkid"] = turns(1, at_ms=grandchild.created_ms)
    host.logs["root"], host.children = log, {"root": tuple(reversed(children)), "kid-1": (grandchild,)}
    return host


async def test_subagents_are_told_in_the_hosts_order_and_opened_when_their_time_comes() -> None:
    host = _family()
    runtime = runtime_over(host)
    whole, _ = await whole_tail(runtime, TASK)
    assert {part.session for part in whole} == {None, "kid-0", "kid-1", "kid-2", "grandkid"}
    assert [part.at for part in whole] == sorted(part.at for part in whole)
    for name in ("kid-0", "kid-1", "kid-2"):
        introduced = next(i for i, part in enumerate(whole) if part.subagent == name)
        assert introduced < next(i for i, part in enumerate(whole) if part.session == name)
    told, replies = await whole_tail(runtime, TASK, max_bytes=1_000)
    assert told == whole
    host.asked.clear()
    first = await tail(runtime, TASK, max_bytes=1_000)
    assert host.asked == {"root", "kid-0"}, "later subagents are not looked at"
    assert len(first.cursor) < len(replies[-1].cursor) < 100


async def test_a_subagent_that_the_host_hides_for_a_while_is_not_told_again() -> None:
    host = _family()
    runtime = runtime_over(host)
    _, replies = await whole_tail(runtime, TASK)
    hidden = host.logs.pop("kid-0")
    after = await tail(runtime, TASK, cursor=replies[-1].cursor)
    host.logs["kid-0"] = hidden
    assert (after.events, after.more) == ((), False)
    assert (await tail(runtime, TASK, cursor=after.cursor)).events == ()


def _rewound(lost: int, *, then: list[Event]) -> list[Event]:
    old = turns(4, steps=4)
    kept = old[: len(old) - lost]
    closed: list[Event] = [*kept, TurnEnded(seq=0, time_ms=kept[-1].time_ms, turn=4, kind="interrupted")]
    return [replace(event, seq=seq) for seq, event in enumerate([*closed, *then])]


@pytest.mark.parametrize("lost", [2, 7, 18])
@pytest.mark.parametrize("later", [0, 1, 3])
async def test_a_rewound_history_is_told_anew_from_a_turn_and_nothing_new_is_missed(lost: int, later: int) -> None:
    old = turns(4, steps=4)
    host = ScriptedHost(root=old)
    runtime = runtime_over(host)
    _, replies = await whole_tail(runtime, TASK)
    host.logs["root"] = _rewound(lost, then=turns(later, first=5, at_ms=old[-1].time_ms + 3_000))
    after = await tail(runtime, TASK, cursor=replies[-1].cursor)
    assert len(after.rewound) == 1
    rewound = after.rewound[0]
    assert rewound.session is None
    assert isinstance(host.logs["root"][rewound.from_seq], TurnStarted)
    assert rewound.from_seq <= len(old) - lost
    told, _ = await whole_tail(runtime, TASK)
    assert list(after.events) == [part for part in told if int(part.id.split(":")[1]) >= rewound.from_seq]
    again = await tail(runtime, TASK, cursor=after.cursor)
    assert (again.events, again.rewound) == ((), ())


async def test_a_history_lost_to_its_first_event_is_told_from_its_beginning() -> None:
    host = ScriptedHost(root=turns(2))
    runtime = runtime_over(host)
    first = await tail(runtime, TASK)
    host.logs["root"] = []
    after = await tail(runtime, TASK, cursor=first.cursor)
    assert ([r.from_seq for r in after.rewound], after.events) == ([0], ())
    host.logs["root"] = turns(1, at_ms=9)
    assert (await tail(runtime, TASK, cursor=after.cursor)).events[0].kind == "turn_started"
    host.logs["root"] = [replace(turns(2)[1], seq=0)]
    lone = await tail(runtime, TASK, cursor=first.cursor)
    assert ([r.from_seq for r in lone.rewound], len(lone.events)) == ([0], 1)


async def test_only_the_subagent_whose_history_was_rewound_is_told_anew() -> None:
    host = _family()
    runtime = runtime_over(host)
    _, replies = await whole_tail(runtime, TASK)
    host.logs["kid-1"] = host.logs["kid-1"][:-1]
    after = await tail(runtime, TASK, cursor=replies[-1].cursor)
    assert [(r.session, r.from_seq) for r in after.rewound] == [("kid-1", 8)]
    assert {part.session for part in after.events} == {"kid-1"}


async def test_a_log_that_becomes_shorter_while_it_is_read_is_read_again() -> None:
    host = ScriptedHost(root=turns(3))
    runtime = runtime_over(host)
    state = host.session_state
    lie = [True]

    async def stale(session: str) -> SessionState | None:
        found = await state(session)
        assert found is not None
        return replace(found, last_seq=found.last_seq + 5) if lie and lie.pop() else found

    host.session_state = stale  # type: ignore[method-assign]
    assert (await tail(runtime, TASK)).events
    lie.extend([True, True])
    assert (await refused(runtime)).code is Code.HOST_ERROR


async def test_cursors_and_arguments_that_are_wrong_are_refused_by_name() -> None:
    host = ScriptedHost(root=turns(1))
    runtime = runtime_over(host)
    good = (await tail(runtime, TASK)).cursor
    foreign = encode(cursor_at("dsh_ffffffffffff", decode(good, task=TASK).root))
    for text, reason in ((foreign, "foreign"), (good[:-1], "damaged"), ("no cursor", "damaged"), ("", "damaged")):
        failure = await refused(runtime, cursor=text)
        assert (failure.code, failure.details) == (Code.CURSOR_INVALID, {"reason": reason})
    for size in (999, 1_000_001, -1):
        failure = await refused(runtime, max_bytes=size)
        assert (failure.code, failure.details) == (Code.INVALID_REQUEST, {"argument": "maxBytes"})
    with pytest.raises(Failure) as caught:
        await tail(runtime, TaskId("dsh_000000000000"))
    assert caught.value.code is Code.TASK_NOT_FOUND


async def test_a_task_without_a_session_has_an_empty_tail_and_a_cursor_at_nothing() -> None:
    host = ScriptedHost(root=turns(1))
    empty = await tail(runtime_over(host, Launch()), TASK)
    assert (empty.events, empty.more, host.calls) == ((), False, 0)
    assert not await anything_since(runtime_over(host, Launch()), TaskView(TASK, Launch(), 1), empty.cursor)
    assert (await tail(runtime_over(host), TASK, cursor=empty.cursor)).events
    unsent = runtime_over(ScriptedHost(), replace(PROMPTED, state=machine.LAUNCH_FAILED))
    assert (await tail(unsent, TASK)).events == ()


async def test_a_host_that_cannot_answer_is_told_with_its_code() -> None:
    host = ScriptedHost(root=turns(1))
    host.fault = Unreachable("no connection")
    assert (await refused(runtime_over(host))).code is Code.HOST_UNREACHABLE
    with pytest.raises(Failure) as caught:
        await anything_since(runtime_over(host), TaskView(TASK, PROMPTED, 1), encode(cursor_at(TASK, START)))
    assert caught.value.code is Code.HOST_UNREACHABLE
    elsewhere = replace(PROMPTED, origin="http://127.0.0.1:9")
    assert (await refused(runtime_over(host, elsewhere))).code is Code.HOST_CHANGED
    assert (await refused(runtime_over(ScriptedHost()))).code is Code.SESSION_NOT_FOUND
    stranger = replace(PROMPTED, binding="other login")
    assert (await refused(runtime_over(ScriptedHost(), stranger))).code is Code.HOST_CHANGED


async def test_the_rest_of_a_tools_text_is_read_by_its_event() -> None:
    host = _family()
    long = "ab😀\n" * 5_000
    at = host.logs["grandkid"][5]
    host.logs["grandkid"][5] = ToolEnded(seq=at.seq, time_ms=at.time_ms, call="c", text=long)
    runtime = runtime_over(host)
    told, _ = await whole_tail(runtime, TASK)
    cut = next(part for part in told if part.size == len(long))
    text, parts = await read_whole(runtime, TASK, cut.id, max_bytes=1_000)
    assert text == long
    assert len(parts) > 20
    assert {part.size for part in parts} == {len(long)}
    rest = await read_event(runtime, TASK, cut.id, offset=len(cut.text))
    assert cut.text + rest.text == long
    for wrong, argument in (
        ({"event_id": "root:9999"}, "event"),
        ({"event_id": "00000000:1"}, "event"),
        ({"event_id": "root:2"}, "event"),
        ({"event_id": "nothing"}, "event"),
        ({"event_id": cut.id, "offset": len(long) + 1}, "offset"),
        ({"event_id": cut.id, "offset": -1}, "offset"),
        ({"event_id": cut.id, "max_bytes": 10}, "maxBytes"),
    ):
        with pytest.raises(Failure) as caught:
            await read_event(runtime, TASK, **wrong)  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.details) == (Code.INVALID_REQUEST, {"argument": argument})
    with pytest.raises(Failure) as caught:
        await read_event(runtime_over(host, Launch()), TASK, cut.id)
    assert caught.value.code is Code.INVALID_REQUEST
    host.fault = Unreachable("gone")
    with pytest.raises(Failure) as caught:
        await read_event(runtime, TASK, cut.id)
    assert caught.value.code is Code.HOST_UNREACHABLE


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_session_of_forty_thousand_events_is_read_with_bounded_memory() -> None:
    host = ScriptedHost(root=turns(1_000, steps=8, text="a sentence of an answer, as agents say it"))
    runtime = runtime_over(host)
    assert len(host.logs["root"]) >= 40_000
    tracemalloc.start()
    began = time.perf_counter()
    _, replies = await whole_tail(runtime, TASK, max_bytes=40_000)
    spent = time.perf_counter() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    calls, read = host.calls, host.events_read
    host.calls = 0
    one = await tail(runtime, TASK, cursor=replies[len(replies) // 2].cursor)
    print(
        f"\n{len(host.logs['root'])} events: {len(replies)} replies, {calls} calls, {read} events read, "
        f"{spent:.2f} s, {peak / 1e6:.1f} MB at most with all replies kept; "
        f"one reply in the middle: {host.calls} calls, {len(one.events)} events"
    )
    assert host.calls <= 12
