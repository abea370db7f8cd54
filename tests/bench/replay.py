"""Reading a whole journal with every check, against decoding its lines; and what each part of the reading costs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec

from agentlink.app.runtime import utc_now
from agentlink.core.errors import Failure
from agentlink.core.facts.record import FIRST_SUM, Line, chain
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch, apply
from agentlink.journal.segment import CHUNK
from agentlink.journal.store import FileStore
from tests.bench.context import Context
from tests.bench.rows import Row
from tests.bench.synthetic import LINES_PER_TASK, Journal, numbered_task
from tests.bench.timing import alternately, median

NAME = "replay"
_SUM_SPAN = len(b',"sum":"0123456789abcdef"}')


def run(context: Context) -> list[Row]:
    """The rate of the whole reading and of its parts; each part is one alone, so they need not add up."""
    journal = context.journal(context.many)
    raw = list(lines_of(journal.file))
    sample = [msgspec.json.decode(line, type=Line) for line in raw[: 70_000 - 70_000 % LINES_PER_TASK]]
    parts: dict[str, tuple[Callable[[], None], int]] = {
        "whole": (lambda: read_store(journal), journal.lines),
        "decode": (lambda: decode_all(raw), len(raw)),
        "split the file into lines": (lambda: split_all(journal.file), journal.lines),
        "BLAKE2b sum of each line": (lambda: sum_all(raw), len(raw)),
        "fold of the decoded facts": (lambda: fold_all(sample), len(sample)),
    }
    times = alternately(*(work for work, _ in parts.values()), rounds=context.count(5, 1), warm=context.count(1, 0))
    seconds = {name: median(ms) / 1_000 for name, ms in zip(parts, times, strict=True)}
    rate = {name: count / seconds[name] / 1e6 for name, (_, count) in parts.items()}
    decode = rate.pop("decode")

    def row(figure: str, mine: float, *, target: float | None = None) -> Row:
        return Row(
            bench=NAME,
            figure=figure,
            ours=mine,
            unit="M lines/s",
            limit=decode,
            limit_is="typed decode",
            compared="ratio",
            target=target,
            at_least=True,
        )

    floor = 1 / sum(1 / part for part in (decode, *(value for name, value in rate.items() if name != "whole")))
    return [
        row(f"{journal.tasks:,} tasks, {journal.bytes / 1e6:,.0f} MB, all checks", rate.pop("whole"), target=0.35),
        *(row(f"part alone: {name}", value) for name, value in rate.items()),
        row("the parts one after another, no other work", floor),
        Row(bench=NAME, figure="first look of a process at that journal", ours=seconds["whole"] * 1_000, unit="ms"),
    ]


def read_store(journal: Journal) -> None:
    """A fresh store's first look; it must find every line sound."""
    problem, last = anyio.run(_first_look, journal)
    if problem is not None or last is None or last.n != LINES_PER_TASK:
        raise RuntimeError(f"the journal was not read as written: {problem}, {last}")


async def _first_look(journal: Journal) -> tuple[Failure | None, TaskView | None]:
    store = FileStore(journal.file.parent.parent, clock=utc_now)
    return await store.problem(), await store.task(numbered_task(journal.tasks - 1))


def lines_of(file: Path) -> list[bytes]:
    return file.read_bytes().split(b"\n")[:-1]


def split_all(file: Path) -> None:
    """Chunk by chunk, as the store reads."""
    fd = os.open(file, os.O_RDONLY)
    try:
        rest, position = b"", 0
        while chunk := os.pread(fd, CHUNK, position):
            position += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for _ in lines:
                pass
    finally:
        os.close(fd)


def decode_all(raw: list[bytes]) -> None:
    decode = msgspec.json.Decoder(Line).decode
    for line in raw:
        decode(line)


def sum_all(raw: list[bytes]) -> None:
    before = FIRST_SUM
    for line in raw:
        before = chain(before, line[:-_SUM_SPAN])


def fold_all(lines: list[Line]) -> None:
    launch = Launch()
    for line in lines:
        if line.n == 1:
            launch = Launch()
        for fact in line.facts:
            launch = apply(launch, fact)  # type: ignore[arg-type]
