"""Where the tasks of sealed segments are: a rebuildable index, so that nothing old is read at start.

It answers only for the segments it covers whole. It can be deleted at any time; the journal alone is the truth.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agentlink.core.launch.kinds import KINDS, Kind

_SCHEMA = """
create table if not exists segments (number integer primary key, bytes integer not null, lost integer not null);
create table if not exists spans (
  task text not null, segment integer not null, offsets blob not null, primary key (task, segment)
) without rowid;
create table if not exists tasks (
  task text primary key, first_seq integer not null, created_at text not null, kinds integer not null,
  blocked text
) without rowid;
create index if not exists tasks_by_age on tasks (first_seq);
create table if not exists keys (key text primary key, task text not null) without rowid;
"""
LINES_OF_AN_ATTEMPT = 3
"""The fewest lines in which a further attempt can have sent its prompt: recovered, preset-verified, claimed."""
MAY_HAVE_GONE_ON = "its last lines may be lost"
BUSY_S = 10.0
"""How long another process may be writing the index before it counts as unusable."""
_BITS: dict[Kind, int] = {kind: 1 << bit for bit, kind in enumerate(KINDS)}


class IndexedTask(msgspec.Struct, frozen=True):
    """One task of sealed segments; `blocked` says why its lines cannot be told, None when they can."""

    task: str
    first_seq: int
    created_at: str
    kinds: tuple[Kind, ...]
    key: str | None = None
    blocked: str | None = None


class Index:
    """One connection to the index file. Every method raises sqlite3.Error when the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def use_memory(self) -> None:
        """Goes on with an empty index in memory: the file cannot be used now, and it is never needed."""
        self.close()
        self._path = None

    @contextmanager
    def _database(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection, and a transaction for a change. Raises sqlite3.Error."""
        connection = self._connection = self._connection or self._connect()
        if not write:
            yield connection
            return
        connection.execute("begin immediate")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def _connect(self) -> sqlite3.Connection:
        try:
            return self._opened()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            try:
                if self._path is not None:
                    self._path.unlink(missing_ok=True)  # no database at all: made anew
            except OSError as error:
                raise sqlite3.OperationalError(str(error)) from error
            return self._opened()

    def _opened(self) -> sqlite3.Connection:
        target = ":memory:" if self._path is None else str(self._path)
        connection = sqlite3.connect(target, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            if self._path is not None:
                self._path.chmod(0o600)
            connection.execute("pragma synchronous = off")  # rebuildable: a lost index costs time, no fact
            connection.executescript(_SCHEMA)
        except OSError as error:
            connection.close()
            raise sqlite3.OperationalError(str(error)) from error
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def covers(self, below: int) -> bool:
        """Whether every segment below this number is indexed now: another process may have emptied the file."""
        with self._database() as database:
            (count,) = database.execute("select count(*) from segments where number < ?", (below,)).fetchone()
            return bool(count == below - 1)

    def covered(self) -> dict[int, int]:
        """Segment number -> bytes, of every segment that is indexed whole."""
        with self._database() as database:
            return dict(database.execute("select number, bytes from segments"))

    def forget_all(self) -> None:
        """Empties the index, after a sealed segment turned out to be another one than was indexed."""
        with self._database(write=True) as database:
            for table in ("segments", "spans", "tasks", "keys"):
                database.execute(f"delete from {table}")

    def lost_lines(self) -> int:
        """How many lines of sealed segments are known to be lost or unprovable."""
        with self._database() as database:
            return int(database.execute("select coalesce(sum(lost), 0) from segments").fetchone()[0])

    def add(
        self,
        number: int,
        size: int,
        spans: "Iterable[tuple[str, array[int]]]",
        tasks: Iterable[IndexedTask],
        *,
        lost: int,
        blocked: Iterable[str],
    ) -> None:
        """Adds one whole segment, all or nothing. Adding it twice changes nothing.

        `blocked` are tasks that a repair blocked. Where enough lines are `lost`, they may have been a whole further
        attempt of any task that had failed before.
        """
        with self._database(write=True) as database:
            database.executemany(
                "insert or replace into spans values (?, ?, ?)",
                ((task, number, offsets.tobytes()) for task, offsets in spans),
            )
            for task in tasks:
                database.execute(
                    "insert into tasks values (?, ?, ?, ?, ?) on conflict (task) do update set kinds = excluded.kinds, "
                    "blocked = excluded.blocked",
                    (task.task, task.first_seq, task.created_at, _mask(task.kinds), task.blocked),
                )
                if task.key is not None:
                    database.execute("insert or replace into keys values (?, ?)", (task.key, task.task))
            if lost >= LINES_OF_AN_ATTEMPT:
                database.execute(
                    "update tasks set blocked = ? where blocked is null and (kinds & ?) != 0",
                    (MAY_HAVE_GONE_ON, _BITS["failed"]),
                )
            database.executemany(
                "update tasks set blocked = ? where task = ?", ((MAY_HAVE_GONE_ON, task) for task in blocked)
            )
            database.execute("insert or replace into segments values (?, ?, ?)", (number, size, lost))

    def spans(self, task: str) -> "list[tuple[int, array[int]]]":
        """(segment, offsets of its lines in it), in order."""
        with self._database() as database:
            rows = database.execute("select segment, offsets from spans where task = ? order by segment", (task,))
            return [(number, array("Q", data)) for number, data in rows]

    def task(self, task: str) -> IndexedTask | None:
        with self._database() as database:
            row = database.execute(
                "select task, first_seq, created_at, kinds, blocked from tasks where task = ?", (task,)
            ).fetchone()
            return None if row is None else _task(row)

    def owner(self, key: str) -> str | None:
        with self._database() as database:
            row = database.execute("select task from keys where key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def newest(self, *, before_seq: int | None, limit: int, kind: Kind | None) -> list[IndexedTask]:
        """Tasks that began before `before_seq`, newest first."""
        mask = 0 if kind is None else _BITS[kind]
        with self._database() as database:
            rows = database.execute(
                "select task, first_seq, created_at, kinds, blocked from tasks "
                "where first_seq < ? and (kinds & ?) = ? order by first_seq desc limit ?",
                (1 << 62 if before_seq is None else before_seq, mask, mask, limit),
            )
            return [_task(row) for row in rows]


def _mask(kinds: tuple[Kind, ...]) -> int:
    return sum(_BITS[kind] for kind in kinds)


def _task(row: tuple[str, int, str, int, str | None]) -> IndexedTask:
    task, first_seq, created_at, mask, blocked = row
    kinds = tuple(kind for kind, bit in _BITS.items() if mask & bit)
    return IndexedTask(task, first_seq, created_at, kinds, None, blocked)
