"""A journal in a test's own directory, with a clock that only tests move."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchFact, LaunchFailed, LaunchRequested, LaunchSelected, SessionCreated
from agentlink.core.facts.work import TaskLineFact
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import TaskView
from agentlink.journal.store import FileStore

A, B, C = (TaskId(f"dsh_{letter * 12}") for letter in "abc")
REQUESTED = LaunchRequested(
    attempt=1, mode="manual", cwd="/w/ü世", claim="exclusive-write", host="default", origin="http://o", preset="p"
)
SELECTED = LaunchSelected(session="session-1", reason="explicit_preset", preset="p")
CREATED = SessionCreated(session="session-1", resolved="p")
FAILED = LaunchFailed(code="interrupted", stage="session-created", session="session-1")
STEPS: tuple[LaunchFact, ...] = (REQUESTED, SELECTED, CREATED, FAILED)
"""One legal line each, in this order."""


def requested(**more: Any) -> LaunchRequested:
    base: dict[str, Any] = {
        "attempt": 1,
        "mode": "manual",
        "cwd": "/w",
        "claim": "exclusive-write",
        "host": "default",
        "origin": "http://o",
    }
    return LaunchRequested(**(base | more))


class Ticks:
    """A clock whose every look is a second later; tests may turn it back."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> str:
        self.now += 1
        return f"2026-01-01T{self.now // 3600 % 24:02}:{self.now // 60 % 60:02}:{self.now % 60:02}.000Z"


class Journal:
    """A store driven without an event loop of the test's own."""

    def __init__(self, home: Path, *, clock: Callable[[], str] | None = None) -> None:
        self.home = home
        self.store = FileStore(home, clock=clock or Ticks())

    @property
    def file(self) -> Path:
        return self.home / "journal" / "000001.jsonl"

    @property
    def head(self) -> Path:
        return self.home / "journal" / "head"

    @property
    def lock(self) -> Path:
        return self.home / "locks" / "journal.lock"

    def append(self, task: TaskId, *facts: TaskLineFact, n: int, rule: Any = None) -> TaskView:
        async def run() -> TaskView:
            return await self.store.append(task, facts, expected_n=n, rule=rule)

        return anyio.run(run)

    def fill(self, task: TaskId = A, steps: Sequence[LaunchFact] = STEPS) -> None:
        """One line for each step."""
        for n, fact in enumerate(steps):
            self.append(task, fact, n=n)

    def task(self, task: TaskId) -> TaskView | None:
        return anyio.run(self.store.task, task)

    def history(self, task: TaskId) -> list[tuple[int, int, tuple[Any, ...]]]:
        return [(line.seq, line.n, line.facts) for line in anyio.run(self.store.history, task)]

    def page(self, *, limit: int = 50, before: TaskId | None = None) -> list[TaskId]:
        async def run() -> list[TaskId]:
            rows = await self.store.page(limit=limit, before=before)
            return [row.task for row in rows]

        return anyio.run(run)

    def problem(self) -> Code | None:
        found = anyio.run(self.store.problem)
        return None if found is None else found.code

    def lines(self) -> list[bytes]:
        return self.file.read_bytes().split(b"\n")[:-1]


def snapshot(home: Path) -> dict[str, Any] | Code:
    """All that a fresh process sees of the journal, or the code of what stops it."""

    async def look() -> dict[str, Any] | Code:
        store = FileStore(home, clock=Ticks())
        try:
            rows = await store.page(limit=1_000, before=None)
            seen = {str(row.task): (row, await store.history(row.task)) for row in rows}
            problem = await store.problem()
        except Failure as failure:
            return failure.code
        return seen if problem is None else problem.code

    return anyio.run(look)


def python(code: str, *args: object) -> subprocess.Popen[str]:
    """Another process that can import everything the tests can."""
    root = Path(__file__).parent.parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
