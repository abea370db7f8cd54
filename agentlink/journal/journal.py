"""The journal's own work, synchronous: refresh, append, rotate, look up. It runs in a worker thread as whole calls.

Whoever calls holds the store's mutex; a method that says so needs the journal lock too.
"""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentlink.core.errors import Failure
from agentlink.core.facts.record import AnyFact, LineDamaged, LineNewer, decode_line
from agentlink.core.facts.work import Carried, CarriedLine, Repaired, TailSetAside, TaskLineFact
from agentlink.core.ids import TaskId
from agentlink.core.launch.claims import Claim
from agentlink.core.launch.history import StaleTask, TaskView
from agentlink.core.launch.kinds import KINDS, Kind
from agentlink.core.launch.state import Launch, apply
from agentlink.files.private import fsync_dir
from agentlink.journal import head as heads
from agentlink.journal import rotate, segment
from agentlink.journal.index import Index, IndexedTask
from agentlink.journal.ledger import Ledger
from agentlink.journal.lines import lines_of, segment_numbers, segment_path
from agentlink.journal.problems import Problem, blocked, damaged, failure_of, unprovable, unreadable, unwritable, why
from agentlink.journal.sealed import folded, index_segment

Rule = Callable[["Journal"], None]
T = TypeVar("T")


class Journal:
    """One home's journal as this process has read it so far. Answers what a rule may ask (`JournalView`)."""

    def __init__(self, directory: Path, *, clock: Callable[[], str]) -> None:
        self.directory = directory
        self.ledger = Ledger()
        self.problem: Problem | None = None
        self._head = directory / "head"
        self._clock = clock
        self._index = Index(directory / "index.sqlite")
        self._covered: set[int] = set()
        self._begun = False

    @property
    def path(self) -> Path:
        """The current segment's file."""
        return segment_path(self.directory, self.ledger.segment)

    # -- reading on

    def refresh(self) -> None:
        """Takes in what was appended since the last look; notes what makes the journal unsound."""
        try:
            self._begin()
            self.problem = self._read_on()
            if self.problem is not None:
                # Without the lock a reader can meet a head half written, or a tail that was cut off and written over
                # between two of its reads. Only what a second look shows too is damage.
                self.problem = self._read_on()
        except OSError as error:
            raise unreadable(why(error), self.path) from error

    def _begin(self) -> None:
        """At first, and when the file was replaced under us: start at the newest segment, which carries the open."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if not self._begun or size < self.ledger.offset:
            self.start_over()

    def start_over(self) -> None:
        """Forgets what was read and begins with the newest segment. Raises OSError."""
        numbers = segment_numbers(self.directory)
        self.ledger = Ledger(numbers[-1] if numbers else 1)
        self._begun = bool(numbers)

    def _read_on(self) -> Problem | None:
        # The head is read first: whatever it acknowledges was in the files before.
        head = heads.read_head(self._head)
        while True:
            following = self.ledger.segment + 1
            # Looked for before the end of this one is read: then this one is sealed, and its end is its end.
            sealed = segment_path(self.directory, following).exists()
            problem = segment.read_on(self.path, self.ledger)
            if not sealed:
                break
            if problem is None:
                self.ledger.follow(following)
            else:
                # Sealed by a repair: what could be proven is carried in the newest segment.
                self.start_over()
        if problem is None and self.ledger.segment > 1 and self.ledger.checkpoint is None:
            return segment.Damage(self.path.name, self.ledger.next_seq, self.ledger.offset, "no checkpoint")
        return problem or self._shortfall(head)

    def _shortfall(self, head: heads.Head | None) -> Problem | None:
        ledger = self.ledger
        if head is None:
            return None
        name, missing = head.segment, None
        if name > self.path.name or (name == self.path.name and head.seq > (ledger.seq or 0)):
            missing = f"acknowledged seq {head.seq} missing"
        elif name == self.path.name and head.seq == ledger.seq and head.sum != ledger.sum:
            missing = f"acknowledged seq {head.seq} differs"
        return None if missing is None else segment.Damage(name, head.seq, ledger.offset, missing)

    def refuse_if_unsound(self) -> None:
        """Raises Failure journal_corrupt or journal_newer."""
        failure = failure_of(self.problem)
        if failure is not None:
            raise failure

    # -- writing, under the journal lock

    def append(
        self,
        task: TaskId,
        facts: tuple[TaskLineFact, ...],
        *,
        expected_n: int,
        rule: Rule | None,
    ) -> TaskView:
        """One durable line; see `agentlink.app.ports.Store.append`. Needs the journal lock."""
        self.refresh()
        self.refuse_if_unsound()
        self._mend_tail()
        self._rotate_if_full()
        if expected_n:
            self._bring_along(task)
        view = self.ledger.view(task)
        found = view.n if view else 0
        if found != expected_n:
            raise StaleTask(task, expected=expected_n, found=found)
        launch = view.launch if view else Launch()
        for fact in facts:
            launch = apply(launch, fact)
        if rule is not None:
            rule(self)
        self._write(task, found + 1, facts)
        written = self.ledger.view(task)
        if written is None:  # pragma: no cover  (the line was taken a moment ago)
            raise AssertionError(task)
        return written

    def _write(self, task: str | None, n: int, facts: tuple[AnyFact, ...]) -> None:
        try:
            if self.ledger.segment > 1 and self.ledger.offset == self.ledger.head_bytes:
                fsync_dir(self.directory)  # whoever began the segment may have died before its entry was flushed
        except OSError as error:
            raise unwritable(why(error), self.directory) from error
        try:
            segment.append_line(self.path, self.ledger, task, n, facts, self._clock())
        except segment.WriteFailed as failed:
            if failed.may_stand:
                self.refresh()
            raise unwritable(failed.reason, self.path) from failed
        self._note_end()

    def _note_end(self) -> None:
        ledger = self.ledger
        try:
            heads.write_head(self._head, heads.Head(self.path.name, ledger.seq or 0, ledger.sum, ledger.offset))
        except OSError as error:
            # The line itself is safe; an older head only makes a later loss harder to notice.
            raise unwritable(f"the line stands, but its end could not be noted: {error}", self._head) from error

    def _mend_tail(self) -> None:
        """Completes a whole last line that lacks only its newline, sets anything else aside."""
        offset = self.ledger.offset
        try:
            tail = segment.tail_after(self.path, offset)
            if tail and self._is_whole(tail):
                segment.append_bytes(self.path, b"\n", at=offset + len(tail))
                self.refresh()
                self.refuse_if_unsound()
                return
            if tail:
                segment.set_tail_aside(self.path, tail, offset=offset)
            # Asked even without a tail: whoever cut one off may have died before this line.
            torn = segment.torn_at(self.path, offset)
            pieces = tuple(TailSetAside(file=piece.name, bytes=piece.stat().st_size) for piece in torn)
        except segment.WriteFailed as failed:
            raise unwritable(failed.reason, self.path) from failed
        except OSError as error:
            raise unwritable(why(error), self.path) from error
        if pieces:
            self._write(None, 0, pieces)

    def _is_whole(self, tail: bytes) -> bool:
        """Whether the tail is a line that lacks only its newline. Raises Failure journal_newer for a newer one."""
        try:
            decode_line(tail, self.ledger.sum, seq=self.ledger.next_seq)
        except LineNewer as newer:
            self.problem = segment.Newer(self.path.name, self.ledger.next_seq, newer.version)
            self.refuse_if_unsound()
        except LineDamaged:
            return False
        return True

    def _rotate_if_full(self) -> None:
        ledger = self.ledger
        # What is carried must not fill the next segment at once: it is written again only once as much has come.
        if ledger.offset - ledger.head_bytes < max(rotate.SEGMENT_BYTES, ledger.head_bytes):
            return
        try:
            rotate.begin_segment(self.directory, self.ledger, at=self._clock(), next_seq=self.ledger.next_seq)
        except OSError as error:
            if segment_path(self.directory, ledger.segment + 1).exists():
                # It stands, but perhaps not for good: no line may follow before its entry is flushed.
                self.refresh()
                raise unwritable(why(error), self.path) from error
            # A segment may be longer than it should: the append says whether the disk can take a line at all.
            return
        except LineDamaged as error:
            self.problem = segment.Damage(self.path.name, self.ledger.seq or 0, self.ledger.offset, error.reason)
            self.refuse_if_unsound()
        self.refresh()
        self.refuse_if_unsound()
        self._note_end()

    def begin_repaired(self, ledger: Ledger, lost: Repaired) -> None:
        """Seals a damaged segment with what `ledger` could prove of it. Raises Failure."""
        try:
            rotate.begin_segment(self.directory, ledger, at=self._clock(), own=(lost,), next_seq=lost.to_seq + 1)
        except (OSError, LineDamaged) as error:
            raise unwritable(str(error), self.path) from error
        self.start_over()
        self.refresh()
        self.refuse_if_unsound()
        self._note_end()

    def acknowledged_seq(self) -> int:
        """The number of the last line that some caller was told is safe, 0 when none is noted."""
        head = heads.read_head(self._head)
        return 0 if head is None else head.seq

    def _bring_along(self, task: str) -> None:
        """A closed task that goes on is carried into the current segment first, so that nothing has to look back."""
        if self.ledger.view(task) is None:
            lines = self._sealed_lines(task)
            if lines:
                self._write(None, 0, (Carried(task=task, lines=tuple(lines)),))

    # -- looking up

    def held_claims(self) -> Iterator[Claim]:
        return self.ledger.held_claims()

    def key_owner(self, key: str) -> TaskView | None:
        """The task that owns this key digest and has not abandoned it. Raises Failure when that cannot be told."""
        owner = self.ledger.key_owner(key)
        if owner is None and self._sealed():
            task = self._ask(lambda index: index.owner(key))
            if task is not None and self.ledger.view(task) is None:
                owner = self.view(task)
        if owner is None:
            self.refuse_if_unsound()
            if self._lines_are_lost():
                raise unprovable("whether this request key was used before")
        return None if owner is None or owner.launch.abandoned else owner

    def _lines_are_lost(self) -> bool:
        """Whether some line of the journal is gone, so that "there is none" cannot be proven any more."""
        return bool(self.ledger.repaired) or (self._sealed() and self._ask(lambda index: index.lost_lines()) > 0)

    def view(self, task: str) -> TaskView | None:
        """The task as it is, wherever its lines are. Raises Failure when that cannot be told."""
        view = self.ledger.view(task)
        if view is not None:
            return view
        if task in self.ledger.blocked:
            lost = self.ledger.blocked[task]
            raise blocked(task, lost.reason, segment_path(self.directory, lost.segment).name)
        lines = self._sealed_lines(task)
        if not lines:
            # "No such task" would be a guess while its lines may be in a part that cannot be read.
            self.refuse_if_unsound()
            if self._lines_are_lost():
                raise unprovable(f"whether there was a task {task}")
            return None
        return _view(task, lines)

    def lines(self, task: str) -> list[CarriedLine]:
        """Every line of the task, proven once more. Raises Failure."""
        offsets = self.ledger.offsets(task)
        if not offsets:
            return self._sealed_lines(task)
        return self._proven(task, self.path, offsets)

    def _proven(self, task: str, path: Path, offsets: "tuple[int, ...]") -> list[CarriedLine]:
        try:
            return lines_of(task, path, offsets)
        except (LineDamaged, LineNewer) as error:
            raise blocked(task, str(error), path.name) from error
        except OSError as error:
            raise unreadable(why(error), path) from error

    def _sealed_lines(self, task: str) -> list[CarriedLine]:
        """The task's lines in sealed segments; its last span holds or carries all of them."""
        if not self._sealed():
            return []
        known = self._ask(lambda index: index.task(task))
        if known is None:
            return []
        spans = self._ask(lambda index: index.spans(task))
        path = segment_path(self.directory, spans[-1][0])
        if known.blocked is not None:
            raise blocked(task, known.blocked, path.name)
        return self._proven(task, path, tuple(spans[-1][1]))

    def newest(self, *, limit: int, before: str | None, kind: Kind | None) -> list[TaskView]:
        """Tasks of that kind, newest first, that began before the task `before`."""
        before_seq = None if before is None else self._first_seq(before)
        accept = KINDS[kind] if kind is not None else (lambda _: True)
        rows = self.ledger.newest(before_seq=before_seq, limit=limit, accept=accept)
        if self._sealed() and kind not in ("unfinished", "claimed", "unprompted"):
            # Those kinds are open, and what is open is in memory.
            rows += self._closed(before_seq, limit, kind)
            rows.sort(key=lambda row: row[0], reverse=True)
        if not rows:
            self.refuse_if_unsound()
        return [view for _, view in rows[:limit]]

    def _closed(self, before_seq: int | None, limit: int, kind: Kind | None) -> list[tuple[int, TaskView]]:
        found: list[tuple[int, TaskView]] = []
        while len(found) < limit:
            page = self._ask(partial(Index.newest, before_seq=before_seq, limit=limit, kind=kind))
            closed = [known for known in page if self.ledger.view(known.task) is None]
            found += [(known.first_seq, self._listed(known)) for known in closed]
            if len(page) < limit:
                break
            before_seq = page[-1].first_seq
        return found

    def _listed(self, known: IndexedTask) -> TaskView:
        try:
            return _view(known.task, self._sealed_lines(known.task))
        except Failure:
            # A list shows that the task exists; asking for it says what is wrong.
            return TaskView(TaskId(known.task), Launch(state="unreadable"), 0, known.created_at)

    def _first_seq(self, task: str) -> int | None:
        first = self.ledger.first_seq(task)
        if first is not None or not self._sealed():
            return first
        known = self._ask(lambda index: index.task(task))
        return None if known is None else known.first_seq

    # -- the index of sealed segments

    def _sealed(self) -> bool:
        return self.ledger.segment > 1

    def _ask(self, question: Callable[[Index], T]) -> T:
        """Asks the index, covering every sealed segment. Raises Failure when one is missing or cannot be read."""
        try:
            return question(self._indexed())
        except sqlite3.Error:
            # An index in memory tells the same, at the price of reading the sealed segments.
            self._index.use_memory()
            self._covered = set()
            return question(self._indexed())

    def _indexed(self) -> Index:
        known = len(self._covered) == self.ledger.segment - 1
        if not known or not self._index.covers(self.ledger.segment):
            self._cover()
        return self._index

    def _cover(self) -> None:
        sizes = {}
        for number in range(1, self.ledger.segment):
            path = segment_path(self.directory, number)
            try:
                sizes[number] = path.stat().st_size
            except FileNotFoundError:
                raise damaged(segment.Damage(path.name, 0, 0, "the segment is missing")) from None
            except OSError as error:
                raise unreadable(why(error), path) from error
        covered = self._index.covered()
        if any(sizes.get(number) != size for number, size in covered.items() if number in sizes):
            self._index.forget_all()
            covered = {}
        for number in sorted(set(sizes) - set(covered)):
            try:
                index_segment(self.directory, self._index, number)
            except OSError as error:
                raise unreadable(why(error), segment_path(self.directory, number)) from error
            except LineNewer as newer:
                name = segment_path(self.directory, number).name
                raise damaged(segment.Newer(name, 0, newer.version)) from newer
        self._covered = set(sizes)

    def close(self) -> None:
        """Closes the index file."""
        self._index.close()


def _view(task: str, lines: list[CarriedLine]) -> TaskView:
    launch, problem = folded(lines)
    if problem is not None:
        raise blocked(task, problem, "a sealed segment")
    return TaskView(TaskId(task), launch, len(lines), lines[0].at)
