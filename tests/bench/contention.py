"""Several processes appending to one journal as fast as they can, against the same with lock, write and flush alone."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
import msgspec

from agentlink.app.runtime import utc_now
from agentlink.journal.store import FileStore
from tests.bench.appender import Told
from tests.bench.context import Context
from tests.bench.rows import Row
from tests.bench.timing import median

NAME = "contention"
_ROOT = Path(__file__).parents[2]


class Outcome(msgspec.Struct, frozen=True):
    """All processes together."""

    per_second: float
    longest_ms: float
    lost: int


def run(context: Context) -> list[Row]:
    """Four processes, then sixteen."""
    rows = []
    for processes, rate in ((4, 1_500), (16, 1_200)):
        ours, limit = [], []
        for _ in range(context.count(3, 1)):
            ours.append(together(context, "ours", processes))
            limit.append(together(context, "limit", processes))
        rows += _rows(processes, rate, ours, limit)
    return rows


def _rows(processes: int, rate: float, ours: list[Outcome], limit: list[Outcome]) -> list[Row]:
    return [
        Row(
            bench=NAME,
            figure=f"{processes} processes, appends",
            ours=median([one.per_second for one in ours]),
            unit="/s",
            limit=median([one.per_second for one in limit]),
            limit_is="lock, write, flush",
            target=rate,
            at_least=True,
        ),
        Row(
            bench=NAME,
            figure=f"{processes} processes, longest wait",
            ours=max(one.longest_ms for one in ours),
            unit="ms",
            limit=max(one.longest_ms for one in limit),
            limit_is="lock, write, flush",
            target=500,
        ),
        Row(
            bench=NAME,
            figure=f"{processes} processes, lost or refused",
            ours=sum(one.lost for one in ours),
            unit="lines",
            target=0,
        ),
    ]


def together(context: Context, kind: str, processes: int) -> Outcome:
    """Starts them, lets all begin at once, and counts what the file holds afterwards."""
    home = context.new_home()
    home.mkdir()
    seconds = context.count(4, 1)
    with ExitStack() as stack:
        children = [stack.enter_context(_child(kind, home, number, seconds)) for number in range(processes)]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        told = [msgspec.json.decode(child.communicate()[0], type=Told) for child in children]
    appended = sum(one.appended for one in told)
    took = max(one.ended for one in told) - min(one.began for one in told)
    lost = appended - _kept(kind, home) + sum(one.refused for one in told)
    return Outcome(appended / took, max(one.longest_ms for one in told), lost)


def _child(kind: str, home: Path, number: int, seconds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.appender", kind, str(home), str(number), str(seconds)],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _kept(kind: str, home: Path) -> int:
    if kind == "limit":
        return (home / "raw" / "raw.jsonl").read_bytes().count(b"\n")
    found = anyio.run(FileStore(home, clock=utc_now).verify)
    if found.problem is not None:
        raise RuntimeError(found.problem)
    return found.lines
