"""The journal as read so far, in memory: the open tasks and those of the current segment, folded."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

from agentlink.core.facts.record import FIRST_SUM, AnyFact, Line, LineDamaged
from agentlink.core.facts.work import (
    Carried,
    CarriedLine,
    Checkpoint,
    Repaired,
    TailSetAside,
    TaskLineFact,
)
from agentlink.core.ids import TaskId
from agentlink.core.launch.claims import Claim
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.kinds import is_open
from agentlink.core.launch.state import IllegalFact, Launch, apply

_OWN_FACTS = (TailSetAside, Carried, Checkpoint, Repaired)
"""What only the journal itself may write."""


class Entry:
    """One task: its folded launch, when it began, and where in the current segment its lines stand.

    The first of `offsets` may be that of a `journal/carried` line, which holds all lines before it.
    """

    __slots__ = ("created_at", "first_seq", "launch", "n", "offsets")

    def __init__(self, first_seq: int, created_at: str) -> None:
        self.launch = Launch()
        self.n = 0
        self.offsets = array("Q")
        self.first_seq = first_seq
        self.created_at = created_at


class Ledger:
    """Takes the verified lines of one segment in order and answers from them. Not thread-safe: the store guards it."""

    def __init__(self, segment: int = 1) -> None:
        self.segment = segment
        self.seq: int | None = 0 if segment == 1 else None
        """The number of the last line; None at the beginning of a segment whose first number is not known."""
        self.sum = FIRST_SUM
        self.offset = 0
        self.checkpoint: Checkpoint | None = None
        self.head_bytes = 0
        """How much of the segment is its head: what it carries, and the checkpoint."""
        self.blocked: dict[str, Repaired] = {}
        self.repaired: set[int] = set()
        self._tasks: dict[str, Entry] = {}
        self._order: list[tuple[int, str]] = []
        self._keys: dict[str, str] = {}
        self._holders: dict[str, None] = {}
        """Ordered, so that every process names the same conflict first."""

    def __len__(self) -> int:
        return len(self._order)

    @property
    def next_seq(self) -> int:
        return (self.seq or 0) + 1

    def follow(self, segment: int) -> None:
        """Goes on with the next segment; what it does not carry is dropped at its checkpoint."""
        self.segment, self.seq, self.sum, self.offset, self.checkpoint = segment, None, FIRST_SUM, 0, None
        self.head_bytes = 0
        for entry in self._tasks.values():
            entry.offsets = array("Q")

    # -- taking lines

    def take(self, line: Line, new_sum: str, *, offset: int, length: int) -> None:
        """Adds the next line, `length` bytes long with its newline. Raises LineDamaged when it cannot follow."""
        if line.task is not None:
            self._take_task_line(line, line.task, offset)
        else:
            self._take_own_line(line, offset)
            if self.checkpoint is not None and not self.head_bytes:
                self.head_bytes = offset + length
        self.seq, self.sum, self.offset = line.seq, new_sum, offset + length

    def _take_task_line(self, line: Line, task: str, offset: int) -> None:
        entry = self._tasks.get(task) or Entry(line.seq, line.at)
        if not line.facts:
            raise LineDamaged("facts")
        if line.n != entry.n + 1:
            raise LineDamaged("n")
        before = entry.launch
        entry.launch = self._folded(before, line.facts)
        entry.n = line.n
        entry.offsets.append(offset)
        # Most lines change neither the key nor the claim: only those that do cost more than the fold.
        launch = entry.launch
        if launch.claim_held is not before.claim_held or launch.attempt != before.attempt:
            self._keep(task, entry)

    def _take_own_line(self, line: Line, offset: int) -> None:
        if line.n != 0:
            raise LineDamaged("n")
        for fact in line.facts:
            match fact:
                case Carried():
                    self._take_carried(fact, offset)
                case Checkpoint():
                    self.checkpoint = fact
                    self._drop_what_was_not_carried()
                case Repaired():
                    self.blocked.update(dict.fromkeys(fact.blocked, fact))
                    self.repaired.add(fact.segment)
                case _:
                    pass

    def _take_carried(self, fact: Carried, offset: int) -> None:
        if not fact.lines:
            raise LineDamaged("facts")
        entry = self._tasks.get(fact.task)
        if entry is None:
            entry = Entry(fact.lines[0].seq, fact.lines[0].at)
            for number, line in enumerate(fact.lines, start=1):
                if line.n != number:
                    raise LineDamaged("n")
                entry.launch = self._folded(entry.launch, line.facts)
            entry.n = len(fact.lines)
        elif len(fact.lines) != entry.n:
            raise LineDamaged("n")
        entry.offsets = array("Q", [offset])
        self._keep(fact.task, entry)

    def _keep(self, task: str, entry: Entry) -> None:
        """Makes the task findable by its age, its request key and its claim."""
        if task not in self._tasks:
            self._tasks[task] = entry
            insort(self._order, (entry.first_seq, task))
        launch = entry.launch
        if launch.key is not None:
            self._keys[launch.key] = task
        if launch.claim_held:
            self._holders[task] = None
        else:
            self._holders.pop(task, None)

    @staticmethod
    def _folded(launch: Launch, facts: Iterable[AnyFact]) -> Launch:
        try:
            for fact in facts:
                if isinstance(fact, _OWN_FACTS):
                    raise LineDamaged("facts")
                launch = apply(launch, fact)
        except IllegalFact:
            raise LineDamaged("facts") from None
        return launch

    def _drop_what_was_not_carried(self) -> None:
        self.drop([task for task, entry in self._tasks.items() if not entry.offsets])

    def drop(self, tasks: Iterable[str]) -> None:
        """Forgets these tasks."""
        for task in tasks:
            entry = self._tasks.pop(task, None)
            self._holders.pop(task, None)
            if entry is not None and entry.launch.key is not None and self._keys.get(entry.launch.key) == task:
                del self._keys[entry.launch.key]
        self._order = sorted((entry.first_seq, task) for task, entry in self._tasks.items())

    # -- answering

    def view(self, task: str) -> TaskView | None:
        entry = self._tasks.get(task)
        if entry is None:
            return None
        return TaskView(TaskId(task), entry.launch, entry.n, entry.created_at)

    def offsets(self, task: str) -> tuple[int, ...]:
        """Where the task's lines stand in the current segment; the first may be a carried one."""
        entry = self._tasks.get(task)
        return () if entry is None else tuple(entry.offsets)

    def tasks(self) -> list[str]:
        """Every task in memory, in the order in which they began."""
        return [task for _, task in self._order]

    def open_tasks(self) -> list[str]:
        """What a new segment has to carry, in the order in which they began."""
        return [task for _, task in self._order if is_open(self._tasks[task].launch)]

    def first_seq(self, task: str) -> int | None:
        entry = self._tasks.get(task)
        return None if entry is None else entry.first_seq

    def held_claims(self) -> Iterator[Claim]:
        for task in self._holders:
            launch = self._tasks[task].launch
            yield Claim(task, launch.cwd, launch.claim_mode)

    def key_owner(self, key: str) -> TaskView | None:
        """The task in memory that owns this key digest; an abandoned task gives its key free."""
        view = self.view(self._keys.get(key, ""))
        return None if view is None or view.launch.abandoned else view

    def newest(
        self, *, before_seq: int | None, limit: int, accept: Callable[[Launch], bool]
    ) -> list[tuple[int, TaskView]]:
        """At most `limit` accepted tasks in memory with their first seq, newest first, that began before it."""
        found: list[tuple[int, TaskView]] = []
        end = len(self._order) if before_seq is None else bisect_left(self._order, (before_seq, ""))
        for index in range(end - 1, -1, -1):
            if len(found) >= limit:
                break
            first_seq, task = self._order[index]
            view = self.view(task)
            if view is not None and accept(view.launch):
                found.append((first_seq, view))
        return found


def carried_line(line: Line) -> CarriedLine:
    """A task's own line in the form in which it is carried on. Raises LineDamaged for a line of the journal itself."""
    facts = tuple(fact for fact in line.facts if isinstance(fact, TaskLineFact))
    if len(facts) != len(line.facts):
        raise LineDamaged("facts")
    return CarriedLine(line.seq, line.at, line.n, facts)
