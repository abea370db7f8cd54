"""Lists of many tasks: pages of bounded size that put together are everything, and one call of the Host for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentlink.app.listing import PAGE_BYTES, list_tasks
from agentlink.app.runtime import Runtime
from agentlink.core.facts.launch import LaunchFailed, LaunchRequested
from agentlink.core.host.faults import ReplyLost
from agentlink.core.ids import TaskId
from agentlink.journal.store import FileStore
from tests.fakes.sim_host import SimClock, SimHost, SimLink
from tests.sim.crash import Plan
from tests.sim.world import World


async def test_two_hundred_tasks_in_long_directories_come_in_pages_that_a_caller_takes(tmp_path: Path) -> None:
    clock = SimClock()
    store = FileStore(tmp_path, clock=lambda: "2026-01-01T00:00:00.000Z")
    runtime = Runtime(store=store, host=SimLink(SimHost(clock)), secret=lambda: b"s" * 32, clock=clock)  # type: ignore[arg-type]
    for number in range(200):
        asked = LaunchRequested(
            attempt=1, mode="manual", cwd=f"/{number}/" + "d" * 900, claim="read-only", host="default", origin="o"
        )
        failed = LaunchFailed(code="canceled", stage="requested")
        await store.append(TaskId(f"dsh_{number:012x}"), (asked, failed), expected_n=0)
    found: list[str] = []
    before: TaskId | None = None
    pages = 0
    while True:
        page = await list_tasks(runtime, limit=200, before=before)
        assert len(msgspec.json.encode(page)) <= PAGE_BYTES + 1_000
        found += [row.task_id for row in page.tasks]
        pages += 1
        if page.next is None:
            break
        before = TaskId(page.next)
    assert found == [f"dsh_{number:012x}" for number in reversed(range(200))]
    assert pages > 3


class Counting(SimLink):
    """Counts what is asked of the Host; `running` can fail."""

    def __init__(self, host: SimHost) -> None:
        super().__init__(host)
        self.asked: list[str] = []
        self.fault: Exception | None = None

    async def call(self, name: str, action: Any) -> Any:
        self.asked.append(name)
        if self.fault is not None:
            raise self.fault
        return await super().call(name, action)


@pytest.fixture
async def counted(tmp_path: Path) -> tuple[World, Runtime, Counting]:
    world = World(tmp_path / "home")
    await world.delegate(Plan())
    link = Counting(world.host)
    runtime = world.runtime()
    runtime.host = link  # type: ignore[assignment]
    return world, runtime, link


async def test_a_list_says_what_runs_by_one_call_of_the_host(counted: tuple[World, Runtime, Counting]) -> None:
    world, runtime, link = counted
    page = await list_tasks(runtime)
    assert [row.running for row in page.tasks] == [True]
    assert link.asked == ["running"]
    world.clock.advance(5)
    assert [row.running for row in (await list_tasks(runtime)).tasks] == [False]
    assert [row.stage for row in (await list_tasks(runtime)).tasks] == ["prompt-sent"]


async def test_a_host_that_does_not_answer_leaves_the_list_without_what_runs(
    counted: tuple[World, Runtime, Counting],
) -> None:
    _, runtime, link = counted
    link.fault = ReplyLost("cut")
    page = await list_tasks(runtime)
    assert [row.running for row in page.tasks] == [None]
    assert page.warnings


async def test_a_list_without_prompted_tasks_asks_the_host_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    runtime = world.runtime()
    link = Counting(world.host)
    runtime.host = link  # type: ignore[assignment]
    assert (await list_tasks(runtime)).tasks == ()
    assert link.asked == []
