"""A durable append to journals of growing size, against lock, write and flush of as many bytes in a worker thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
from anyio import to_thread

from agentlink.app.runtime import utc_now
from agentlink.core.facts.launch import LaunchFact
from agentlink.core.facts.record import FIRST_SUM, VERSION, Line, encode_line
from agentlink.core.ids import TaskId
from agentlink.journal.store import FileStore
from tests.bench.context import Context
from tests.bench.raw import RawAppends
from tests.bench.rows import Row
from tests.bench.synthetic import LINES_PER_TASK, launch_facts, numbered_task
from tests.bench.timing import alternately_awaited, median

NAME = "append"
_FIRST_NEW = 1 << 40
"""Number of the first task that no synthetic journal holds."""


def next_lines(first: int = _FIRST_NEW) -> Iterator[tuple[TaskId, int, LaunchFact, bytes]]:
    """Legal lines without end: task, lines it has before, fact, and about as many bytes as the line will have."""
    number = first
    while True:
        task = numbered_task(number)
        for n, fact in enumerate(launch_facts(task, number)):
            data, _ = encode_line(Line(VERSION, 123_456, utc_now(), task, n + 1, (fact,)), FIRST_SUM)
            yield task, n, fact, data
        number += 1


def run(context: Context) -> list[Row]:
    """One row for each number of records before, and one among many tasks that were never released."""
    records = (0, 1_000, 10_000, context.many * LINES_PER_TASK)
    sizes = [count // LINES_PER_TASK for count in records]
    rows = [
        anyio.run(_at, f"after {tasks * LINES_PER_TASK:,} records", context, context.home_with(tasks), 400)
        for tasks in sizes
    ]
    held = context.count(10_000, 20)
    return [*rows, anyio.run(_at, f"among {held:,} open tasks", context, context.home_with(held, held=True), 20)]


async def _at(figure: str, context: Context, home: Path, rounds: int) -> Row:
    store = FileStore(home, clock=utc_now)
    raw = RawAppends(home / "raw")
    ours_lines, raw_lines = next_lines(), next_lines()

    async def ours() -> None:
        task, n, fact, _ = next(ours_lines)
        await store.append(task, (fact,), expected_n=n)

    async def limit() -> None:
        await to_thread.run_sync(raw.append, next(raw_lines)[3])

    mine, floor = await alternately_awaited(ours, limit, rounds=context.count(rounds, 10), warm=7)
    return Row(
        bench=NAME,
        figure=figure,
        ours=median(mine),
        unit="ms",
        limit=median(floor),
        limit_is="lock, write, flush in a thread",
        compared="ratio",
        target=2,
    )
