"""One real Host with a scripted model per test process; a home and a directory of its own for each test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from agentlink.lab import Lab, lab

settings.register_profile("quick", max_examples=40)
settings.register_profile("thorough", max_examples=400, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

_OURS = ("AGENTLINK_", "DSH_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "PYTHON")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def real_lab() -> Iterator[Lab]:
    """The Host that this process's tests share. Whoever pauses or restarts it leaves it running."""
    with lab() as running:
        yield running


@pytest.fixture(scope="session")
def own_lab() -> Iterator[Lab]:
    """A Host that tests may freeze, kill and restart; whoever does leaves it running."""
    with lab() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An AGENTLINK_HOME that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
def workspace(real_lab: Lab) -> Path:
    """A directory that only this test claims, where the Host's sandbox shows it."""
    directory = real_lab.host.workspace / f"w-{secrets.token_hex(4)}"
    directory.mkdir()
    return directory


@pytest.fixture
def bare_env(home: Path) -> dict[str, str]:
    """An environment with this test's home and nothing of the person's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(_OURS)}
    return kept | {"AGENTLINK_HOME": str(home)}


@pytest.fixture
def host_env(real_lab: Lab, bare_env: dict[str, str]) -> dict[str, str]:
    """The same, with the launch address that the real Host printed."""
    return bare_env | {"AGENTLINK_HOST_URL": real_lab.host.launch_url}
