"""Facts of a task outside its launch, and the journal's own facts."""

import msgspec

from agentlink.core.facts.base import Fact
from agentlink.core.facts.launch import LaunchFact


class ClaimReleased(Fact, frozen=True, tag="claim/released"):
    """The task gave its workspace claim back."""

    forced: bool = False


class TailSetAside(Fact, frozen=True, tag="journal/tail-set-aside"):
    """An unfinished last line was moved to a file of its own before this line was written."""

    file: str
    bytes: int


TaskFact = ClaimReleased


class CarriedLine(msgspec.Struct, frozen=True):
    """One line of a task as it stands in an earlier segment: its number, time, count and original facts."""

    seq: int
    at: str
    n: int
    facts: tuple[LaunchFact | TaskFact, ...]


class Carried(Fact, frozen=True, tag="journal/carried"):
    """An open task's lines so far, brought along into a new segment."""

    task: str
    lines: tuple[CarriedLine, ...]


class Checkpoint(Fact, frozen=True, tag="journal/checkpoint"):
    """Closes the head of a segment: how many tasks were carried, and where the segment before ended."""

    segment: int
    carried: int
    after_seq: int
    after_sum: str
    after_offset: int


class Repaired(Fact, frozen=True, tag="journal/repaired"):
    """A person sealed a damaged segment: these lines of it are lost, and these tasks cannot be read on."""

    segment: int
    from_seq: int
    to_seq: int
    offset: int
    bytes: int
    reason: str
    blocked: tuple[str, ...] = ()


JournalFact = TailSetAside | Carried | Checkpoint | Repaired
