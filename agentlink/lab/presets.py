"""Presets of a lab Host: rows of its profile patch, a file that a running Host looks at every 2 s.

The Host writes rows of its own into the same file when a model is selected; these functions keep
what they do not own. The file is JSON, which is YAML too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

_PATCH = Path("profiles", "web", "cordis.patch.yml")
_ROW_PREFIX = "preset-"

ChangeableState: TypeAlias = Literal["good", "renamed", "broken", "gone"]


class Preset(Struct, frozen=True, kw_only=True):
    """An authored preset; a broken one names a plugin that does not exist."""

    id: str
    name: str
    order: int
    persona: str = "You are a lab assistant."
    broken: bool = False


TEAM = Preset(id="team", name="Team", order=7, persona="You are a team assistant.")
BROKEN = Preset(id="broken-one", name="Broken", order=8, broken=True)
CHANGEABLE = Preset(id="changeable", name="Changeable", order=9)
DEFAULT_PRESETS = (TEAM, BROKEN, CHANGEABLE)


def preset_row(preset: Preset) -> dict[str, Any]:
    """The row that mounts a preset."""
    persona = {
        "id": "persona",
        "name": "@deepseek-ai/dsh-persona",
        "config": {"prefix": preset.persona},
    }
    missing = {"id": "missing", "name": "@deepseek-ai/dsh-does-not-exist"}
    return {
        "id": f"{_ROW_PREFIX}{preset.id}",
        "name": "@deepseek-ai/dsh-agent-preset",
        "config": {
            "id": preset.id,
            "name": preset.name,
            "order": preset.order,
            "plugins": [missing if preset.broken else persona],
        },
    }


def with_presets(patch: Sequence[Any], presets: Sequence[Preset]) -> list[Any]:
    """The patch with exactly these presets and everything else as it was."""
    others = [entry for entry in patch if not _inserts_presets(entry)]
    return [*others, {"insert": [preset_row(preset) for preset in presets]}] if presets else others


def _inserts_presets(entry: Any) -> bool:
    match entry:
        case {"insert": [{"id": str(row)}, *_]}:
            return row.startswith(_ROW_PREFIX)
        case _:
            return False


def changed(state: ChangeableState) -> Preset | None:
    """The changeable preset in one of its states; none when it is gone."""
    match state:
        case "good":
            return CHANGEABLE
        case "renamed":
            return replace(CHANGEABLE, name="Changed", persona="You are another assistant.")
        case "broken":
            return replace(CHANGEABLE, broken=True)
        case "gone":
            return None
        case _:
            assert_never(state)


def write_presets(home: Path, presets: Sequence[Preset] = DEFAULT_PRESETS) -> None:
    """Give a Host these presets, whether it runs or has not been started yet."""
    file = home / _PATCH
    file.parent.mkdir(parents=True, exist_ok=True)
    current = msgspec.json.decode(file.read_bytes(), type=list[Any]) if file.exists() else []
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(with_presets(current, presets))) + b"\n")
    os.replace(fresh, file)  # the Host must never read half a file


def write_changeable(home: Path, state: ChangeableState) -> None:
    """Put the changeable preset of the default ones into a state; wait until the roster shows it."""
    changeable = changed(state)
    write_presets(home, (TEAM, BROKEN) if changeable is None else (TEAM, BROKEN, changeable))
