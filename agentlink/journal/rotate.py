"""Beginning a new segment: the open tasks are carried along, everything closed stays behind (design section 2)."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agentlink.core.facts.record import FIRST_SUM, VERSION, AnyFact, Line, encode_line
from agentlink.core.facts.work import Carried, Checkpoint
from agentlink.files.private import FILE_MODE, fsync_dir, write_all
from agentlink.journal.ledger import Ledger
from agentlink.journal.lines import lines_of, segment_path

SEGMENT_BYTES = 4 << 20
"""Past this many bytes a segment is sealed: some 18,000 lines, replayed in well under 100 ms."""


def begin_segment(directory: Path, ledger: Ledger, *, at: str, own: Iterable[AnyFact] = (), next_seq: int) -> int:
    """Makes the next segment durable and gives its number; the caller holds the journal lock and reads it then.

    It is written whole under a temporary name, so a crash leaves the old segment or the new one. `own` are facts of
    the journal itself that stand before the checkpoint. Raises OSError, LineDamaged.
    """
    number = ledger.segment + 1
    path = segment_path(directory, number)
    temporary = path.with_suffix(".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        try:
            _write_head(fd, directory, ledger, number, at=at, own=own, seq=next_seq)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    fsync_dir(directory)
    return number


def _write_head(
    fd: int, directory: Path, ledger: Ledger, number: int, *, at: str, own: Iterable[AnyFact], seq: int
) -> None:
    current = segment_path(directory, ledger.segment)
    chain, buffer = FIRST_SUM, bytearray()
    tasks = ledger.open_tasks()

    def add(fact: AnyFact) -> None:
        nonlocal chain, seq
        data, chain = encode_line(Line(VERSION, seq, at, None, 0, (fact,)), chain)
        seq += 1
        buffer.extend(data)
        if len(buffer) > 1 << 20:
            write_all(fd, bytes(buffer))
            buffer.clear()

    for task in tasks:
        add(Carried(task=task, lines=tuple(lines_of(task, current, ledger.offsets(task)))))
    for fact in own:
        add(fact)
    add(
        Checkpoint(
            segment=number,
            carried=len(tasks),
            after_seq=ledger.seq or 0,
            after_sum=ledger.sum,
            after_offset=ledger.offset,
        )
    )
    write_all(fd, bytes(buffer))
