"""A Host that ends in mid-turn and comes back: everything is told as it was left, and nothing hangs.

One story for each way to end it (SIGTERM, SIGKILL), told once; the tests look at what it left.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from agentlink.app import wait as wait_module
from agentlink.app.answer import answer_question, resolve_approval
from agentlink.app.followup import FollowedUp, FollowUp, follow_up
from agentlink.app.results import TaskStatus
from agentlink.app.tail import Tailed, tail
from agentlink.app.wait import Waited
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import WriteSettled
from agentlink.core.host.values import Event
from agentlink.core.ids import TaskId
from agentlink.core.supervision.cursor import decode
from agentlink.core.supervision.interactions import Answer
from agentlink.lab import Lab
from tests.app.supervised import Desk, asking, desk_at, escalating, until, with_child

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

NAMES = ("slow", "approval", "question", "parent", "queued", "fresh")
KEYED = FollowUp(prompt="[[slow: 20 keyed]]", request_key="k")


@dataclass
class Story:
    """What a caller saw before, while and after the Host was away."""

    killed: bool
    tasks: dict[str, TaskId] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)
    log_before: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    log_after: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    waited: dict[str, Waited] = field(default_factory=dict)
    waits_took_s: float = 0
    status_down: dict[str, TaskStatus] = field(default_factory=dict)
    status_after: dict[str, TaskStatus] = field(default_factory=dict)
    tail_after: dict[str, Tailed] = field(default_factory=dict)
    refusals: dict[str, Failure] = field(default_factory=dict)
    keyed: list[FollowedUp] = field(default_factory=list)
    turned: dict[str, Waited] = field(default_factory=dict)
    messages: dict[str, list[str]] = field(default_factory=dict)


async def tell(desk: Desk, story: Story) -> None:
    runtime, host = desk.runtime, desk.lab.host
    prompts = {
        "slow": "[[slow: 40 a b c d e f g h]]",
        "approval": escalating(),
        "question": asking(),
        "parent": with_child("[[slow: 40 a b c d]]"),
        "queued": "[[slow: 40 a b c d]]",
        "fresh": "[[say: first]]",
    }

    async def delegate(name: str) -> None:
        story.tasks[name] = await desk.task(prompts[name])

    await for_each(prompts, delegate)
    tasks = story.tasks
    await desk.at(tasks["slow"], "running")
    for name, execution in (("approval", "awaiting_approval"), ("question", "awaiting_input")):
        (item,) = (await desk.at(tasks[name], execution)).pending
        story.pending[name] = item.request_id
    await desk.at(tasks["parent"], "children_running")
    await desk.done(tasks["fresh"])
    for number in (1, 2):
        await follow_up(runtime, tasks["queued"], FollowUp(prompt=f"[[say: queued {number}]]"))
    await anyio.sleep(0.5)  # the Host writes its log to the disk every 200 ms
    began = time.monotonic()
    async with anyio.create_task_group() as waits:

        async def wait(name: str) -> None:
            story.waited[name] = await desk.wait(tasks[name], timeout_s=30)

        for name in ("slow", "parent", "queued"):
            waits.start_soon(wait, name)
        for name, task in tasks.items():
            if name == "fresh":
                story.keyed.append(await follow_up(runtime, task, KEYED))
            story.cursors[name] = (await tail(runtime, task)).cursor
            story.log_before[name] = await desk.log(task)
        await run_sync(host.kill if story.killed else host.terminate)
        for name in ("slow", "approval"):
            story.status_down[name] = await desk.status(tasks[name])
        await run_sync(host.restart)
    story.waits_took_s = time.monotonic() - began

    async def look(name: str) -> None:
        story.status_after[name] = await desk.status(tasks[name])
        story.log_after[name] = await desk.log(tasks[name])
        story.tail_after[name] = await tail(runtime, tasks[name], cursor=story.cursors[name])

    await for_each(tasks, look)
    story.refusals["approval"] = await _refusal(
        resolve_approval(runtime, tasks["approval"], story.pending["approval"], "allow_once")
    )
    skip = [Answer("q1"), Answer("q2"), Answer("q3")]
    story.refusals["question"] = await _refusal(
        answer_question(runtime, tasks["question"], story.pending["question"], skip)
    )
    story.keyed.append(await follow_up(runtime, tasks["fresh"], KEYED))
    for name in NAMES:
        await follow_up(runtime, tasks[name], FollowUp(prompt=f"[[say: {name} goes on]]"))

    async def last_ran(name: str) -> bool:
        story.messages[name] = [text for _, text in await desk.messages(tasks[name])]
        return f"[[say: {name} goes on]]" in story.messages[name]

    async def go_on(name: str) -> None:
        await until(lambda: last_ran(name))
        story.turned[name] = await desk.wait(tasks[name])

    await for_each([name for name in NAMES if name != "fresh"], go_on)
    await last_ran("fresh")


def is_lost(task: TaskId, cursor: str, before: tuple[Event, ...], after: tuple[Event, ...]) -> bool:
    """Whether the event at which the cursor stands did not survive."""
    seq = decode(cursor, task=task).root.seq
    return [event for event in before if event.seq == seq] != [event for event in after if event.seq == seq]


async def for_each(names: Iterable[str], do: Callable[[str], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(do, name)


async def _refusal(call: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await call
    return caught.value


@pytest.fixture(scope="module", params=[pytest.param("SIGTERM", marks=pytest.mark.soak), "SIGKILL"])
async def story(request: pytest.FixtureRequest, own_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    home = tmp_path_factory.mktemp("home")
    environment = {"AGENTLINK_HOME": str(home / "state"), "AGENTLINK_HOST_URL": own_lab.host.launch_url}
    told = Story(killed=request.param == "SIGKILL")
    async with desk_at(own_lab, environment) as desk:
        with anyio.fail_after(90):
            await tell(desk, told)
    return told


async def test_a_wait_in_flight_ends_with_the_interruption_and_never_hangs(story: Story) -> None:
    for name in ("slow", "parent", "queued"):
        waited = story.waited[name]
        assert waited.timed_out is False
        assert waited.execution in ("interrupted", "turn_completed", "unknown")
        assert waited.final_message is None or waited.execution == "turn_completed"
    assert story.waited["slow"].execution in ("interrupted", "unknown")
    assert story.waits_took_s < 25


async def test_a_host_that_is_away_is_told_as_unreachable_and_nothing_is_claimed_about_the_task(story: Story) -> None:
    for status in story.status_down.values():
        assert (status.availability, status.execution, status.pending) == ("host_unreachable", "unknown", ())
        assert status.claim.held is True


async def test_a_turn_that_was_cut_is_interrupted_and_its_subagents_are_at_rest(story: Story) -> None:
    for name in ("slow", "approval", "question", "queued"):
        assert story.status_after[name].execution == "interrupted", name
    parent = story.status_after["parent"]
    assert (parent.execution, parent.children_running) in (("turn_completed", ()), ("interrupted", ()))


async def test_f11_what_waited_for_a_person_is_gone_and_answering_it_says_not_pending(story: Story) -> None:
    for name in ("approval", "question"):
        assert story.status_after[name].pending == ()
        failure = story.refusals[name]
        assert (failure.code, failure.prompt_sent) == (Code.NOT_PENDING, False)
        assert (failure.details or {}).get("settledAs") in ("cancelled", "ASK_ABORTED", "TOOL_OUTCOME_UNKNOWN")


async def test_waiting_prompts_are_parked_after_a_kill_and_discarded_by_a_graceful_end(story: Story) -> None:
    assert story.status_after["queued"].queued == 0
    assert story.status_after["queued"].parked == (2 if story.killed else 0)
    ran = story.messages["queued"][1:]
    parked = ["[[say: queued 1]]", "[[say: queued 2]]"] if story.killed else []
    assert ran == [*parked, "[[say: queued goes on]]"]


async def test_a_tail_goes_on_with_its_old_cursor_and_says_rewound_exactly_when_something_was_lost(
    story: Story,
) -> None:
    for name in NAMES:
        told = story.tail_after[name]
        if name != "parent":
            before, after = story.log_before[name], story.log_after[name]
            assert bool(told.rewound) is is_lost(story.tasks[name], story.cursors[name], before, after), name
    kinds = [event.kind for event in story.tail_after["slow"].events]
    assert kinds[-1] == "turn_ended"


async def test_a_follow_up_right_before_the_end_is_lost_or_kept_and_the_same_key_never_runs_it_twice(
    story: Story,
) -> None:
    first, second = story.keyed
    ran = [text for text in story.messages["fresh"] if text == KEYED.prompt]
    assert len(ran) <= 2
    if second.repeated:
        assert second.request_id == first.request_id
        assert len(ran) <= 1
    else:
        assert second.request_id != first.request_id


async def test_a_task_that_was_cut_goes_on_with_the_next_prompt(story: Story) -> None:
    for name, waited in story.turned.items():
        assert (waited.execution, waited.final_message) == ("turn_completed", f"{name} goes on"), name


async def test_a_follow_up_that_dies_with_its_host_is_settled_as_what_the_log_shows_and_can_be_sent_again_once(
    own_lab: Lab, tmp_path: Path
) -> None:
    environment = {"AGENTLINK_HOME": str(tmp_path), "AGENTLINK_HOST_URL": own_lab.host.launch_url}
    cursors: dict[TaskId, str] = {}
    before: dict[TaskId, tuple[Event, ...]] = {}
    async with desk_at(own_lab, environment) as desk:
        tasks = [await desk.task("[[say: first]]", preset="minimal") for _ in range(6)]
        for task in tasks:
            await desk.done(task)
        await anyio.sleep(0.4)  # what is older than the Host's 200 ms is on the disk

        async def send(number: int, task: TaskId) -> None:
            await follow_up(desk.runtime, task, FollowUp(prompt="[[say: second]]", request_key="k"))
            if number % 2:
                cursors[task] = (await tail(desk.runtime, task)).cursor
                before[task] = await desk.log(task)

        async with anyio.create_task_group() as group:
            for number, task in enumerate(tasks):
                group.start_soon(send, number, task)
        await run_sync(own_lab.host.kill)
        await run_sync(own_lab.host.restart)
        for task, cursor in cursors.items():
            told = await tail(desk.runtime, task, cursor=cursor)
            assert bool(told.rewound) is is_lost(task, cursor, before[task], await desk.log(task))

        async def settle_and_send_again(task: TaskId) -> None:
            async def settled() -> bool:
                return (await desk.status(task)).open_writes == ()

            await until(settled)
            lines = await desk.runtime.store.history(task)
            outcomes = [fact.outcome for line in lines for fact in line.facts if isinstance(fact, WriteSettled)]
            reached = len(await desk.messages(task)) == 2
            assert outcomes[0] == "receipt"
            assert outcomes[-1] in (("history",) if reached else ("lost", "consumed", "discarded"))
            again = await follow_up(desk.runtime, task, FollowUp(prompt="[[say: second]]", request_key="k"))
            assert again.repeated is reached

            async def has_reached() -> bool:
                return len(await desk.messages(task)) >= 2

            await until(has_reached)
            await desk.done(task)
            assert [text for _, text in await desk.messages(task)] == ["[[say: first]]", "[[say: second]]"]

        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(settle_and_send_again, task)


async def test_f14a_a_wait_on_a_frozen_host_ends_soon_after_its_time_and_sees_the_end_once_the_host_goes_on(
    own_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_module, "LOST_AFTER_S", 0.5)
    environment = {"AGENTLINK_HOME": str(tmp_path), "AGENTLINK_HOST_URL": own_lab.host.launch_url}
    async with desk_at(own_lab, environment) as desk:
        task = await desk.task("[[slow: 0.5 one two]]", preset="minimal")
        await desk.at(task, "running")
        await run_sync(own_lab.host.pause)
        try:
            for timeout_s in (0.0, 0.3, 5.0):
                began = time.monotonic()
                waited = await desk.wait(task, timeout_s=timeout_s)
                assert time.monotonic() - began < timeout_s + 3
                assert (waited.availability, waited.execution) == ("host_unreachable", "unknown")
                assert waited.timed_out is (timeout_s < 1)
        finally:
            await run_sync(own_lab.host.resume)
        waited = await desk.wait(task)
        assert (waited.execution, waited.final_message) == ("turn_completed", "one two")


async def test_a_wait_in_flight_is_told_when_the_host_stays_away(
    own_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_module, "LOST_AFTER_S", 1.0)
    environment = {"AGENTLINK_HOME": str(tmp_path), "AGENTLINK_HOST_URL": own_lab.host.launch_url}
    async with desk_at(own_lab, environment) as desk:
        task = await desk.task("[[slow: 30 one two]]", preset="minimal")
        await desk.at(task, "running")
        results: list[Waited] = []

        async def wait() -> None:
            results.append(await desk.wait(task, timeout_s=30))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(0.3)
            await run_sync(own_lab.host.kill)
        try:
            (waited,) = results
            assert (waited.timed_out, waited.availability, waited.execution) == (False, "host_unreachable", "unknown")
            assert (waited.stale_seconds or 0) >= 1
        finally:
            await run_sync(own_lab.host.restart)
        assert (await desk.wait(task)).execution == "interrupted"
