"""The same questions to a simulated and to the real Host: what both must answer alike."""

import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from agentlink.app.ports import Host
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import CookieFiles
from agentlink.lab import Lab
from tests.fakes.sim_host import SimClock, SimHost, SimLink


class Subject:
    """A Host under test: the port, and the hands that act on the Host from outside."""

    def __init__(self, host: Host, cwd: str, session: str) -> None:
        self.host = host
        self.cwd = cwd
        self.session = session

    async def select(self, preset: str) -> None:
        """A person selects another preset in the Host's page."""
        raise NotImplementedError

    async def kill_and_restart(self) -> None:
        raise NotImplementedError

    async def until(self, found: Callable[[], Awaitable[Any]]) -> Any:
        """Waits, in the Host's own time, until something truthy is found."""
        raise NotImplementedError


class Simulated(Subject):
    def __init__(self, cwd: str, session: str) -> None:
        self.clock = SimClock()
        self.sim = SimHost(self.clock)
        super().__init__(SimLink(self.sim), cwd, session)  # type: ignore[arg-type]

    async def select(self, preset: str) -> None:
        self.sim.select(self.session, preset)

    async def kill_and_restart(self) -> None:
        self.sim.kill()
        self.sim.restart()

    async def until(self, found: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(400):
            if result := await found():
                return result
            self.clock.advance(0.05)
        raise AssertionError("never happened")


class Real(Subject):
    def __init__(self, running: Lab, host: RemoteHost, cwd: str, session: str) -> None:
        self._running = running
        self._remote = host
        super().__init__(host, cwd, session)

    async def select(self, preset: str) -> None:
        await self._remote._read("agentPresets/select", {"agentId": self.session, "agentPreset": preset})

    async def kill_and_restart(self) -> None:
        await run_sync(self._running.host.kill)
        await run_sync(self._running.host.restart)

    async def until(self, found: Callable[[], Awaitable[Any]]) -> Any:
        with anyio.fail_after(20):
            while not (result := await found()):
                await anyio.sleep(0.05)
            return result


_numbers = itertools.count(1)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.host)])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    session = f"session-contract-{next(_numbers)}-{secrets.token_hex(4)}"
    if request.param == "simulated":
        yield Simulated(f"/workspace/{session}", session)
        return
    running: Lab = request.getfixturevalue("own_lab")
    cwd = running.host.workspace / session
    cwd.mkdir()
    host = RemoteHost(label="default", origin=running.host.origin, cookies=CookieFiles(tmp_path))
    await host.login(running.host.launch_url.partition("token=")[2])
    yield Real(running, host, str(cwd), session)
    await host.aclose()
