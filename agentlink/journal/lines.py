"""A task's lines, wherever they stand: in the current segment, carried there, or in sealed ones."""

from collections.abc import Iterable
from pathlib import Path

from agentlink.core.facts.record import LineDamaged
from agentlink.core.facts.work import Carried, CarriedLine
from agentlink.core.launch.history import Recorded
from agentlink.journal.ledger import carried_line
from agentlink.journal.segment import verified_line


def segment_path(directory: Path, number: int) -> Path:
    """The file of a segment."""
    return directory / f"{number:06}.jsonl"


def segment_numbers(directory: Path) -> list[int]:
    """The segments that exist, in order. Raises OSError."""
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name[:6]) for name in names if len(name) == 12 and name.endswith(".jsonl") and name[:6].isdigit())


def lines_of(task: str, path: Path, offsets: Iterable[int]) -> list[CarriedLine]:
    """The task's lines at these offsets, proven again; a carried line gives all that it holds.

    Raises LineDamaged when they are not lines of this task, OSError when they cannot be read.
    """
    found: list[CarriedLine] = []
    for offset in offsets:
        line = verified_line(path, offset)
        if line.task == task:
            found.append(carried_line(line))
            continue
        carried = next((fact for fact in line.facts if isinstance(fact, Carried) and fact.task == task), None)
        if carried is None:
            raise LineDamaged("task")
        found = list(carried.lines)
    if [line.n for line in found] != list(range(1, len(found) + 1)):
        raise LineDamaged("n")
    return found


def recorded(lines: Iterable[CarriedLine]) -> tuple[Recorded, ...]:
    """The lines as core reads a task's history."""
    return tuple(Recorded(line.seq, line.at, line.n, line.facts) for line in lines)
