from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentlink.lab import Lab, LabModel, lab
from tests.lab.client import HostClient


@pytest.fixture(scope="session")
def running() -> Iterator[Lab]:
    """One Host and its model for all tests that do not stop them."""
    with lab() as started:
        yield started


@pytest.fixture
def client(running: Lab) -> Iterator[HostClient]:
    with HostClient(running.host.origin, running.host.launch_url) as logged_in:
        yield logged_in


@pytest.fixture
def model() -> Iterator[LabModel]:
    with LabModel.start() as started:
        yield started
