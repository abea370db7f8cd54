"""Reading and writing the bytes of one journal file. Synchronous: it runs inside a worker thread as a whole."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import msgspec

from agentlink.core.facts.record import (
    FIRST_SUM,
    VERSION,
    AnyFact,
    Line,
    LineDamaged,
    LineNewer,
    decode_line,
    encode_line,
)
from agentlink.files.private import FILE_MODE, fsync_dir, write_all
from agentlink.journal.ledger import Ledger

_SUM_SPAN = len(b'0123456789abcdef"}\n')

CHUNK = 1 << 20
"""Bytes read at once: replay needs memory for one chunk and one line, whatever the journal's size."""


class Damage(msgspec.Struct, frozen=True):
    """Where and why the journal stops being provable."""

    segment: str
    line: int
    offset: int
    reason: str


class Newer(msgspec.Struct, frozen=True):
    """A line of a format that only a newer Agentlink writes."""

    segment: str
    line: int
    version: int


class WriteFailed(Exception):
    """The line is not on disk for sure. `may_stand` is true when it may be in the file all the same."""

    def __init__(self, reason: str, *, may_stand: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_stand = may_stand


def read_on(path: Path, ledger: Ledger) -> Damage | Newer | None:
    """Feeds every whole line after the ledger's offset to it, and says what stopped it before the last newline.

    What follows the last newline is not read: a writer may be in the middle of it.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        rest = b""
        position = ledger.offset
        while chunk := os.pread(fd, CHUNK, position):
            position += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for raw in lines:
                stopped = _take(path, ledger, raw)
                if stopped is not None:
                    return stopped
        return None
    finally:
        os.close(fd)


def _take(path: Path, ledger: Ledger, raw: bytes) -> Damage | Newer | None:
    seq = ledger.seq
    try:
        line, new_sum = decode_line(raw, ledger.sum, seq=None if seq is None else seq + 1)
        ledger.take(line, new_sum, offset=ledger.offset, length=len(raw) + 1)
    except LineNewer as newer:
        return Newer(path.name, ledger.next_seq, newer.version)
    except LineDamaged as damaged:
        return Damage(path.name, ledger.next_seq, ledger.offset, damaged.reason)
    return None


def line_at(path: Path, offset: int) -> bytes:
    """The bytes of the line that starts here, without its newline. Raises OSError."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.readline().rstrip(b"\n")


def verified_line(path: Path, offset: int) -> Line:
    """The line that starts here, proven again with the sum of the line before it. Raises LineDamaged, OSError."""
    before = min(offset, _SUM_SPAN)
    with path.open("rb") as file:
        file.seek(offset - before)
        previous = file.read(before)[:16].decode("ascii", "replace") if before else FIRST_SUM
        return decode_line(file.readline().rstrip(b"\n"), previous, seq=None)[0]


def last_lines(path: Path, *, end: int, count: int) -> tuple[str, ...]:
    """The last `count` lines before offset `end`, oldest first. Reads backwards, never the whole file."""
    data = b""
    start = end
    try:
        with path.open("rb") as file:
            while start > 0 and data.count(b"\n") <= count:
                step = min(start, CHUNK)
                start -= step
                file.seek(start)
                data = file.read(step) + data
    except FileNotFoundError:
        return ()
    # Only the newline ends a line: a path may hold other characters that splitlines would split at.
    lines = data.decode("utf-8", "replace").split("\n")[:-1]
    return tuple(lines[-count:] if start == 0 or len(lines) > count else lines[1:])


def tail_after(path: Path, offset: int) -> bytes:
    """What stands after `offset`, whole lines already read away. Raises OSError."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""


def append_line(path: Path, ledger: Ledger, task: str | None, n: int, facts: tuple[AnyFact, ...], at: str) -> None:
    """Writes and flushes the next line, then takes it into the ledger. Raises WriteFailed."""
    line = Line(VERSION, ledger.next_seq, at, task, n, facts)
    data, new_sum = encode_line(line, ledger.sum)
    append_bytes(path, data, at=ledger.offset)
    ledger.take(line, new_sum, offset=ledger.offset, length=len(data))


def append_bytes(path: Path, data: bytes, *, at: int) -> None:
    """Adds bytes at the file's end `at` and flushes them. Raises WriteFailed."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
    except OSError as error:
        raise WriteFailed(_why(error), may_stand=False) from error
    try:
        try:
            write_all(fd, data)
        except OSError as error:
            # Under the lock nobody else has written since, so the half line can go. If it cannot, the next append
            # sets it aside.
            with suppress(OSError):
                os.ftruncate(fd, at)
            raise WriteFailed(_why(error), may_stand=False) from error
        try:
            os.fsync(fd)
            if at == 0:
                fsync_dir(path.parent)
        except OSError as error:
            # After a failed flush the kernel may have dropped the bytes or may still hold them: only a reader can tell.
            raise WriteFailed(_why(error), may_stand=True) from error
    finally:
        os.close(fd)


def set_tail_aside(path: Path, tail: bytes, *, offset: int) -> str:
    """Moves an unfinished last line to a file of its own and cuts it off; the name of that file. Raises OSError."""
    aside = next(name for name in _aside_names(path, offset) if _keep(name, tail))
    fsync_dir(path.parent)
    fd = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    return aside.name


def torn_at(path: Path, offset: int) -> tuple[Path, ...]:
    """The pieces that were cut off here. While the journal ends at `offset`, no line tells of them yet."""
    return tuple(takewhile(Path.exists, _aside_names(path, offset)))


def _aside_names(path: Path, offset: int) -> Iterator[Path]:
    number = 1
    while True:
        yield path.with_name(f"{path.stem}.{offset}.{'' if number == 1 else f'{number}.'}torn")
        number += 1


def _keep(aside: Path, tail: bytes) -> bool:
    """Whether the bytes stand in that file now; an earlier piece in it is never overwritten."""
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        return False
    try:
        try:
            write_all(fd, tail)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        aside.unlink()
        raise
    return True


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk of the state home"
    return error.strerror or str(error)
