"""What the tests of the use cases share: a real Host for the whole run, a home and a workspace for each test."""

import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentlink.app.runtime import Runtime, open_runtime
from agentlink.lab import Lab
from tests.app.supervised import Desk, Person, desk_at, person_at


@pytest.fixture
def host_lab(real_lab: Lab) -> Lab:
    """The one Host of this worker."""
    return real_lab


@pytest.fixture
def workspace(host_lab: Lab) -> Path:
    """A fresh directory where the Host's sandbox can see it."""
    path = host_lab.host.workspace / f"w-{secrets.token_hex(4)}"
    path.mkdir()
    return path


@pytest.fixture
def environment(host_lab: Lab, tmp_path: Path) -> dict[str, str]:
    return {"AGENTLINK_HOME": str(tmp_path / "home"), "AGENTLINK_HOST_URL": host_lab.host.launch_url}


@pytest.fixture
async def new_runtime(environment: dict[str, str]) -> AsyncIterator[Callable[[], Runtime]]:
    """Opens a runtime as a new process would: same home, nothing remembered."""
    opened: list[Runtime] = []

    def open_one() -> Runtime:
        opened.append(open_runtime(environment))
        return opened[-1]

    yield open_one
    for runtime in opened:
        await runtime.aclose()


@pytest.fixture
def runtime(new_runtime: Callable[[], Runtime]) -> Runtime:
    return new_runtime()


@pytest.fixture
async def desk(host_lab: Lab, environment: dict[str, str]) -> AsyncIterator[Desk]:
    """A process of ours at work on that Host."""
    async with desk_at(host_lab, environment) as one:
        yield one


@pytest.fixture
async def person(host_lab: Lab, environment: dict[str, str]) -> AsyncIterator[Person]:
    """Somebody at the Host's own page."""
    async with person_at(host_lab, environment) as one:
        yield one
