"""Facts of a task outside its launch, and the journal's own facts."""

from typing import Literal

import msgspec

from agentlink.core.facts.base import Fact
from agentlink.core.facts.launch import LaunchFact


class ClaimReleased(Fact, frozen=True, tag="claim/released"):
    """The task gave its workspace claim back."""

    forced: bool = False


class ClaimTaken(Fact, frozen=True, tag="claim/taken"):
    """A released claim was taken again, by a write that needs it."""


WriteKind = Literal[
    "followup-queue",
    "followup-steer",
    "answer",
    "approval-allow",
    "approval-reject",
    "cancel-turn",
    "cancel-queue",
    "cancel-all",
]
WriteOutcome = Literal["receipt", "history", "refused", "absent", "discarded", "consumed", "lost", "unknown"]
"""`receipt`: the Host said so; `history`: its durable log shows it; `refused`, `absent`: it had no effect;
`discarded`, `consumed`, `lost`: it was accepted and will not run; `unknown`: nothing can tell any more."""


class WriteIntended(Fact, frozen=True, tag="write/intended"):
    """The session will be written to, under this request id (design section 6)."""

    kind: WriteKind
    request: str
    target: str | None = None
    """Digest of the Host's id of what is answered."""
    key: str | None = None
    """Digest of the caller's request key."""
    input: str | None = None
    """Keyed digest of everything the caller asked, when a request key was given."""


class WriteSettled(Fact, frozen=True, tag="write/settled"):
    """What became of an intended write."""

    request: str
    outcome: WriteOutcome
    host_code: str | None = None


class TailSetAside(Fact, frozen=True, tag="journal/tail-set-aside"):
    """An unfinished last line was moved to a file of its own before this line was written."""

    file: str
    bytes: int


TaskFact = ClaimReleased | ClaimTaken | WriteIntended | WriteSettled
TaskLineFact = LaunchFact | TaskFact
"""Everything a task's own lines may hold."""


class CarriedLine(msgspec.Struct, frozen=True):
    """One line of a task as it stands in an earlier segment: its number, time, count and original facts."""

    seq: int
    at: str
    n: int
    facts: tuple[TaskLineFact, ...]


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
