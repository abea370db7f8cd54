"""What tests of the command line start from."""

from __future__ import annotations

import pytest

from agentlink.lab import Lab
from tests.cli.tasks import Tasks


@pytest.fixture
def tasks(real_lab: Lab, host_env: dict[str, str]) -> Tasks:
    """Tasks on the real Host, and the command lines that work with them."""
    return Tasks(real_lab, host_env)
