from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.wire.detect import wire_from_probes


@pytest.mark.parametrize(
    ("events_mux", "remote_mux", "wire"),
    [
        (401, 401, "remote"),
        (426, 404, "legacy"),
        (404, 404, None),
        (401, 404, None),
        (426, 401, None),
        (200, 200, None),
        (403, 403, None),
        (502, 502, None),
    ],
)
def test_two_statuses_tell_the_wire_or_nothing(events_mux: int, remote_mux: int, wire: str | None) -> None:
    assert wire_from_probes(events_mux, remote_mux) == wire


@given(st.integers(100, 599), st.integers(100, 599))
def test_no_other_pair_of_statuses_is_taken_for_a_wire(events_mux: int, remote_mux: int) -> None:
    if (events_mux, remote_mux) not in ((401, 401), (426, 404)):
        assert wire_from_probes(events_mux, remote_mux) is None
