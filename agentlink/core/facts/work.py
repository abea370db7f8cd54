"""Facts of a task outside its launch, and the journal's own facts."""

from agentlink.core.facts.base import Fact


class ClaimReleased(Fact, frozen=True, tag="claim/released"):
    """The task gave its workspace claim back."""

    forced: bool = False


class TailSetAside(Fact, frozen=True, tag="journal/tail-set-aside"):
    """An unfinished last line was moved to a file of its own before this line was written."""

    file: str
    bytes: int


TaskFact = ClaimReleased
JournalFact = TailSetAside
