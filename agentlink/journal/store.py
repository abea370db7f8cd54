"""The file store: what the application's `Store` port asks, over one chained file and its lock (design section 2)."""

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from anyio import to_thread

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchFact
from agentlink.core.facts.record import AnyFact, Line, LineDamaged, LineNewer, decode_line
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

_line_decoder = msgspec.json.Decoder(Line)


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
        with self._mutex:
            try:
                ensure_private_dir(self._directory)
                ensure_private_dir(self._locks)
            except OSError as error:
                raise _unwritable(error.strerror or str(error), self._directory) from error
            with journal_lock(self._lock):
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
        tail = segment.tail_after(self._path, self._ledger.offset)
        if not tail:
            return
        try:
            decode_line(tail, self._ledger.sum, seq=self._ledger.seq + 1)
            whole = True
        except (LineDamaged, LineNewer):
            whole = False
        try:
            if whole:
                segment.append_bytes(self._path, b"\n", at=self._ledger.offset + len(tail))
                self._refresh()
                self._refuse_if_unsound()
                return
            name = segment.set_tail_aside(self._path, tail, offset=self._ledger.offset)
        except segment.WriteFailed as failed:
            raise _unwritable(failed.reason, self._path) from failed
        except OSError as error:
            raise _unwritable(error.strerror or str(error), self._path) from error
        self._write(None, 0, (TailSetAside(file=name, bytes=len(tail)),))

    # -- reading

    def _refresh(self) -> None:
        """Takes in what was appended since the last look; notes what makes the journal unsound."""
        self._start_over_if_replaced()
        try:
            # The head is read first: whatever it acknowledges was in the file before.
            head = read_head(self._head)
            self._problem = segment.read_on(self._path, self._ledger)
        except OSError as error:
            raise Failure(
                Code.JOURNAL_UNWRITABLE,
                f"the journal cannot be read: {error.strerror or error}",
                details={"file": str(self._path)},
            ) from error
        if self._problem is None and head is not None:
            self._problem = self._shortfall(head)

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
            lines = (_line_decoder.decode(segment.line_at(self._path, offset)) for offset in offsets)
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
        return await self._query(lambda ledger: ledger.key_owner(key))

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
        lock = task_lock(self._locks, task)
        try:
            await to_thread.run_sync(acquire, lock)
        except LockHeld:
            raise Failure(
                Code.LAUNCH_IN_PROGRESS, "another process is working on this task right now", task=task
            ) from None
        try:
            yield
        finally:
            lock.release()


def _unwritable(reason: str, path: Path) -> Failure:
    return Failure(Code.JOURNAL_UNWRITABLE, f"the journal cannot be written: {reason}", details={"file": str(path)})
