"""A disposable real Host with a scripted model, for the demo, the tests and the benchmarks."""

from agentlink.lab.errors import LabBroken, LabError, LabNotInstalled
from agentlink.lab.host import Lab, LabHost, lab
from agentlink.lab.model import LabModel, Seen
from agentlink.lab.presets import (
    BROKEN,
    CHANGEABLE,
    DEFAULT_PRESETS,
    TEAM,
    ChangeableState,
    Preset,
    write_changeable,
    write_presets,
)

__all__ = [
    "BROKEN",
    "CHANGEABLE",
    "DEFAULT_PRESETS",
    "TEAM",
    "ChangeableState",
    "Lab",
    "LabBroken",
    "LabError",
    "LabHost",
    "LabModel",
    "LabNotInstalled",
    "Preset",
    "Seen",
    "lab",
    "write_changeable",
    "write_presets",
]
