from __future__ import annotations

from pathlib import Path

import msgspec

from agentlink.lab import TEAM, write_changeable, write_presets
from agentlink.lab.presets import with_presets

PATCH = Path("profiles", "web", "cordis.patch.yml")


def test_rows_of_the_host_are_kept_when_presets_are_written_again() -> None:
    selected = {"id": "agent-default-model", "config": {"model": "x"}}
    inserted = {"insert": [{"id": "hooks", "name": "some-plugin"}]}
    patch = with_presets([selected, inserted, *with_presets([], [TEAM])], [])
    assert patch == [selected, inserted]


def test_a_home_gets_its_presets_before_the_first_start(tmp_path: Path) -> None:
    write_presets(tmp_path)
    (entry,) = msgspec.json.decode((tmp_path / PATCH).read_bytes())
    assert [row["config"]["id"] for row in entry["insert"]] == ["team", "broken-one", "changeable"]


def test_the_changeable_preset_goes_and_comes_back(tmp_path: Path) -> None:
    write_presets(tmp_path)
    before = (tmp_path / PATCH).read_bytes()
    write_changeable(tmp_path, "gone")
    assert b"changeable" not in (tmp_path / PATCH).read_bytes()
    write_changeable(tmp_path, "good")
    assert (tmp_path / PATCH).read_bytes() == before
