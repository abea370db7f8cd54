"""Which wire a Host speaks, told from two plain reads without credentials (dsh-wire section 2)."""

from typing import Literal

Wire = Literal["remote", "legacy"]

PROBE_PATHS = ("/api/events.mux", "/api/remote.mux")
"""Plain GETs; neither changes anything, and no credential is sent along."""

_ANSWERS: dict[tuple[int, int], Wire] = {(401, 401): "remote", (426, 404): "legacy"}


def wire_from_probes(events_mux: int, remote_mux: int) -> Wire | None:
    """The wire that answers these two HTTP statuses to PROBE_PATHS, or None for anything else."""
    return _ANSWERS.get((events_mux, remote_mux))
