"""The journal as read so far, in memory: every task's launch, and where its lines stand in the file."""

from array import array
from collections.abc import Callable, Iterator

from agentlink.core.facts.launch import LaunchRequested
from agentlink.core.facts.record import FIRST_SUM, Line, LineDamaged
from agentlink.core.facts.work import TailSetAside
from agentlink.core.ids import TaskId
from agentlink.core.launch.claims import Claim
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import IllegalFact, Launch, apply


class Entry:
    """One task: its folded launch, when it began, and the offset of each of its lines."""

    __slots__ = ("created_at", "index", "launch", "offsets")

    def __init__(self, index: int, created_at: str) -> None:
        self.launch = Launch()
        self.offsets = array("Q")
        self.index = index
        self.created_at = created_at


class Ledger:
    """Takes verified lines in order and answers from them. Not thread-safe: the store guards it."""

    def __init__(self) -> None:
        self.seq = 0
        self.sum = FIRST_SUM
        self.offset = 0
        self._tasks: dict[str, Entry] = {}
        self._order: list[str] = []
        self._keys: dict[str, str] = {}
        self._holders: dict[str, None] = {}
        """Ordered, so that every process names the same conflict first."""

    def __len__(self) -> int:
        return len(self._order)

    def take(self, line: Line, new_sum: str, *, offset: int, length: int) -> None:
        """Adds the next line, `length` bytes long with its newline. Raises LineDamaged when it cannot follow."""
        if line.task is not None:
            self._take_task_line(line, line.task, offset)
        elif line.n != 0:
            raise LineDamaged("n")
        self.seq, self.sum, self.offset = line.seq, new_sum, offset + length

    def _take_task_line(self, line: Line, task: str, offset: int) -> None:
        entry = self._tasks.get(task)
        known = entry is not None
        if entry is None:
            entry = Entry(len(self._order), line.at)
        if not line.facts:
            raise LineDamaged("facts")
        if line.n != len(entry.offsets) + 1:
            raise LineDamaged("n")
        launch = self._folded(entry.launch, line)
        entry.launch = launch
        entry.offsets.append(offset)
        if not known:
            self._tasks[task] = entry
            self._order.append(task)
        if launch.key is not None and any(isinstance(fact, LaunchRequested) for fact in line.facts):
            self._keys[launch.key] = task
        if launch.claim_held:
            self._holders[task] = None
        else:
            self._holders.pop(task, None)

    @staticmethod
    def _folded(launch: Launch, line: Line) -> Launch:
        try:
            for fact in line.facts:
                if isinstance(fact, TailSetAside):
                    raise LineDamaged("facts")
                launch = apply(launch, fact)
        except IllegalFact:
            raise LineDamaged("facts") from None
        return launch

    def view(self, task: str) -> TaskView | None:
        entry = self._tasks.get(task)
        if entry is None:
            return None
        return TaskView(TaskId(task), entry.launch, len(entry.offsets), entry.created_at)

    def offsets(self, task: str) -> tuple[int, ...]:
        entry = self._tasks.get(task)
        return () if entry is None else tuple(entry.offsets)

    def held_claims(self) -> Iterator[Claim]:
        for task in self._holders:
            launch = self._tasks[task].launch
            yield Claim(task, launch.cwd, launch.claim_mode)

    def key_owner(self, key: str) -> TaskView | None:
        """The task that owns this key digest; an abandoned task gives its key free."""
        view = self.view(self._keys.get(key, ""))
        return None if view is None or view.launch.abandoned else view

    def newest(self, *, before: str | None, limit: int, accept: Callable[[Launch], bool]) -> list[TaskView]:
        """At most `limit` accepted tasks, newest first, that began before `before`."""
        entry = self._tasks.get(before) if before is not None else None
        found: list[TaskView] = []
        for index in range((len(self._order) if entry is None else entry.index) - 1, -1, -1):
            if len(found) >= limit:
                break
            view = self.view(self._order[index])
            if view is not None and accept(view.launch):
                found.append(view)
        return found
