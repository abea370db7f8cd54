"""One journal line: its bytes, its chained sum, and how to read it back (design section 2).

A line is `{"v":1,"seq":…,"at":…,"task":…,"n":…,"facts":[…],"sum":"…"}`. The sum covers the previous line's sum
and this line's own bytes before `,"sum":`, never a re-encoding, so a reader checks exactly what was written.
"""

from hashlib import blake2b
from typing import Any

import msgspec

from agentlink.core.facts.launch import LaunchFact
from agentlink.core.facts.upcast import upcast
from agentlink.core.facts.work import JournalFact, TaskFact

VERSION = 2
"""The record format. A new fact type or a changed meaning raises it: 2 brought claims taken again and later writes."""
_READ_AS_THEY_ARE = (1, 2)
"""Formats whose lines need no lifting, since those after them only brought new facts."""
FIRST_SUM = "0" * 16
"""What stands for the sum of the line before the first one."""

AnyFact = LaunchFact | TaskFact | JournalFact

_SUM_KEY = b',"sum":"'
_TAIL = len(_SUM_KEY) + 16 + len(b'"}')


class Line(msgspec.Struct, frozen=True, gc=False):
    """One record. `seq` orders the whole journal; `n` counts the lines of the task, from 1."""

    v: int
    seq: int
    at: str
    task: str | None
    n: int
    facts: tuple[AnyFact, ...]


class LineDamaged(Exception):
    """These bytes are no line that may follow; `reason` is one of sum, form, seq."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"damaged line: {reason}")
        self.reason = reason


class LineNewer(Exception):
    """The line was written by a newer Agentlink, in format `version`."""

    def __init__(self, version: int) -> None:
        super().__init__(f"journal format {version} is newer than {VERSION}")
        self.version = version


class _Version(msgspec.Struct):
    v: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)
_version_decoder = msgspec.json.Decoder(_Version)


def encode_line(line: Line, previous_sum: str) -> tuple[bytes, str]:
    """The line's bytes with its newline, and its sum."""
    body = _encoder.encode(line)[:-1]
    new_sum = chain(previous_sum, body)
    return b'%b,"sum":"%b"}\n' % (body, new_sum.encode()), new_sum


def chain(previous_sum: str, body: bytes) -> str:
    """The sum of a line whose bytes before `,"sum":` are `body`: 16 hexadecimal digits."""
    return blake2b(previous_sum.encode() + body, digest_size=8).hexdigest()


def decode_line(raw: bytes, previous_sum: str, *, seq: int | None) -> tuple[Line, str]:
    """The line in these bytes (without newline) and its sum.

    Raises LineDamaged when the bytes are not a line that follows `previous_sum` as number `seq` (None: as any), and
    LineNewer when they are a sound line of a format this version does not know.
    """
    if raw[-_TAIL : -_TAIL + len(_SUM_KEY)] != _SUM_KEY or raw[-2:] != b'"}':
        raise LineDamaged("form")
    body = raw[:-_TAIL]
    new_sum = blake2b(previous_sum.encode() + body, digest_size=8).hexdigest()
    if raw[-18:-2] != new_sum.encode():
        raise LineDamaged("sum")
    try:
        line = _decoder.decode(raw)
    except msgspec.DecodeError:
        line = _of_another_version(raw)
    if line.v not in _READ_AS_THEY_ARE:
        line = _of_another_version(raw)
    if seq is not None and line.seq != seq:
        raise LineDamaged("seq")
    return line, new_sum


def _of_another_version(raw: bytes) -> Line:
    """A sound line that is not of the current format: lifted when it is older. Raises LineNewer, LineDamaged."""
    try:
        version = _version_decoder.decode(raw).v
    except msgspec.DecodeError:
        raise LineDamaged("form") from None
    if version > VERSION:
        raise LineNewer(version)
    if version == VERSION:
        raise LineDamaged("form")
    try:
        lifted = upcast(msgspec.json.decode(raw, type=dict[str, Any]), version=version, current=VERSION)
        return msgspec.convert(lifted, Line)
    except (KeyError, msgspec.ValidationError):
        raise LineDamaged("form") from None
