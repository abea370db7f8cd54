"""Reading sealed segments into the index. A damaged line there costs only the tasks that it may have belonged to."""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentlink.core.facts.record import FIRST_SUM, Line, LineDamaged, decode_line
from agentlink.core.facts.work import Carried, CarriedLine, Checkpoint
from agentlink.core.launch.kinds import is_open, kinds_of
from agentlink.core.launch.state import IllegalFact, Launch, apply
from agentlink.journal.index import Index, IndexedTask
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


def index_segment(directory: Path, index: Index, number: int) -> None:
    """Adds one sealed segment to the index; the segments before it are there already. Raises OSError, LineNewer."""
    path = segment_path(directory, number)
    found: defaultdict[str, _Task] = defaultdict(_Task)
    for sealed in read_sealed(path):
        if sealed.line is not None:
            _note(found, sealed.line, sealed.offset)
    carried = carried_into(segment_path(directory, number + 1))
    index.add(
        number,
        path.stat().st_size,
        ((task, entry.offsets) for task, entry in found.items()),
        [_indexed(directory, index, task, entry, goes_on=task in carried) for task, entry in found.items()],
    )


def carried_into(path: Path) -> set[str]:
    """The tasks that a segment carries at its head. Raises OSError."""
    carried: set[str] = set()
    for sealed in read_sealed(path):
        for fact in sealed.line.facts if sealed.line is not None else ():
            if isinstance(fact, Checkpoint):
                return carried
            if isinstance(fact, Carried):
                carried.add(fact.task)
    return carried


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


def _indexed(directory: Path, index: Index, task: str, entry: _Task, *, goes_on: bool) -> IndexedTask:
    lines = entry.lines
    if lines and lines[0].n != 1:
        # Its beginning is in an earlier segment, and nothing carried it here: only a lost line explains that.
        earlier = index.spans(task)
        if earlier:
            segment, offsets = earlier[-1]
            lines = [*lines_of(task, segment_path(directory, segment), offsets), *lines]
    launch, problem = folded(lines)
    if problem is None and is_open(launch) and not goes_on:
        problem = "its last lines are lost"  # what is open is carried on; this was closed by lines that are gone
    return IndexedTask(
        task=task,
        first_seq=lines[0].seq,
        created_at=lines[0].at,
        kinds=kinds_of(launch),
        key=launch.key,
        blocked=problem,
    )


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
