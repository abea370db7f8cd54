"""The acknowledged end of the journal: the last line that some caller was told is safe.

Written in place after each flush, itself unflushed: it can only be older than the journal, never ahead of it, unless
lines that were acknowledged are gone.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from agentlink.files.private import FILE_MODE

_SIZE = 128


class Head(msgspec.Struct, frozen=True):
    """The end that was acknowledged: number and sum of the last line, and the file's length after it."""

    segment: str
    seq: int
    sum: str
    offset: int


def read_head(path: Path) -> Head | None:
    """The stored end; None when there is none or it is torn (it is rewritten by the next append)."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        data = os.pread(fd, _SIZE, 0)
    finally:
        os.close(fd)
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(data.strip(), type=Head)
    return None


def write_head(path: Path, head: Head) -> None:
    """Stores the end in one write of fixed size. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, FILE_MODE)
    try:
        os.pwrite(fd, msgspec.json.encode(head).ljust(_SIZE - 1) + b"\n", 0)
    finally:
        os.close(fd)
