"""Holders that die with the lock, and many writers at once: printed, because how long it takes matters."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentlink.core.ids import TaskId
from agentlink.journal.store import FileStore
from tests.journal.home import Journal, requested

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

HOLDER = """
import sys, time
from pathlib import Path
from agentlink.journal.locks import make_lock, sign
lock = make_lock(Path(sys.argv[1]), timeout_s=3)
lock.acquire(); sign(lock)
print("held", flush=True)
time.sleep(600)
"""

WRITER = """
import sys, anyio, time
from pathlib import Path
from agentlink.core.ids import TaskId
from agentlink.journal.store import FileStore
from tests.journal.home import requested
home, number, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
async def main():
    store = FileStore(home, clock=lambda: "2026-01-01T00:00:00.000Z")
    print("ready", flush=True)
    sys.stdin.readline()
    longest = 0.0
    for line in range(count):
        began = time.perf_counter()
        await store.append(TaskId(f"dsh_{number:04x}{line:08x}"), [requested(cwd=f"/w{number}/{line}")], expected_n=0)
        longest = max(longest, time.perf_counter() - began)
    print(longest, flush=True)
anyio.run(main)
"""


def test_after_a_killed_lock_holder_the_next_append_goes_on_200_times(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(TaskId("dsh_000000000000"), requested(), n=0)
    waits = []
    for number in range(1, 201):
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(journal.lock)], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        began = time.perf_counter()
        journal.append(TaskId(f"dsh_{number:012x}"), requested(), n=0)
        waits.append(time.perf_counter() - began)
        holder.wait()
        holder.stdout.close()
    waits.sort()
    print(
        {"kills": 200, "median ms": round(statistics.median(waits) * 1e3, 2), "longest ms": round(waits[-1] * 1e3, 2)}
    )
    assert len(journal.page(limit=1000)) == 201


def test_16_processes_append_500_facts_each_and_nothing_is_lost(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number), "500"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(16)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    began = time.perf_counter()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    longest = max(float(writer.stdout.readline()) for writer in writers if writer.stdout is not None)
    took = time.perf_counter() - began
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    store = FileStore(tmp_path, clock=lambda: "")
    report = anyio.run(store.verify)
    print(
        {
            "facts": 8000,
            "per second": round(8000 / took),
            "longest wait ms": round(longest * 1e3),
            "lines": report.lines,
        }
    )
    assert (report.problem, report.tasks) == (None, 8000)
