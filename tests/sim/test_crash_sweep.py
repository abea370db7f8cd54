"""A process killed at every moment of a delegation, with everything a Host can do meanwhile, then recovered."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.sim.crash import Plan
from tests.sim.world import World


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """On a memory file system where there is one: thousands of journals are written."""
    shm = Path("/dev/shm")
    if sys.platform == "linux" and os.access(shm, os.W_OK):
        path = shm / f"agentlink-{os.getpid()}-{tmp_path.name}"
        yield path
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        yield tmp_path / "world"


def nothing(_: World) -> None:
    return


def kill_and_restart(world: World) -> None:
    world.host.kill()
    world.host.restart()


def terminate_and_restart(world: World) -> None:
    world.host.terminate()
    world.host.restart()


def person_selects(world: World) -> None:
    for name, session in world.host.sessions.items():
        if name != "session-old" and not session.has_turns():
            world.host.select(name, "team")


def person_prompts(world: World) -> None:
    for name in list(world.host.sessions):
        if name != "session-old":
            world.host.prompt(name, None)


def person_removes(world: World) -> None:
    for name in list(world.host.sessions):
        world.host.remove_waiting(name)


EVENTS: dict[str, Callable[[World], None]] = {
    event.__name__: event
    for event in (nothing, kill_and_restart, terminate_and_restart, person_selects, person_prompts, person_removes)
}
DELAYS_S = (0.0, 0.03, 0.3, 5.0)


async def moments_of_a_delegation(
    directory: Path, *, key: str | None = None, act: str = "crash", segment_bytes: int | None = None
) -> list[str]:
    plan = Plan(act=act)
    await World(directory, segment_bytes=segment_bytes).delegate(plan, key=key)
    return plan.names


async def sweep(
    directory: Path,
    totals: Counter[str],
    *,
    events: tuple[str, ...],
    delays: tuple[float, ...],
    segment_bytes: int | None = None,
    automatic: bool = False,
) -> None:
    """Every moment × every event × every delay, each followed by a look and a recovery."""
    counting = Plan()
    await World(directory, segment_bytes=segment_bytes, automatic=automatic).delegate(counting)
    names = counting.names
    for at in range(len(names)):
        for event in events:
            for delay in delays:
                world = World(directory, segment_bytes=segment_bytes, automatic=automatic)
                await world.delegate(Plan(at))
                world.clock.advance(delay)
                EVENTS[event](world)
                await finish(world, totals, f"{names[at]}, {delay} s, {event}")


async def finish(world: World, totals: Counter[str], story: str) -> None:
    try:
        await world.settle()
        await world.check()
        await world.recover_everything()
        await world.settle()
        await world.check()
    except AssertionError as error:
        raise AssertionError(f"{story}: {error}") from error
    totals["runs"] += 1
    totals.update(world.outcomes)


async def test_a_delegation_passes_all_kinds_of_moments(directory: Path) -> None:
    names = await moments_of_a_delegation(directory)
    assert {name.split()[0] for name in names} == {"before", "sent", "answered", "line", "head"}
    assert len(names) > 45


async def test_killed_at_every_moment_a_launch_is_recovered_without_loss_or_double(directory: Path) -> None:
    totals: Counter[str] = Counter()
    await sweep(directory, totals, events=("nothing", "kill_and_restart"), delays=(0.0, 0.3))
    assert totals["runs"] > 180


@requirement("FR-12")
async def test_killed_at_every_moment_of_an_automatic_launch_nothing_is_lost_or_doubled(directory: Path) -> None:
    totals: Counter[str] = Counter()
    await sweep(directory, totals, events=("nothing", "kill_and_restart"), delays=(0.0,), automatic=True)
    assert totals["runs"] > 100


async def test_killed_at_every_moment_while_segments_begin_in_the_middle_of_the_launch(directory: Path) -> None:
    names = await moments_of_a_delegation(directory, segment_bytes=700)
    assert {"segment not begun", "segment torn", "segment begun"} <= set(names)
    totals: Counter[str] = Counter()
    await sweep(directory, totals, events=("kill_and_restart",), delays=(0.3,), segment_bytes=700)
    assert totals["runs"] == len(names)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_killed_at_every_moment_with_every_event_and_delay(directory: Path) -> None:
    totals: Counter[str] = Counter()
    await sweep(directory, totals, events=tuple(EVENTS), delays=DELAYS_S)
    print(dict(totals))
    assert totals["runs"] > 1000


async def twice(directory: Path, totals: Counter[str], *, step: int, event: str) -> None:
    """Killed at every moment, and the process that recovers it killed at every moment too."""
    names = await moments_of_a_delegation(directory)
    for first in range(0, len(names), step):
        second = 0
        while True:
            world = World(directory)
            await world.delegate(Plan(first))
            EVENTS[event](world)
            plan = Plan(second)
            await world.recover_everything(plan)
            story = f"{names[first]}, {event}, then {plan.names[-1] if plan.names else 'nothing'}"
            await finish(world, totals, story)
            if not plan.done:
                break
            second += step


async def test_killed_again_in_the_recovery_nothing_is_lost_or_doubled(directory: Path) -> None:
    totals: Counter[str] = Counter()
    await twice(directory, totals, step=5, event="nothing")
    assert totals["runs"] > 50


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("event", ["nothing", "kill_and_restart"])
async def test_killed_again_at_every_moment_of_the_recovery(directory: Path, event: str) -> None:
    totals: Counter[str] = Counter()
    await twice(directory, totals, step=1, event=event)
    print(dict(totals))
    assert totals["runs"] > 1000


@pytest.mark.parametrize("late_s", [0.5, 2.5])
async def test_a_request_that_arrives_after_its_sender_died_is_seen_before_absence_is_proven(
    directory: Path, late_s: float
) -> None:
    names = await moments_of_a_delegation(directory)
    totals: Counter[str] = Counter()
    for at in (number for number, name in enumerate(names) if name in ("sent create_session", "sent send_prompt")):
        for looks in (0, 1):
            world = World(directory)
            await world.delegate(Plan(at), late_s=late_s)
            for _ in range(looks):
                await world.look()
            await finish(world, totals, f"{names[at]} arrives {late_s} s late, {looks} looks")
    assert totals["runs"] == 4


@pytest.mark.parametrize("event", ["nothing", "kill_and_restart", "person_removes"])
async def test_a_lost_answer_at_any_call_is_settled_by_the_driver_itself(directory: Path, event: str) -> None:
    names = await moments_of_a_delegation(directory)
    totals: Counter[str] = Counter()
    for at in (number for number, name in enumerate(names) if name.startswith("sent ")):
        world = World(directory)
        await world.delegate(Plan(at, act="lose"))
        EVENTS[event](world)
        await finish(world, totals, f"{names[at]} loses its answer, {event}")
    assert totals["runs"] == 4


@requirement("FR-12")
async def test_a_disk_that_fails_at_any_line_stops_the_launch_before_the_effect(directory: Path) -> None:
    names = await moments_of_a_delegation(directory, act="disk")
    totals: Counter[str] = Counter()
    for at in (number for number, name in enumerate(names) if name in ("no space", "flush failed")):
        world = World(directory)
        await world.delegate(Plan(at, act="disk"))
        await finish(world, totals, f"{names[at]} at moment {at}")
    assert totals["runs"] == 12
    assert totals["journal_unwritable"] > 0


async def test_a_repeated_request_key_after_any_kill_ends_in_one_prompt(directory: Path) -> None:
    names = await moments_of_a_delegation(directory, key="k")
    totals: Counter[str] = Counter()
    for at in range(len(names)):
        world = World(directory)
        await world.delegate(Plan(at), key="k")
        await world.delegate(Plan(), key="k")
        await world.delegate(Plan(), key="k")
        assert sum(world.host.runs.values()) <= 1
        await world.settle()
        await world.check()
        views = await world.views(world.runtime())
        assert len(views) == 1, names[at]
        assert sum(world.host.runs.values()) == 1, names[at]
        totals["runs"] += 1
    assert totals["runs"] == len(names)


async def test_a_removal_that_the_host_may_still_forget_settles_nothing(directory: Path) -> None:
    """Removed a moment ago and not yet on disk: a killed Host brings the waiting prompt back."""
    world = World(directory, pickup_s=1000)
    await world.delegate(Plan())
    world.clock.advance(5)
    person_removes(world)
    await world.look()
    kill_and_restart(world)
    world.clock.advance(5)
    await world.look()
    views = await world.views(world.runtime())
    assert [view.launch.state for view in views] == ["prompt-sent"]
    await world.check()


async def test_a_prompt_that_arrives_after_its_absence_was_proven_is_found_and_not_sent_again(directory: Path) -> None:
    """The one gap that no client can close: the recovery looks before it sends (rule 9)."""
    names = await moments_of_a_delegation(directory)
    world = World(directory)
    await world.delegate(Plan(names.index("sent send_prompt")), late_s=20)
    await world.look()
    assert [view.launch.code for view in await world.views(world.runtime())] == ["interrupted"]
    world.clock.advance(30)
    plan = Plan()
    await world.recover_everything(plan)
    assert "answered send_prompt" not in plan.names
    await world.settle()
    await world.check()
