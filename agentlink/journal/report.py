"""What `journal verify`, `stats` and `show` tell about the files. Read-only."""

from pathlib import Path
from typing import Any

import msgspec

from agentlink.core.facts.record import FIRST_SUM, LineNewer
from agentlink.core.facts.work import Carried, Repaired
from agentlink.journal import segment
from agentlink.journal.journal import Journal
from agentlink.journal.lines import segment_numbers, segment_path
from agentlink.journal.problems import failure_of
from agentlink.journal.sealed import head_of, read_sealed


class _Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base: as `--json` prints it."""


class Verified(_Report, frozen=True, kw_only=True):
    """What a whole reading of the journal found. `lines` counts the provable ones."""

    file: str
    segments: int
    lines: int
    tasks: int
    bytes: int
    unfinished_tail: int = 0
    """Bytes after the last newline: a writer at work, or a torn line that the next append sets aside."""
    set_aside: tuple[str, ...] = ()
    code: str | None = None
    problem: str | None = None
    damage: dict[str, Any] | None = None
    sealed_damage: tuple[dict[str, Any], ...] = ()
    """Damage in sealed segments: it costs the closed tasks there, never an open one."""
    repaired: tuple[str, ...] = ()
    """Segments whose damage a person has accepted: it is no news any more."""


class Stats(_Report, frozen=True, kw_only=True):
    """Sizes, and what a start has to read."""

    segments: int
    bytes: int
    lines: int
    open_tasks: int
    claims_held: int
    tasks_in_memory: int
    current_segment_bytes: int


def verify(journal: Journal) -> Verified:
    """Reads every segment, and proves every line that can be proven."""
    journal.start_over()
    journal.refresh()
    ledger = journal.ledger
    lines, size, tasks = 0, 0, set(ledger.tasks())
    sealed: list[dict[str, Any]] = []
    repaired = set(ledger.repaired)
    for number in range(1, ledger.segment):
        count, found, known = _verify_sealed(journal, number, repaired)
        lines, size, tasks = lines + count, size + _size(journal, number), tasks | known
        sealed += found
    accepted = {segment_path(journal.directory, number).name for number in repaired}
    sealed = [row for row in sealed if row["segment"] not in accepted]
    current = _count_lines(journal)
    tail = segment.tail_after(journal.path, ledger.offset) if journal.problem is None else b""
    failure = failure_of(journal.problem)
    return Verified(
        file=str(journal.path),
        segments=max(ledger.segment, 1),
        lines=lines + current,
        tasks=len(tasks),
        bytes=size + ledger.offset,
        unfinished_tail=len(tail),
        set_aside=tuple(sorted(path.name for path in journal.directory.glob("*.torn"))),
        code=None if failure is None else failure.code.value,
        problem=None if failure is None else failure.message,
        damage=None if journal.problem is None else msgspec.to_builtins(journal.problem),
        sealed_damage=tuple(sealed),
        repaired=tuple(sorted(accepted)),
    )


def _size(journal: Journal, number: int) -> int:
    try:
        return segment_path(journal.directory, number).stat().st_size
    except FileNotFoundError:
        return 0


def _verify_sealed(journal: Journal, number: int, repaired: set[int]) -> tuple[int, list[dict[str, Any]], set[str]]:
    path = segment_path(journal.directory, number)
    count, damage, tasks = 0, [], set()
    last_sum, last_seq = FIRST_SUM, 0
    try:
        for sealed in read_sealed(path):
            if sealed.line is None:
                damage.append({"segment": path.name, "offset": sealed.offset, "reason": sealed.reason})
                continue
            count += 1
            last_seq = sealed.line.seq
            if sealed.line.task is not None:
                tasks.add(sealed.line.task)
            tasks |= {fact.task for fact in sealed.line.facts if isinstance(fact, Carried)}
            repaired |= {fact.segment for fact in sealed.line.facts if isinstance(fact, Repaired)}
        last_sum = _stored_sum(path)
    except FileNotFoundError:
        return 0, [{"segment": path.name, "offset": 0, "reason": "the segment is missing"}], set()
    except LineNewer as newer:
        return count, [{"segment": path.name, "offset": 0, "reason": f"format {newer.version}"}], tasks
    tie = head_of(segment_path(journal.directory, number + 1), after=number).checkpoint
    if tie is not None and not damage and (tie.after_sum, tie.after_seq) != (last_sum, last_seq):
        reason = "its end is not the one that the next segment was begun after"
        damage.append({"segment": path.name, "offset": path.stat().st_size, "reason": reason})
    return count, damage, tasks


def _stored_sum(path: Path) -> str:
    raw = segment.last_lines(path, end=path.stat().st_size, count=1)
    return raw[-1][-18:-2] if raw else FIRST_SUM


def _count_lines(journal: Journal) -> int:
    if not journal.path.exists():
        return 0
    with journal.path.open("rb") as file:
        return file.read(journal.ledger.offset).count(b"\n")


def stats(journal: Journal) -> Stats:
    """How large the journal is and what of it is open."""
    numbers = segment_numbers(journal.directory)
    ledger = journal.ledger
    return Stats(
        segments=len(numbers),
        bytes=sum(_size(journal, number) for number in numbers),
        lines=ledger.seq or 0,
        open_tasks=len(ledger.open_tasks()),
        claims_held=sum(1 for _ in ledger.held_claims()),
        tasks_in_memory=len(ledger),
        current_segment_bytes=ledger.offset,
    )


def newest_lines(journal: Journal, *, task: str | None, last: int) -> tuple[str, ...]:
    """The newest lines as they stand in the current segment, oldest first."""
    if task is None:
        return segment.last_lines(journal.path, end=journal.ledger.offset, count=last)
    offsets = journal.ledger.offsets(task)
    if offsets:
        return tuple(segment.line_at(journal.path, offset).decode() for offset in offsets[-last:])
    lines = journal.lines(task)
    return tuple(msgspec.json.encode(line).decode() for line in lines[-last:])
