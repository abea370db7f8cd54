"""The file store: what the application's `Store` port asks, over one chained file and its lock (design section 2)."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar, assert_never

import msgspec
from anyio import to_thread

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchFact
from agentlink.core.facts.record import AnyFact, LineDamaged, LineNewer, decode_line
from agentlink.core.facts.work import ClaimReleased, TailSetAside
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import Recorded, StaleTask, TaskView
from agentlink.core.launch.state import Launch, apply
from agentlink.files.private import ensure_private_dir
from agentlink.journal import segment
from agentlink.journal.head import Head, read_head, write_head
from agentlink.journal.ledger import Ledger
from agentlink.journal.locks import JOURNAL_TIMEOUT_S, LockHeld, acquire, journal_lock, make_lock, sign, task_lock

T = TypeVar("T")


class Verified(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a whole reading of the journal found. `lines` counts the provable ones."""

    file: str
    lines: int
    tasks: int
    bytes: int
    unfinished_tail: int = 0
    """Bytes after the last newline: a writer at work, or a torn line that the next append sets aside."""
    set_aside: tuple[str, ...] = ()
    code: str | None = None
    problem: str | None = None
    damage: dict[str, Any] | None = None


class FileStore:
    """The journal in `<home>/journal`. Safe for any number of threads and processes on one machine."""

    def __init__(self, home: Path, *, clock: Callable[[], str]) -> None:
        self._directory = home / "journal"
        self._locks = home / "locks"
        self._path = self._directory / "000001.jsonl"
        self._head = self._directory / "head"
        self._clock = clock
        self._ledger = Ledger()
        self._problem: segment.Damage | segment.Newer | None = None
        self._mutex = threading.Lock()
        self._writers = threading.Lock()
        self._lock = make_lock(self._locks / "journal.lock", timeout_s=JOURNAL_TIMEOUT_S)

    # -- writing

    async def append(
        self,
        task: TaskId,
        facts: Sequence[LaunchFact | ClaimReleased],
        *,
        expected_n: int,
        rule: Callable[[Ledger], None] | None = None,
    ) -> TaskView:
        """One durable line for `task`; see `agentlink.app.ports.Store.append`."""
        # A cancelled caller still learns what the thread did: run_sync waits for it unless told otherwise.
        return await to_thread.run_sync(self._append, task, tuple(facts), expected_n, rule)

    def _append(
        self,
        task: TaskId,
        facts: tuple[LaunchFact | ClaimReleased, ...],
        expected_n: int,
        rule: Callable[[Ledger], None] | None,
    ) -> TaskView:
        if not facts:
            raise ValueError("a line holds at least one fact")
        try:
            ensure_private_dir(self._directory)
            ensure_private_dir(self._locks)
        except OSError as error:
            raise _unwritable(_why(error), self._directory) from error
        with self._turn(), journal_lock(self._lock), self._mutex:
            sign(self._lock)
            self._refresh()
            self._refuse_if_unsound()
            self._mend_tail()
            view = self._ledger.view(task)
            found = view.n if view else 0
            if found != expected_n:
                raise StaleTask(task, expected=expected_n, found=found)
            launch = view.launch if view else Launch()
            for fact in facts:
                launch = apply(launch, fact)
            if rule is not None:
                rule(self._ledger)
            self._write(task, found + 1, facts)
            written = self._ledger.view(task)
            if written is None:  # pragma: no cover  (the line was taken a moment ago)
                raise AssertionError(task)
            return written

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One writer of this process at a time, before the lock between processes; readers never wait for that one."""
        if not self._writers.acquire(timeout=self._lock.timeout):
            raise Failure(
                Code.LOCK_TIMEOUT,
                f"other writers of this process waited for the journal for more than {self._lock.timeout:g} s",
                details={"lock": self._lock.lock_file, "holder": "this process"},
            )
        try:
            yield
        finally:
            self._writers.release()

    def _write(self, task: str | None, n: int, facts: tuple[AnyFact, ...]) -> None:
        try:
            segment.append_line(self._path, self._ledger, task, n, facts, self._clock())
        except segment.WriteFailed as failed:
            if failed.may_stand:
                self._refresh()
            raise _unwritable(failed.reason, self._path) from failed
        try:
            write_head(self._head, self._end())
        except OSError as error:
            # The line itself is safe; an older head only makes a later loss harder to notice.
            raise _unwritable(f"the line stands, but its end could not be noted: {error}", self._head) from error

    def _end(self) -> Head:
        return Head(self._path.name, self._ledger.seq, self._ledger.sum, self._ledger.offset)

    def _mend_tail(self) -> None:
        """Under the lock: completes a whole last line that lacks only its newline, sets anything else aside."""
        offset = self._ledger.offset
        try:
            tail = segment.tail_after(self._path, offset)
            if tail and self._is_whole(tail):
                segment.append_bytes(self._path, b"\n", at=offset + len(tail))
                self._refresh()
                self._refuse_if_unsound()
                return
            if tail:
                segment.set_tail_aside(self._path, tail, offset=offset)
            # Asked even without a tail: whoever cut one off may have died before this line.
            pieces = tuple(TailSetAside(file=torn.name, bytes=torn.stat().st_size) for torn in self._torn_here())
        except segment.WriteFailed as failed:
            raise _unwritable(failed.reason, self._path) from failed
        except OSError as error:
            raise _unwritable(_why(error), self._path) from error
        if pieces:
            self._write(None, 0, pieces)

    def _torn_here(self) -> tuple[Path, ...]:
        return segment.torn_at(self._path, self._ledger.offset)

    def _is_whole(self, tail: bytes) -> bool:
        """Whether the tail is a line that lacks only its newline. Raises Failure journal_newer for a newer one."""
        try:
            decode_line(tail, self._ledger.sum, seq=self._ledger.seq + 1)
        except LineNewer as newer:
            self._problem = segment.Newer(self._path.name, self._ledger.seq + 1, newer.version)
            self._refuse_if_unsound()
        except LineDamaged:
            return False
        return True

    # -- reading

    def _refresh(self) -> None:
        """Takes in what was appended since the last look; notes what makes the journal unsound."""
        try:
            self._start_over_if_replaced()
            self._problem = self._read_on()
            if self._problem is not None:
                # Without the lock a reader can meet a head half written, or a tail that was cut off and written over
                # between two of its reads. Only what a second look shows too is damage.
                self._problem = self._read_on()
        except OSError as error:
            raise _unreadable(_why(error), self._path) from error

    def _read_on(self) -> segment.Damage | segment.Newer | None:
        # The head is read first: whatever it acknowledges was in the file before.
        head = read_head(self._head)
        problem = segment.read_on(self._path, self._ledger)
        return self._shortfall(head) if problem is None and head is not None else problem

    def _shortfall(self, head: Head) -> segment.Damage | None:
        ledger = self._ledger
        if head.seq > ledger.seq:
            return segment.Damage(head.segment, head.seq, ledger.offset, f"acknowledged seq {head.seq} missing")
        if head.seq == ledger.seq and head.sum != ledger.sum:
            return segment.Damage(head.segment, head.seq, ledger.offset, f"acknowledged seq {head.seq} differs")
        return None

    def _refuse_if_unsound(self) -> None:
        problem = self.problem_of(self._problem)
        if problem is not None:
            raise problem

    @staticmethod
    def problem_of(problem: segment.Damage | segment.Newer | None) -> Failure | None:
        """The failure that this problem means to a writer."""
        match problem:
            case None:
                return None
            case segment.Newer():
                return Failure(
                    Code.JOURNAL_NEWER,
                    f"line {problem.line} has format {problem.version}; this version only reads older ones",
                    details=msgspec.to_builtins(problem),
                )
            case segment.Damage():
                return Failure(
                    Code.JOURNAL_CORRUPT,
                    f"the journal is damaged at line {problem.line} ({problem.reason})",
                    details=msgspec.to_builtins(problem),
                )
            case _ as never:
                assert_never(never)

    async def _query(self, ask: Callable[[Ledger], T]) -> T:
        def run() -> T:
            with self._mutex:
                self._refresh()
                return ask(self._ledger)

        return await to_thread.run_sync(run)

    def _start_over_if_replaced(self) -> None:
        """A journal shorter than what was read of it was replaced under us: read it from its beginning."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < self._ledger.offset:
            self._ledger = Ledger()

    async def problem(self) -> Failure | None:
        """Why nothing can be appended now, as far as reading shows; None when the journal is sound."""
        await self._query(lambda _: None)
        return self.problem_of(self._problem)

    async def task(self, task: TaskId) -> TaskView | None:
        view = await self._query(lambda ledger: ledger.view(task))
        if view is None and self._problem is not None:
            # "No such task" would be a guess: its lines may be in the part that cannot be read.
            self._refuse_if_unsound()
        return view

    async def history(self, task: TaskId) -> tuple[Recorded, ...]:
        offsets = await self._query(lambda ledger: ledger.offsets(task))

        def read() -> tuple[Recorded, ...]:
            # Proven once more: since it was first read, the file may have been damaged.
            try:
                lines = [segment.verified_line(self._path, offset) for offset in offsets]
            except (LineDamaged, LineNewer) as damaged:
                raise Failure(
                    Code.JOURNAL_CORRUPT,
                    f"a line of {task} that was sound is damaged now: {damaged}",
                    task=task,
                    details={"segment": self._path.name},
                ) from damaged
            except OSError as error:
                raise _unreadable(_why(error), self._path) from error
            return tuple(Recorded(line.seq, line.at, line.n, line.facts) for line in lines)  # type: ignore[arg-type]

        return await to_thread.run_sync(read)

    async def page(
        self, *, limit: int, before: TaskId | None, accept: Callable[[Launch], bool]
    ) -> tuple[TaskView, ...]:
        rows = await self._query(lambda ledger: ledger.newest(before=before, limit=limit, accept=accept))
        if not rows and self._problem is not None:
            self._refuse_if_unsound()
        return tuple(rows)

    async def verify(self) -> Verified:
        """Reads the whole journal anew, whatever was read before."""

        def run() -> Verified:
            with self._mutex:
                self._ledger = Ledger()
                self._refresh()
                ledger = self._ledger
                tail = segment.tail_after(self._path, ledger.offset) if self._problem is None else b""
                torn = tuple(sorted(path.name for path in self._directory.glob("*.torn")))
                failure = self.problem_of(self._problem)
                return Verified(
                    file=str(self._path),
                    lines=ledger.seq,
                    tasks=len(ledger),
                    bytes=ledger.offset,
                    unfinished_tail=len(tail),
                    set_aside=torn,
                    code=None if failure is None else failure.code.value,
                    problem=None if failure is None else failure.message,
                    damage=None if self._problem is None else msgspec.to_builtins(self._problem),
                )

        return await to_thread.run_sync(run)

    async def lines(self, *, task: TaskId | None, last: int) -> tuple[str, ...]:
        """The newest lines as they stand in the file, of one task or of all; at most `last`."""

        def run() -> tuple[str, ...]:
            with self._mutex:
                self._refresh()
                offsets = None if task is None else self._ledger.offsets(task)[-last:]
                end = self._ledger.offset
            if offsets is None:
                return segment.last_lines(self._path, end=end, count=last)
            return tuple(segment.line_at(self._path, offset).decode() for offset in offsets)

        return await to_thread.run_sync(run)

    async def check(self, rule: Callable[[Ledger], None]) -> None:
        await self._query(rule)
        self._refuse_if_unsound()

    async def key_owner(self, key: str) -> TaskView | None:
        owner = await self._query(lambda ledger: ledger.key_owner(key))
        if owner is None:
            self._refuse_if_unsound()
        return owner

    async def sibling_sessions(self, *, host: str, origin: str, but: str | None) -> tuple[str, ...]:
        def accept(launch: Launch) -> bool:
            session = launch.session
            return launch.host == host and launch.origin == origin and session not in (None, but)

        rows = await self._query(lambda ledger: ledger.newest(before=None, limit=8, accept=accept))
        return tuple(row.launch.session for row in rows if row.launch.session is not None)

    # -- the task lock

    @asynccontextmanager
    async def drive(self, task: TaskId) -> AsyncIterator[None]:
        """Holds the task lock: whoever holds it is the only one that appends for the task."""
        try:
            lock = await to_thread.run_sync(task_lock, self._locks, task)
            await to_thread.run_sync(acquire, lock)
        except OSError as error:
            raise _unwritable(_why(error), self._locks) from error
        except LockHeld:
            raise Failure(
                Code.LAUNCH_IN_PROGRESS, "another process is working on this task right now", task=task
            ) from None
        try:
            yield
        finally:
            lock.release()


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def _unreadable(reason: str, path: Path) -> Failure:
    return Failure(Code.JOURNAL_UNWRITABLE, f"the journal cannot be read: {reason}", details={"file": str(path)})


def _unwritable(reason: str, path: Path) -> Failure:
    return Failure(Code.JOURNAL_UNWRITABLE, f"the journal cannot be written: {reason}", details={"file": str(path)})
