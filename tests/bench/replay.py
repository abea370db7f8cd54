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
from tests.bench.synthetic import LINES_PER_TASK, Written, numbered_task, write_journal
from tests.bench.timing import alternately, median

NAME = "replay"
_SUM_SPAN = len(b',"sum":"0123456789abcdef"}')


def run(context: Context) -> list[Row]:
    """The rate of the whole reading and of its parts; each part alone, so they need not add up."""
    written = write_journal(context.new_home(), context.many, segmented=False)
    file = written.home / "journal" / "000001.jsonl"
    raw = file.read_bytes().split(b"\n")[:-1]
    sample = [msgspec.json.decode(line, type=Line) for line in raw[: 70_000 - 70_000 % LINES_PER_TASK]]
    parts: dict[str, tuple[Callable[[], None], int]] = {
        "whole": (lambda: read_store(written), len(raw)),
        "decode": (lambda: decode_all(raw), len(raw)),
        "split the file into lines": (lambda: split_all(file), len(raw)),
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

    unavoidable = 1 / sum(1 / part for part in (decode, *(rate[name] for name in rate if name != "whole")))
    return [
        row(f"{written.tasks:,} tasks, {written.bytes / 1e6:,.0f} MB, all checks", rate.pop("whole"), target=0.35),
        *(row(f"part alone: {name}", value) for name, value in rate.items()),
        row("decode and these parts one after another", unavoidable),
        *_first_looks(context),
    ]


def _first_looks(context: Context) -> list[Row]:
    """What a new process waits for before it can list a page of the same tasks in segments."""
    written = context.journal(context.many)
    index = written.home / "journal" / "index.sqlite"
    (ready,) = alternately(lambda: anyio.run(first_page, written), rounds=context.count(5, 1))
    index.unlink(missing_ok=True)
    (anew,) = alternately(lambda: anyio.run(first_page, written), rounds=1, warm=0)
    return [
        Row(bench=NAME, figure="first page in a new process, index ready", ours=median(ready), unit="ms"),
        Row(bench=NAME, figure="first page in a new process, index lost", ours=median(anew), unit="ms"),
    ]


async def first_page(written: Written) -> None:
    store = FileStore(written.home, clock=utc_now)
    if len(await store.page(limit=50)) != min(50, written.tasks):
        raise RuntimeError("the journal was not read as written")
    store.close()


def read_store(written: Written) -> None:
    """A fresh store's look at one long segment; it must find every line sound."""
    problem, last = anyio.run(_first_look, written)
    if problem is not None or last is None or last.n != LINES_PER_TASK:
        raise RuntimeError(f"the journal was not read as written: {problem}, {last}")


async def _first_look(written: Written) -> tuple[Failure | None, TaskView | None]:
    store = FileStore(written.home, clock=utc_now)
    return await store.problem(), await store.task(numbered_task(written.tasks - 1))


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
