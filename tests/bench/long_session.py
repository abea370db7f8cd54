"""Sessions of 40,000 events and of several megabytes in one event, on a real Host: time and memory of every reader.

Each reading is a process of its own (`tests.bench.long_reader`), so that its memory is that of this reading alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.wait import WaitRequest, wait
from agentlink.core.ids import TaskId
from agentlink.host.cookies import CookieFiles
from agentlink.lab import Lab, lab
from tests.bench.context import Context
from tests.bench.host_log import Event, Pattern, numbered, with_text, write_log
from tests.bench.long_reader import Told
from tests.bench.raw import RawHost
from tests.bench.rows import Row

NAME = "long"
_ROOT = Path(__file__).parents[2]
_PROMPT = '[[tool: bash {"command":"echo hi","description":"says hi"}]] [[say: ok]]'
_SOME_S = 5_000
"""What "within a few seconds" is."""
_MIB = 64
"""How much more memory a bounded reading may take, whatever the session's length."""
_LARGE_MIB = 160
"""The same for one event of several megabytes: its bytes, its JSON and its text are there at once."""


class Shape(NamedTuple):
    """One session: what it is called, its task, its number of events, its bytes."""

    words: str
    task: TaskId
    events: int
    bytes: int
    memory_mib: float


def run(context: Context) -> list[Row]:
    """A short session for comparison; a long one of many turns; a long one of one turn; one with a large event."""
    with lab() as one:
        home = context.new_home()
        environment = context.environment(home) | {"AGENTLINK_HOST_URL": one.host.launch_url}
        shapes = anyio.run(_shapes, context, one, environment, home)
        context.tell("reading")
        environment["AGENTLINK_HOST_URL"] = one.host.launch_url
        return [row for shape in shapes for row in _rows(shape, environment)]


async def _shapes(context: Context, one: Lab, environment: dict[str, str], home: Path) -> list[Shape]:
    many = context.count(40_000, 600)
    large = context.count(5_000_000, 300_000)
    runtime = open_runtime(environment)
    try:
        tasks = [await _finished_task(runtime, one.host.workspace) for _ in range(4)]
        cookie = CookieFiles(home / "cookies").load(runtime.host.origin)
        if cookie is None:
            raise RuntimeError("the Host gave no login")
        raw = RawHost(cookie)
        logs = [await _log_of(raw, session) for _, session in tasks]
        await raw.aclose()
    finally:
        await runtime.aclose()
    one.host.terminate()
    shapes = []
    for (task, session), (pattern, preset, cwd), make in zip(tasks, logs, _contents(many, large), strict=True):
        events = numbered(make.events(pattern))
        header = {
            "type": "session",
            "version": 4,
            "id": session,
            "createdAt": events[0]["time"],
            "cwd": cwd,
            "isSeeded": False,
            "delegationDepth": 0,
            "agentPreset": preset,
        }
        size = write_log(one.host.home, session, header, events)
        words = f"{make.words.format(events=f'{len(events):,}', mb=f'{size / 1e6:.1f}')}"
        shapes.append(Shape(words, task, len(events), size, make.memory_mib))
    context.tell("starting the Host again")
    one.host.restart()
    return shapes


class _Content(NamedTuple):
    words: str
    turns: int
    calls: int
    large: int
    memory_mib: float

    def events(self, pattern: Pattern) -> Iterator[Event]:
        results = 0
        for event in pattern.turns(self.turns, calls=self.calls):
            if event["type"] == "tool/result" and self.large:
                results += 1
                if results == 4:
                    yield with_text(event, "large result " * (self.large // 13))
                    continue
            yield event


def _contents(many: int, large: int) -> Sequence[_Content]:
    per_turn, per_call = 17, 5
    return (
        _Content("{events} events", 1, 1, 0, _MIB),
        _Content("{events} events, short turns", many // per_turn, 1, 0, _MIB),
        _Content("{events} events, one turn", 1, many // per_call, 0, _MIB),
        _Content("one event of {mb} MB in the last turn", 1, 4, large, _LARGE_MIB),
    )


async def _finished_task(runtime: Runtime, workspace: Path) -> tuple[TaskId, str]:
    cwd = workspace / "long"
    cwd.mkdir(exist_ok=True)
    asked = DelegateRequest(prompt=_PROMPT, cwd=str(cwd), preset="minimal", claim="read-only")
    done = await delegate(runtime, asked)
    task = TaskId(done.task_id)
    ended = await wait(runtime, WaitRequest(tasks=(task,)))
    if ended.execution != "turn_completed":
        raise RuntimeError(f"the pattern of a turn ended with {ended.execution}")
    return task, done.session_id or ""


async def _log_of(raw: RawHost, session: str) -> tuple[Pattern, str, str]:
    """The events of a finished turn, and what else the session's first line says."""
    state = await raw.call("session/projections", {"request": {"sessionId": session}})
    page = await raw.page(session, through=state["asOfSeq"])
    events = [record["event"] for record in page["records"] if record["type"] == "event"]
    values = state["values"]
    return Pattern(events), values["agentPreset"], values["workingDirectory"]


def _rows(shape: Shape, environment: dict[str, str]) -> list[Row]:
    rows = []
    for reading, words in (
        ("status", "status"),
        ("first", "first reply of a tail"),
        ("near", "tail from near the end"),
        ("whole", "whole tail"),
        ("follow", "follow, to its beginning"),
    ):
        told = reading_of(reading, shape, environment)
        rows.append(
            Row(
                bench=NAME,
                figure=f"{words}, {shape.words}",
                ours=told.ms,
                unit="ms",
                limit=told.raw_ms,
                limit_is=told.raw_is,
                target=None if reading == "whole" else _SOME_S,
            )
        )
        rows.append(
            Row(
                bench=NAME,
                figure=f"… its memory{f', {told.replies:,} replies' if told.replies > 1 else ''}",
                ours=told.mib,
                unit="MiB",
                target=shape.memory_mib,
            )
        )
    return rows


def reading_of(reading: str, shape: Shape, environment: dict[str, str]) -> Told:
    """Runs it in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.long_reader", reading, shape.task, str(shape.events)],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{reading}, {shape.words}: {done.stderr[-2_000:]}")
    return msgspec.json.decode(done.stdout, type=Told)
