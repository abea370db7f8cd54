"""The benchmarks still run. What they measure is never asserted here: a busy machine is no defect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.soak
def test_quick_run_gives_rows_with_ours_beside_the_limit_of_the_same_run() -> None:
    found = msgspec.json.decode(bench("append", "list", "replay", "--quick", "--json"))
    assert {row["bench"] for row in found["rows"]} == {"append", "list", "replay"}
    assert all(row["ours"] >= 0 for row in found["rows"])
    assert all(row["limit"] > 0 and row["value"] > 0 for row in found["rows"] if row["bench"] == "append")
    assert found["machine"]["cores"] > 0


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["wait", "long", "watch"])
def test_quick_runs_of_supervision_compare_with_the_host_alone(name: str) -> None:
    rows = msgspec.json.decode(bench(name, "--quick", "--json"))["rows"]
    assert {row["bench"] for row in rows} == {name}
    assert any("limit" in row for row in rows)
    assert all(row["ours"] == 0 for row in rows if row["unit"] == "events")  # nothing missed, nothing twice


@pytest.mark.soak
def test_quick_run_prints_one_table_without_any_path_of_this_machine() -> None:
    shown = bench("list", "--quick")
    assert "| list " in shown
    assert str(Path.home()) not in shown
