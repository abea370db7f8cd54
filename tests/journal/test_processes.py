from __future__ import annotations

from pathlib import Path

import msgspec

from tests.journal.home import Journal, python, snapshot

WRITE_300 = """
import sys
from pathlib import Path
from tests.journal.home import *
home, letter, jump = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
clock = Ticks()
clock.now = 7200
journal = Journal(home, clock=clock)
print("ready", flush=True)
sys.stdin.readline()
for number in range(75):
    if number == 37:
        clock.now -= jump
    journal.fill(TaskId(f"dsh_{letter}{number:011x}"))
print("written", flush=True)
sys.stdin.readline()
tasks = journal.page(limit=1000)
print(len(tasks), sum(len(journal.history(task)) for task in tasks), flush=True)
"""


def test_f17_two_processes_and_a_clock_that_jumps_give_600_consecutive_lines_seen_by_both(tmp_path: Path) -> None:
    children = [python(WRITE_300, tmp_path, letter, jump) for letter, jump in (("a", 3600), ("b", 0))]
    try:
        for expected in ("ready\n", "written\n"):
            for child in children:
                assert child.stdout is not None
                assert child.stdin is not None
                assert child.stdout.readline() == expected, child.communicate()[1]
            for child in children:
                assert child.stdin is not None
                child.stdin.write("\n")
                child.stdin.flush()
            if expected == "ready\n":
                continue
        seen = [child.communicate(timeout=30)[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert seen == ["150 600\n", "150 600\n"]
    rows = [msgspec.json.decode(line) for line in Journal(tmp_path).lines()]
    assert [row["seq"] for row in rows] == list(range(1, 601))
    times = [row["at"] for row in rows if row["task"].startswith("dsh_a")]
    assert times != sorted(times)
    state = snapshot(tmp_path)
    assert isinstance(state, dict)
    assert all([line.n for line in lines] == [1, 2, 3, 4] for _, lines in state.values())
