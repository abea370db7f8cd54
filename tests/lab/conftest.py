from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentlink.lab import Lab, LabModel
from tests.lab.client import HostClient


@pytest.fixture(scope="session")
def running(real_lab: Lab) -> Lab:
    """One Host and its model for all tests that do not stop them."""
    return real_lab


@pytest.fixture
def client(running: Lab) -> Iterator[HostClient]:
    with HostClient(running.host.origin, running.host.launch_url) as logged_in:
        yield logged_in


@pytest.fixture
def model() -> Iterator[LabModel]:
    with LabModel.start() as started:
        yield started
