"""The file store: the application's `Store` port over the journal's files and locks (design section 2)."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import TaskLineFact
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import Recorded, TaskView
from agentlink.core.launch.kinds import Kind
from agentlink.files.private import ensure_private_dir
from agentlink.journal import repair, report
from agentlink.journal.journal import Journal, Rule
from agentlink.journal.lines import recorded
from agentlink.journal.locks import JOURNAL_TIMEOUT_S, LockHeld, acquire, journal_lock, make_lock, sign, task_lock
from agentlink.journal.problems import failure_of, unwritable, why

T = TypeVar("T")


class FileStore:
    """The journal in `<home>/journal`. Safe for any number of threads and processes on one machine."""

    def __init__(self, home: Path, *, clock: Callable[[], str]) -> None:
        self._locks = home / "locks"
        self._journal = Journal(home / "journal", clock=clock)
        self._mutex = threading.Lock()
        self._writers = threading.Lock()
        self._lock = make_lock(self._locks / "journal.lock", timeout_s=JOURNAL_TIMEOUT_S)

    def close(self) -> None:
        """Closes the index file; the store can be used again."""
        with self._mutex:
            self._journal.close()

    # -- writing

    async def append(
        self,
        task: TaskId,
        facts: Sequence[TaskLineFact],
        *,
        expected_n: int,
        rule: Rule | None = None,
    ) -> TaskView:
        """One durable line for `task`; see `agentlink.app.ports.Store.append`."""
        # A cancelled caller still learns what the thread did: run_sync waits for it unless told otherwise.
        return await to_thread.run_sync(self._append, task, tuple(facts), expected_n, rule)

    def _append(
        self,
        task: TaskId,
        facts: tuple[TaskLineFact, ...],
        expected_n: int,
        rule: Rule | None,
    ) -> TaskView:
        if not facts:
            raise ValueError("a line holds at least one fact")
        with self._writing():
            return self._journal.append(task, facts, expected_n=expected_n, rule=rule)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The journal lock, and this process's readers kept out. Raises Failure."""
        try:
            ensure_private_dir(self._journal.directory)
            ensure_private_dir(self._locks)
        except OSError as error:
            raise unwritable(why(error), self._journal.directory) from error
        with self._turn(), journal_lock(self._lock), self._mutex:
            sign(self._lock)
            yield

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

    async def repair(self, *, accept: str | None) -> repair.Plan | None:
        """What a repair would do, or None for a sound journal; done when `accept` is that plan's digest."""

        def run() -> repair.Plan | None:
            with self._writing():
                return repair.repair(self._journal, accept=accept)

        return await to_thread.run_sync(run)

    # -- reading

    async def _query(self, ask: Callable[[Journal], T]) -> T:
        def run() -> T:
            with self._mutex:
                self._journal.refresh()
                return ask(self._journal)

        return await to_thread.run_sync(run)

    async def problem(self) -> Failure | None:
        """Why nothing can be appended now, as far as reading shows; None when the journal is sound."""
        return await self._query(lambda journal: failure_of(journal.problem))

    async def task(self, task: TaskId) -> TaskView | None:
        return await self._query(lambda journal: journal.view(task))

    async def history(self, task: TaskId) -> tuple[Recorded, ...]:
        return await self._query(lambda journal: recorded(journal.lines(task)))

    async def page(self, *, limit: int, before: TaskId | None = None, kind: Kind | None = None) -> tuple[TaskView, ...]:
        return tuple(await self._query(lambda journal: journal.newest(limit=limit, before=before, kind=kind)))

    async def check(self, rule: Rule) -> None:
        def ask(journal: Journal) -> None:
            rule(journal)
            journal.refuse_if_unsound()

        await self._query(ask)

    async def key_owner(self, key: str) -> TaskView | None:
        return await self._query(lambda journal: journal.key_owner(key))

    async def sibling_sessions(
        self, *, host: str, origin: str, binding: str | None, but: str | None
    ) -> tuple[str, ...]:
        def ask(journal: Journal) -> tuple[str, ...]:
            launches = [view.launch for view in journal.newest(limit=64, before=None, kind="with-session")]
            sessions = [
                launch.session
                for launch in launches
                if launch.session is not None
                and (launch.host, launch.origin, launch.binding) == (host, origin, binding)
            ]
            return tuple(session for session in sessions if session is not None and session != but)[:8]

        return await self._query(ask)

    async def verify(self) -> report.Verified:
        """Reads the whole journal anew, whatever was read before."""
        return await self._query(report.verify)

    async def stats(self) -> report.Stats:
        """How large the journal is, and how much of it a start has to read."""
        return await self._query(report.stats)

    async def lines(self, *, task: TaskId | None, last: int) -> tuple[str, ...]:
        """The newest lines as they stand in the files, of one task or of all; at most `last`."""
        return await self._query(lambda journal: report.newest_lines(journal, task=task, last=last))

    # -- the task lock

    @asynccontextmanager
    async def drive(self, task: TaskId) -> AsyncIterator[None]:
        """Holds the task lock: whoever holds it is the only one that appends for the task."""
        try:
            lock = await to_thread.run_sync(task_lock, self._locks, task)
            await to_thread.run_sync(acquire, lock)
        except OSError as error:
            raise unwritable(why(error), self._locks) from error
        except LockHeld:
            raise Failure(
                Code.LAUNCH_IN_PROGRESS, "another process is working on this task right now", task=task
            ) from None
        try:
            yield
        finally:
            lock.release()
