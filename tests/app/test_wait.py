"""Waiting on the real Host: bounded, at once when there is nothing to wait for, and truthful about every task (F3)."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from agentlink.app import wait as wait_module
from agentlink.app.cancel import cancel
from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.followup import FollowUp, follow_up
from agentlink.app.listing import list_tasks
from agentlink.app.live import LiveTask
from agentlink.app.runtime import open_runtime
from agentlink.app.status import task_status
from agentlink.app.tail import tail
from agentlink.app.wait import WaitRequest, wait
from agentlink.core.errors import Code
from agentlink.core.host.values import CreatedSession
from agentlink.core.ids import SessionId, TaskId
from agentlink.lab import Lab
from tests.app.supervised import Desk, asking, desk_at, refused, tool, with_child

pytestmark = pytest.mark.host


async def test_f03a_a_wait_ends_by_itself_says_that_it_was_cut_and_the_task_runs_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_module, "MAX_WAIT_S", 0.5)
    task = await desk.task("[[slow: 2 one two]]")
    began = time.monotonic()
    waited = await desk.wait(task, timeout_s=600)
    assert time.monotonic() - began < 2
    assert (waited.timed_out, waited.clamped_to, waited.execution) == (True, 0.5, "running")
    assert waited.cursor is not None
    monkeypatch.setattr(wait_module, "MAX_WAIT_S", 45.0)
    after = await desk.wait(task)
    assert (after.timed_out, after.clamped_to, after.final_message) == (False, None, "one two")
    told = await tail(desk.runtime, task, cursor=waited.cursor)
    assert [event.kind for event in told.events] == ["answer", "turn_ended"]


async def test_f03b_a_task_that_has_ended_is_answered_at_once_with_its_end_and_even_without_any_time(
    desk: Desk,
) -> None:
    task = await desk.task("[[say: early]]", preset="minimal")
    await desk.done(task)
    for timeout_s in (0, 0.0001, 20):
        began = time.monotonic()
        waited = await desk.wait(task, timeout_s=timeout_s)
        assert (waited.timed_out, waited.execution, waited.final_message) == (False, "turn_completed", "early")
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("behind_calls", [True, False])
async def test_f03b_an_end_right_before_or_right_after_the_wait_begins_is_never_missed(
    host_lab: Lab, environment: dict[str, str], behind_calls: bool
) -> None:
    async with desk_at(host_lab, environment, behind_calls=behind_calls) as desk:
        for number in range(5):
            task = await desk.task(f"[[say: end {number}]]", preset="minimal")
            await anyio.sleep(number * 0.03)
            began = time.monotonic()
            waited = await desk.wait(task)
            assert (waited.execution, waited.final_message) == ("turn_completed", f"end {number}")
            assert time.monotonic() - began < 3


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_f03b_of_many_waits_none_misses_its_end(desk: Desk) -> None:
    for number in range(150):
        task = await desk.task(f"[[slow: {number % 10 * 0.03} end {number}]]", preset="minimal")
        began = time.monotonic()
        waited = await desk.wait(task)
        assert waited.execution == "turn_completed"
        assert time.monotonic() - began < 3


async def test_the_first_of_several_tasks_with_news_is_told_and_none_of_the_others_falsely(desk: Desk) -> None:
    slow = await desk.task("[[slow: 20 never read]]", preset="minimal")
    done = await desk.task("[[say: done]]", preset="minimal")
    asks = await desk.task("[[slow: 0.3 first]]", preset="minimal")
    await desk.at(slow, "running")
    await desk.done(done)
    waited = await desk.wait(slow, done)
    assert (waited.task_id, waited.execution) == (done, "turn_completed")
    assert [(one.task_id, one.execution) for one in waited.tasks] == [(slow, "running"), (done, "turn_completed")]
    waited = await desk.wait(slow, asks)
    assert (waited.task_id, waited.final_message) == (asks, "first")
    assert [one.execution for one in waited.tasks] == ["running", "turn_completed"]
    waited = await desk.wait(slow, asks, timeout_s=0)
    assert (waited.task_id, waited.timed_out) == (asks, False)
    assert [one.execution for one in waited.tasks] == ["running", "turn_completed"]
    waited = await desk.wait(slow, timeout_s=0.2)
    assert (waited.task_id, waited.timed_out, waited.tasks) == (slow, True, ())
    await cancel(desk.runtime, slow)


async def test_a_wait_for_any_news_after_a_cursor_tells_each_change_and_never_sleeps_over_one(desk: Desk) -> None:
    task = await desk.task('[[tool: bash {"command":"sleep 0.6","description":"d"}]] ' + asking())
    cursor: str | None = None
    kinds: list[str] = []
    for _ in range(30):
        waited = await desk.wait(task, until="any", cursor=cursor)
        assert waited.timed_out is False
        told = await tail(desk.runtime, task, cursor=cursor)
        assert told.events or waited.execution == "awaiting_input"
        kinds += [event.kind for event in told.events]
        cursor = told.cursor
        if waited.execution == "awaiting_input":
            break
    assert kinds[-1] == "question_asked"
    assert kinds.count("tool_called") == 1
    assert kinds.count("tool_ended") == 1
    quiet = await desk.wait(task, until="any", cursor=cursor, timeout_s=0.3)
    assert quiet.execution == "awaiting_input", "there is something to do: no reason to wait"
    await cancel(desk.runtime, task)


async def test_news_that_came_between_the_cursor_and_the_wait_ends_it_at_once(desk: Desk) -> None:
    task = await desk.task("[[slow: 20 a b c d]]")
    await desk.at(task, "running")
    cursor = (await desk.status(task)).cursor
    await follow_up(desk.runtime, task, FollowUp(prompt="more"))
    began = time.monotonic()
    waited = await desk.wait(task, until="any", cursor=cursor)
    assert (waited.execution, waited.queued) == ("running", 1)
    assert time.monotonic() - began < 1
    waited = await desk.wait(task, until="any", cursor=waited.cursor, timeout_s=0.4)
    assert waited.timed_out is True
    await cancel(desk.runtime, task, scope="all")


async def test_a_wait_on_a_launch_that_another_process_drives_goes_on_to_its_end(
    desk: Desk, environment: dict[str, str], workspace: Path
) -> None:
    other = open_runtime(environment)
    launching, gate = anyio.Event(), anyio.Event()
    original = other.host.create_session

    async def held(session: SessionId, *, cwd: str, preset: str | None) -> CreatedSession:
        launching.set()
        await gate.wait()
        return await original(session, cwd=cwd, preset=preset)

    other.host.create_session = held  # type: ignore[method-assign]
    asked = DelegateRequest(prompt="[[say: late]]", cwd=str(workspace), preset="minimal")
    async with anyio.create_task_group() as group:
        group.start_soon(delegate, other, asked)
        with anyio.fail_after(10):
            await launching.wait()
        (row,) = (await list_tasks(desk.runtime)).tasks
        task = TaskId(row.task_id)
        waited = await desk.wait(task, timeout_s=0.5)
        assert (waited.timed_out, waited.execution, waited.stage) == (True, "not_started", "selected")
        group.start_soon(_open_soon, gate)
        waited = await desk.wait(task)
    assert (waited.execution, waited.final_message) == ("turn_completed", "late")
    await other.aclose()


async def _open_soon(gate: anyio.Event) -> None:
    await anyio.sleep(0.3)
    gate.set()


async def test_a_wait_on_a_failed_launch_or_an_unknown_task_does_not_wait(desk: Desk, workspace: Path) -> None:
    failure = await refused(
        delegate(desk.runtime, DelegateRequest(prompt="x", cwd=str(workspace), preset="broken-one"))
    )
    began = time.monotonic()
    waited = await desk.wait(TaskId(failure.task or ""))
    assert (waited.timed_out, waited.stage, waited.execution) == (False, "launch-failed", "not_started")
    assert waited.failure is not None
    assert waited.failure.code == "preset_broken"
    unknown = await refused(desk.wait(TaskId("dsh_0123456789ab")))
    assert unknown.code is Code.TASK_NOT_FOUND
    assert time.monotonic() - began < 2


async def test_a_wait_that_cannot_be_one_is_refused_with_the_argument(desk: Desk) -> None:
    one, two = TaskId("dsh_0123456789ab"), TaskId("dsh_0123456789ac")
    bad = [
        (WaitRequest(tasks=()), "taskIds"),
        (WaitRequest(tasks=(one, one)), "taskIds"),
        (WaitRequest(tasks=tuple(TaskId(f"dsh_{n:012x}") for n in range(21))), "taskIds"),
        (WaitRequest(tasks=(one,), timeout_s=-1), "timeoutSeconds"),
        (WaitRequest(tasks=(one, two), cursor="x"), "cursor"),
    ]
    for request, argument in bad:
        failure = await refused(wait(desk.runtime, request))
        assert (failure.code, failure.details) == (Code.INVALID_REQUEST, {"argument": argument})


async def test_progress_only_rises_and_stops_with_the_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_module, "_PROGRESS_S", 0.1)
    task = await desk.task("[[slow: 0.8 one two]]")
    told: list[tuple[float, str]] = []
    returned = False

    async def say(seconds: float, states: str) -> None:
        assert not returned
        told.append((seconds, states))

    await wait(desk.runtime, WaitRequest(tasks=(task,)), say=say)
    returned = True
    seconds = [one for one, _ in told]
    assert len(seconds) >= 3
    assert seconds == sorted(set(seconds))
    assert told[-1][1] == "running"
    await anyio.sleep(0.25)


async def test_the_status_of_a_task_never_says_done_before_the_last_turn_of_its_subagents_story(desk: Desk) -> None:
    task = await desk.task(with_child("[[slow: 0.6 child one two]]"))
    seen: list[tuple[str, int]] = []
    early: list[object] = []

    async def look_fast() -> None:
        while True:
            ends = len(await desk.turn_ends(task))
            status = await task_status(desk.runtime, task)
            seen.append((status.execution, len(status.children_running)))
            if status.final_message is not None and len(await desk.turn_ends(task)) < 2:
                early.append((ends, status))

    async with anyio.create_task_group() as group:
        group.start_soon(look_fast)
        waited = await desk.wait(task)
        ends = await desk.turn_ends(task)
        group.cancel_scope.cancel()
    assert early == []
    assert ends == ["completed", "completed"]
    assert (waited.execution, waited.children_running) == ("turn_completed", ())
    assert (waited.final_message or "").startswith("Done: Background subagent")
    assert ("children_running", 1) in seen
    assert {execution for execution, _ in seen} <= {"running", "queued", "children_running", "turn_completed"}


async def test_a_subagent_whose_stream_is_late_is_not_taken_for_one_at_rest(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = LiveTask._pump

    async def late_for_subagents(live: LiveTask, session: str) -> None:
        if not session.startswith("session-"):
            await anyio.sleep(1)
        await original(live, session)

    monkeypatch.setattr(LiveTask, "_pump", late_for_subagents)
    work = tool("bash", command="sleep 0.3", description="d")
    task = await desk.task(work + with_child("[[slow: 0.8 child one two]]"))
    waited = await desk.wait(task)
    assert (waited.timed_out, waited.execution) == (False, "turn_completed")
    assert await desk.turn_ends(task) == ["completed", "completed"]
    assert (waited.final_message or "").startswith("Done: Background subagent")
