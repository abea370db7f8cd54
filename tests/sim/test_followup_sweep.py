"""A process killed at every moment of a follow-up, with everything a Host can do meanwhile, then settled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from agentlink.app.status import task_status
from tests.sim.crash import Plan
from tests.sim.test_crash_sweep import EVENTS, directory
from tests.sim.world import World

__all__ = ["directory"]

HARMLESS = ("nothing", "kill_and_restart", "terminate_and_restart", "person_prompts", "person_removes")


async def prompted(directory: Path) -> World:
    """A world with one delegated task whose turn is over, and confirmed."""
    world = World(directory)
    await world.delegate(Plan())
    world.clock.advance(5)
    await world.look()
    return world


async def sweep(
    directory: Path,
    *,
    events: tuple[str, ...],
    delays: tuple[float, ...],
    act: str = "crash",
    key: str | None = None,
    late_s: float = 0.0,
) -> Counter[str]:
    """Every moment of a follow-up × every event × every delay, each followed by looks, and a second follow-up."""
    counting = Plan(act=act)
    await (await prompted(directory)).follow_up(counting, key=key)
    totals: Counter[str] = Counter()
    for at in range(len(counting.names)):
        for event in events:
            for delay in delays:
                world = await prompted(directory)
                await world.follow_up(Plan(at, act=act), key=key, late_s=late_s)
                world.clock.advance(delay)
                EVENTS[event](world)
                try:
                    await world.settle()
                    await world.check()
                    await world.follow_up(Plan(), key=key)
                    await world.settle()
                    await world.check()
                except AssertionError as error:
                    raise AssertionError(f"{counting.names[at]}, {delay} s, {event}, key {key}: {error}") from error
                totals["runs"] += 1
                totals.update(world.outcomes)
    return totals


@pytest.mark.parametrize("key", [None, "k"])
async def test_killed_at_every_moment_a_follow_up_is_settled_without_loss_or_double(
    directory: Path, key: str | None
) -> None:
    totals = await sweep(directory, events=("nothing", "kill_and_restart"), delays=(0.0, 0.3), key=key)
    assert totals["runs"] >= 60


@pytest.mark.parametrize("late_s", [0.0, 1.0])
async def test_a_follow_up_whose_answer_is_lost_is_settled_from_the_history(directory: Path, late_s: float) -> None:
    totals = await sweep(directory, events=("nothing",), delays=(0.0,), act="lose", late_s=late_s)
    assert totals["runs"] >= 12


async def test_a_follow_up_on_a_full_disk_is_never_sent_without_its_intent(directory: Path) -> None:
    totals = await sweep(directory, events=("nothing",), delays=(0.0,), act="disk")
    assert totals["journal_unwritable"] > 0


async def test_a_follow_up_that_died_with_its_host_is_told_by_the_next_status(directory: Path) -> None:
    world = await prompted(directory)
    answer = await world.follow_up(Plan())
    world.host.kill()
    world.host.restart()
    runtime = world.runtime()
    (view,) = await world.views(runtime)
    began = world.clock.now()
    status = await task_status(runtime, view.task)
    assert [(one.request_id, one.outcome) for one in status.undelivered] == [(answer.request_id, "lost")]
    assert status.execution == "turn_completed"  # the turn before it, which is why it has to be said
    assert world.clock.now() - began < 1, "the Host had answered: there is nothing to wait for"
    await world.follow_up(Plan())
    world.clock.advance(5)
    assert (await task_status(world.runtime(), view.task)).undelivered == ()


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("late_s", [0.0, 1.0])
async def test_every_moment_with_every_event(directory: Path, key: str | None, late_s: float) -> None:
    totals = await sweep(directory, events=HARMLESS, delays=(0.0, 0.03, 0.3, 5.0), key=key, late_s=late_s)
    print(f"follow-ups, key {key}, late {late_s} s: {dict(totals)}")
    assert totals["runs"] >= 300
