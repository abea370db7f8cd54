"""One of the processes of the contention benchmark: appends for some seconds and says how it went.

`python -m tests.bench.appender ours|limit HOME NUMBER SECONDS` says "ready", waits for a line, then appends.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

import anyio
import msgspec
from anyio import to_thread

from agentlink.app.runtime import utc_now
from agentlink.core.errors import Failure
from agentlink.journal.store import FileStore
from tests.bench.append import next_lines
from tests.bench.raw import RawAppends


class Told(msgspec.Struct):
    """What one process did. Times are of the clock that all processes share."""

    appended: int = 0
    refused: int = 0
    began: float = 0
    ended: float = 0
    longest_ms: float = 0


def appending(kind: str, home: Path, number: int) -> Callable[[], Awaitable[object]]:
    """The append to be repeated: the product's, with tasks of this process alone, or the limit."""
    lines = next_lines((number + 1) << 40)
    if kind == "ours":
        store = FileStore(home, clock=utc_now)

        async def ours() -> None:
            task, n, fact, _ = next(lines)
            await store.append(task, (fact,), expected_n=n)

        return ours
    raw = RawAppends(home / "raw")

    async def limit() -> None:
        await to_thread.run_sync(raw.append, next(lines)[3])

    return limit


async def append_for(append: Callable[[], Awaitable[object]], *, seconds: float) -> Told:
    told = Told(began=monotonic())
    while (now := monotonic()) - told.began < seconds:
        try:
            await append()
        except Failure:
            told.refused += 1
            break
        told.appended += 1
        told.ended = monotonic()
        told.longest_ms = max(told.longest_ms, (told.ended - now) * 1_000)
    return told


def main(kind: str, home: str, number: str, seconds: str) -> None:
    append = appending(kind, Path(home), int(number))
    print("ready", flush=True)
    sys.stdin.readline()
    told = anyio.run(lambda: append_for(append, seconds=float(seconds)))
    print(msgspec.json.encode(told).decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
