"""The whole application under everything at once: kills, lost answers, full disks, Hosts that come and go."""

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.sim.crash import Plan
from tests.sim.test_crash_sweep import EVENTS
from tests.sim.world import World

MOMENT = st.one_of(st.none(), st.integers(0, 70))
ACT = st.sampled_from(["crash", "crash", "lose", "disk"])
KEYS = st.sampled_from([None, None, "a", "b"])
DIRECTORIES = st.sampled_from(["", "/one", "/two"])


class Application(RuleBasedStateMachine):
    """Every rule is one process, or one thing that happens to the Host."""

    def __init__(self) -> None:
        super().__init__()
        shm = Path("/dev/shm")
        self.directory = Path(tempfile.mkdtemp(prefix="agentlink-", dir=shm if os.access(shm, os.W_OK) else None))
        self.world = World(self.directory / "home")

    def run_(self, work: Callable[[], Awaitable[Any]]) -> None:
        async def call() -> None:
            await work()

        anyio.run(call)

    @initialize(segment_bytes=st.sampled_from([None, 600, 2_000]), pickup_s=st.sampled_from([0.001, 0.02, 3.0]))
    def begin(self, segment_bytes: int | None, pickup_s: float) -> None:
        self.world = World(self.directory / "home", segment_bytes=segment_bytes, pickup_s=pickup_s)
        for name in ("one", "two"):
            (self.directory / "home" / name).mkdir()

    @rule(at=MOMENT, act=ACT, key=KEYS, where=DIRECTORIES, late_s=st.sampled_from([0.0, 0.0, 1.0]))
    def delegate(self, at: int | None, act: str, key: str | None, where: str, late_s: float) -> None:
        cwd = f"{self.directory}/home{where}"
        # A key stands for one request: the same key always asks for the same directory.
        cwd = f"{self.directory}/home" if key is not None else cwd
        self.run_(lambda: self.world.delegate(Plan(at, act=act), key=key, cwd=cwd, late_s=late_s))

    @rule(at=MOMENT, act=ACT, key=KEYS, late_s=st.sampled_from([0.0, 0.0, 1.0]))
    def follow_up(self, at: int | None, act: str, key: str | None, late_s: float) -> None:
        self.run_(lambda: self.world.follow_up(Plan(at, act=act), key=key, late_s=late_s))

    @rule(at=MOMENT, act=ACT)
    def look(self, at: int | None, act: str) -> None:
        self.run_(lambda: self.world.look(Plan(at, act=act)))

    @rule(at=MOMENT, act=ACT)
    def recover(self, at: int | None, act: str) -> None:
        self.run_(lambda: self.world.recover_everything(Plan(at, act=act)))

    @rule(at=MOMENT)
    def release(self, at: int | None) -> None:
        self.run_(lambda: self.world.release(Plan(at)))

    @rule(event=st.sampled_from(sorted(EVENTS)))
    def something_happens_to_the_host(self, event: str) -> None:
        EVENTS[event](self.world)

    @rule()
    def host_goes_down(self) -> None:
        self.world.host.kill()

    @rule()
    def host_comes_back(self) -> None:
        if not self.world.host.up:
            self.world.host.restart()

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.3, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @rule(hour=st.integers(0, 23))
    def the_wall_clock_is_corrected(self, hour: int) -> None:
        self.world.wall_clock = f"2026-01-01T{hour:02}:00:00.000Z"

    @invariant()
    def no_prompt_ran_twice(self) -> None:
        twice = {request: times for request, times in self.world.host.runs.items() if request and times > 1}
        assert not twice

    def teardown(self) -> None:
        try:
            self.run_(self.world.settle)
            self.run_(self.world.check)
            self.run_(self.world.recover_everything)
            self.run_(self.world.settle)
            self.run_(self.world.check)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


TestApplication = Application.TestCase
TestApplication.settings = settings(
    max_examples=25, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
