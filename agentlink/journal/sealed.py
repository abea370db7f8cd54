"""Reading sealed segments into the index. A damaged line there costs only the tasks that it may have belonged to."""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentlink.core.facts.record import FIRST_SUM, Line, LineDamaged, decode_line
from agentlink.core.facts.work import Carried, CarriedLine, Checkpoint, Repaired
from agentlink.core.launch.kinds import is_open, kinds_of
from agentlink.core.launch.state import IllegalFact, Launch, apply
from agentlink.journal.index import LINES_OF_AN_ATTEMPT, MAY_HAVE_GONE_ON, Index, IndexedTask
from agentlink.journal.ledger import carried_line
from agentlink.journal.lines import lines_of, segment_path

_SUM = re.compile(rb'"sum":"([0-9a-f]{16})"}$')


class SealedLine(msgspec.Struct, frozen=True):
    """One line of a sealed segment: proven, or the reason why it is not."""

    offset: int
    line: Line | None
    reason: str | None = None


def read_sealed(path: Path) -> Iterator[SealedLine]:
    """Every line of a sealed segment. After a damaged one the next is proven by the sum that stands in it.

    Each sum covers the one before, so a line whose predecessor's stored sum fits is as good as if that were whole.
    Raises OSError.
    """
    previous: str | None = FIRST_SUM
    offset = 0
    with path.open("rb") as file:
        for raw_line in file:
            raw = raw_line.rstrip(b"\n")
            stored = _SUM.search(raw)
            after = None if stored is None else stored[1].decode()
            if previous is None or not raw_line.endswith(b"\n"):
                yield SealedLine(offset, None, "sum")
            else:
                yield _proven(raw, previous, offset)
            previous = after
            offset += len(raw_line)


def _proven(raw: bytes, previous: str, offset: int) -> SealedLine:
    try:
        return SealedLine(offset, decode_line(raw, previous, seq=None)[0])
    except LineDamaged as damaged:
        return SealedLine(offset, None, damaged.reason)


class _Task:
    """What one sealed segment holds of a task."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.lines: list[CarriedLine] = []


class _Head(msgspec.Struct):
    """What the next segment's head says: what it carries, where this one ended, what a repair gave up."""

    carried: set[str]
    checkpoint: Checkpoint | None = None
    repaired: Repaired | None = None


def head_of(path: Path, *, after: int) -> _Head:
    """The head of a segment that follows segment `after`. Raises OSError."""
    head = _Head(set())
    for sealed in read_sealed(path):
        for fact in sealed.line.facts if sealed.line is not None else ():
            match fact:
                case Carried():
                    head.carried.add(fact.task)
                case Repaired() if fact.segment == after:
                    head.repaired = fact
                case Checkpoint():
                    head.checkpoint = fact
                    return head
                case _:
                    pass
    return head


class LostLines:
    """Counts the lines of a segment that are unprovable or gone, also by the numbers of those around them."""

    def __init__(self) -> None:
        self.count = 0
        self.last_seq: int | None = None
        self._unproven = 0

    def pass_by(self, sealed: SealedLine) -> None:
        """One line of the segment, in order."""
        if sealed.line is None:
            self._unproven += 1
            return
        gap = 0 if self.last_seq is None else sealed.line.seq - self.last_seq - 1
        self.count += max(self._unproven, gap)
        self.last_seq, self._unproven = sealed.line.seq, 0

    def end(self, *, last_seq: int | None) -> int:
        """The whole count; `last_seq` is the number of the last line that the segment had, when that is known."""
        gap = 0 if last_seq is None else last_seq - (self.last_seq or 0)
        self.count += max(self._unproven, gap)
        self._unproven = 0
        return self.count


def index_segment(directory: Path, index: Index, number: int) -> None:
    """Adds one sealed segment to the index; the segments before it are there already. Raises OSError, LineNewer."""
    path = segment_path(directory, number)
    found: defaultdict[str, _Task] = defaultdict(_Task)
    losses = LostLines()
    for sealed in read_sealed(path):
        losses.pass_by(sealed)
        if sealed.line is not None:
            _note(found, sealed.line, sealed.offset)
    head = head_of(segment_path(directory, number + 1), after=number)
    repaired = head.repaired
    ended = None if head.checkpoint is None or repaired is not None else head.checkpoint.after_seq
    lost = losses.end(last_seq=repaired.to_seq if repaired is not None else ended)
    tasks = [
        _indexed(directory, index, task, entry, goes_on=task in head.carried, lost=lost >= LINES_OF_AN_ATTEMPT)
        for task, entry in found.items()
    ]
    index.add(
        number,
        path.stat().st_size,
        ((task, entry.offsets) for task, entry in found.items()),
        tasks,
        lost=lost,
        blocked=() if repaired is None else repaired.blocked,
    )


def _note(found: "defaultdict[str, _Task]", line: Line, offset: int) -> None:
    if line.task is not None:
        entry = found[line.task]
        entry.offsets.append(offset)
        entry.lines.append(carried_line(line))
        return
    for fact in line.facts:
        if isinstance(fact, Carried):
            entry = found[fact.task]
            entry.offsets = array("Q", [offset])
            entry.lines = list(fact.lines)


def _indexed(directory: Path, index: Index, task: str, entry: _Task, *, goes_on: bool, lost: bool) -> IndexedTask:
    lines = entry.lines
    if lines and lines[0].n != 1:
        # Its beginning is in an earlier segment, and nothing carried it here: only a lost line explains that.
        lines = [*_earlier_lines(directory, index, task), *lines]
    launch, problem = folded(lines)
    if problem is None and not goes_on:
        if is_open(launch):
            problem = "its last lines are lost"  # what is open is carried on; this was closed by lines that are gone
        elif lost and launch.failed and not launch.abandoned:
            problem = MAY_HAVE_GONE_ON
    return IndexedTask(
        task=task,
        first_seq=lines[0].seq,
        created_at=lines[0].at,
        kinds=kinds_of(launch),
        key=launch.key,
        blocked=problem,
    )


def _earlier_lines(directory: Path, index: Index, task: str) -> list[CarriedLine]:
    spans = index.spans(task)
    if not spans:
        return []
    number, offsets = spans[-1]
    try:
        return lines_of(task, segment_path(directory, number), offsets)
    except LineDamaged:
        return []  # then the lines at hand do not begin at 1, and the task is blocked for that


def folded(lines: list[CarriedLine]) -> tuple[Launch, str | None]:
    """The launch of these lines, and why they cannot be all, if they cannot."""
    launch = Launch()
    for number, line in enumerate(lines, start=1):
        if line.n != number:
            return launch, f"line {number} of the task is lost"
        try:
            for fact in line.facts:
                launch = apply(launch, fact)
        except IllegalFact as illegal:
            return launch, str(illegal)
    return launch, None
