"""Stopping a task on the real Host: what a cancel ends, what it leaves, and how a turn that ends badly is told."""

from __future__ import annotations

import anyio
import pytest

from agentlink.app import settle
from agentlink.app.cancel import cancel
from agentlink.app.followup import FollowUp, follow_up
from agentlink.app.release import release_workspace
from agentlink.core.errors import Code
from agentlink.core.ids import TaskId
from tests.app.supervised import Desk, Person, refused, until, with_child
from tests.requirements import requirement

pytestmark = pytest.mark.host


async def with_two_queued(desk: Desk) -> tuple[TaskId, list[str]]:
    task = await desk.task("[[slow: 20 a b c d]]", preset="minimal")
    await desk.at(task, "running")
    queued = [(await follow_up(desk.runtime, task, FollowUp(prompt=f"[[say: queued {n}]]"))).request_id for n in (1, 2)]
    return task, queued


@requirement("FR-13")
async def test_f10b_a_cancel_ends_the_turn_and_names_the_parked_prompts_which_run_before_the_next_one(
    desk: Desk,
) -> None:
    task, queued = await with_two_queued(desk)
    first = await cancel(desk.runtime, task)
    assert (first.turn_canceled, first.execution, list(first.parked)) == (True, "canceled", queued)
    second = await cancel(desk.runtime, task)
    assert (second.turn_canceled, second.execution, list(second.parked)) == (False, "canceled", queued)
    waited = await desk.wait(task)
    assert (waited.execution, waited.queued, waited.parked, waited.final_message) == ("canceled", 0, 2, None)
    status = await desk.status(task)
    assert (status.execution, status.parked) == ("canceled", 2)
    await follow_up(desk.runtime, task, FollowUp(prompt="[[say: next]]"))

    async def all_ran() -> bool:
        return len(await desk.messages(task)) == 4

    await until(all_ran)
    waited = await desk.wait(task)
    assert (waited.final_message, waited.parked) == ("next", 0)
    assert [text for _, text in await desk.messages(task)][1:] == [
        "[[say: queued 1]]", "[[say: queued 2]]", "[[say: next]]",
    ]  # fmt: skip


async def test_f10b_parked_prompts_are_removed_and_counted_and_never_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "QUIET_S", 0.3)
    task, _ = await with_two_queued(desk)
    await cancel(desk.runtime, task)
    removed = await cancel(desk.runtime, task, scope="queue")
    assert removed.queue is not None
    assert (removed.queue.requested, removed.queue.removed, removed.queue.already_taken, removed.queue.failed) == (
        2, 2, 0, 0,
    )  # fmt: skip
    assert (removed.turn_canceled, removed.parked) == (False, ())
    again = await cancel(desk.runtime, task, scope="queue")
    assert again.queue is not None
    assert again.queue.requested == 0
    await follow_up(desk.runtime, task, FollowUp(prompt="[[say: next]]"))
    await desk.at(task, "turn_completed")
    assert [text for _, text in await desk.messages(task)][1:] == ["[[say: next]]"]

    async def all_settled() -> bool:
        return (await desk.status(task)).open_writes == ()

    await until(all_settled)


async def test_emptying_the_queue_leaves_the_running_turn_and_somebody_elses_parked_prompt_is_named(
    desk: Desk, person: Person
) -> None:
    task = await desk.task("[[slow: 1 one two]]", preset="minimal")
    await desk.at(task, "running")
    await follow_up(desk.runtime, task, FollowUp(prompt="queued"))
    removed = await cancel(desk.runtime, task, scope="queue")
    assert removed.queue is not None
    assert (removed.queue.removed, removed.execution, removed.turn_canceled) == (1, "running", False)
    await person.says(await desk.session(task), "[[slow: 20 theirs]]")

    async def theirs_runs() -> bool:
        return len(await desk.messages(task)) == 2

    await until(theirs_runs)
    await person.says(await desk.session(task), "parked of theirs")
    canceled = await cancel(desk.runtime, task)
    assert (canceled.turn_canceled, canceled.parked) == (True, ("person-2",))


async def test_a_slow_answer_is_stopped_and_what_it_said_until_then_is_no_final_message(desk: Desk) -> None:
    task = await desk.task("[[slow: 20 many words of an answer that never ends]]", preset="minimal")

    async def waiter() -> None:
        waited = await desk.wait(task)
        assert (waited.execution, waited.final_message) == ("canceled", None)
        assert waited.final_message_missing == "turn_ended_without_message"

    async with anyio.create_task_group() as group:
        group.start_soon(waiter)
        await desk.at(task, "running")
        await cancel(desk.runtime, task)
    assert await desk.turn_ends(task) == ["aborted"]


@pytest.mark.parametrize(
    ("prompt", "execution", "final", "code"),
    [
        ("[[error: 400]]", "failed", None, "INVALID_REQUEST"),
        ("[[max-tokens: cut here]]", "turn_incomplete", "cut here", None),
    ],
)
async def test_a_turn_that_ends_badly_is_told_as_what_it_was(
    desk: Desk, prompt: str, execution: str, final: str | None, code: str | None
) -> None:
    task = await desk.task(prompt, preset="minimal")
    waited = await desk.wait(task)
    assert (waited.execution, waited.final_message, waited.error_code) == (execution, final, code)
    status = await desk.status(task)
    assert (status.execution, status.final_message, status.error_code) == (execution, final, code)
    assert (status.final_message_missing is None) is (final is not None)


async def test_everything_stops_with_the_subagents_and_stays_quiet(desk: Desk) -> None:
    task = await desk.task(with_child("[[slow: 20 child one two]]"))
    status = await desk.at(task, "children_running")
    (child,) = status.children_running
    await follow_up(desk.runtime, task, FollowUp(prompt="[[slow: 20 working]]"))
    await desk.at(task, "running")
    await follow_up(desk.runtime, task, FollowUp(prompt="never"))
    turn = await cancel(desk.runtime, task)
    assert (turn.turn_canceled, turn.children_running, len(turn.parked)) == (True, (child,), 1)
    everything = await cancel(desk.runtime, task, scope="all")
    assert (everything.children_running, everything.parked) == ((), ())
    assert everything.queue is not None
    assert everything.queue.removed == 1
    log = await desk.log(task)
    with anyio.move_on_after(2.5):
        while True:
            status = await desk.status(task)
            assert status.execution in ("canceled", "turn_completed")
            assert status.children_running == ()
            await anyio.sleep(0.2)
    assert await desk.log(task) == log, "nothing goes on"
    assert "never" not in [text for _, text in await desk.messages(task)]


async def test_a_canceled_parent_is_woken_by_its_subagent_and_the_cancel_says_that_it_runs(desk: Desk) -> None:
    task = await desk.task(with_child("[[slow: 0.8 child one two]]"))
    await desk.at(task, "children_running")
    canceled = await cancel(desk.runtime, task)
    assert (canceled.turn_canceled, canceled.execution) == (False, "children_running")
    assert len(canceled.children_running) == 1
    waited = await desk.wait(task)
    assert waited.execution == "turn_completed"
    assert await desk.turn_ends(task) == ["completed", "completed"]


async def test_a_cancel_needs_no_claim_and_a_task_without_a_prompt_has_nothing_to_stop(desk: Desk) -> None:
    task = await desk.task("[[slow: 20 a b]]", preset="minimal")
    await release_workspace(desk.runtime, task, force=True)
    assert (await cancel(desk.runtime, task)).turn_canceled is True
    failure = await refused(desk.task("x", preset="broken-one"))
    refusal = await refused(cancel(desk.runtime, TaskId(failure.task or "")))
    assert refusal.code is Code.NOT_PROMPTED


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_many_cancels_at_every_moment_of_a_turn_end_as_canceled_or_completed(desk: Desk) -> None:
    for number in range(40):
        task = await desk.task("[[slow: 0.3 one two three]]", preset="minimal")
        await anyio.sleep(number * 0.015)
        canceled = await cancel(desk.runtime, task)
        waited = await desk.wait(task)
        assert waited.execution in ("canceled", "turn_completed")
        assert not canceled.turn_canceled or waited.execution == canceled.execution
