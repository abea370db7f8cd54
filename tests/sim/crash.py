"""Ends a simulated process at any chosen moment of its life: every Host call, every write, every flush."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentlink.core.host.faults import ReplyLost, Unreachable
from agentlink.files.private import FILE_MODE
from agentlink.journal import head, rotate, segment
from tests.fakes.sim_host import CALL_S, SimHost, SimLink

WRITES = ("create_session", "send_prompt", "rename")


class Crash(BaseException):
    """The process is gone. Nothing but the release of kernel locks happens after it."""


class Plan:
    """Counts the moments of one process and acts at one of them.

    `at` is the number of the moment, from 0; None only counts. `names` lists the moments that were passed.
    """

    def __init__(self, at: int | None = None, *, act: str = "crash") -> None:
        self.at = at
        self.act = act
        self.names: list[str] = []
        self.done = False

    def reached(self, name: str) -> bool:
        """Passes a moment; true when it is the chosen one."""
        here = len(self.names) == self.at
        self.names.append(name)
        self.done = self.done or here
        return here

    def point(self, name: str) -> None:
        if self.reached(name):
            raise Crash(name)


class CrashLink(SimLink):
    """A client's link that dies, or loses an answer, at the plan's moment."""

    def __init__(self, host: SimHost, plan: Plan, *, binding: str | None = "login-1", late_s: float = 0.0) -> None:
        super().__init__(host, binding=binding)
        self._plan = plan
        self._late_s = late_s

    async def call(self, name: str, action: Callable[[], Any]) -> Any:
        self._plan.point(f"before {name}")
        self.host.clock.advance(CALL_S)
        if not self.host.up:
            raise Unreachable(f"{name}: connection refused")
        if self._plan.reached(f"sent {name}"):
            self._deliver(action)
            if self._plan.act == "lose":
                raise ReplyLost(f"{name}: the answer was lost")
            raise Crash(f"sent {name}")
        result = action()
        self.host.clock.advance(CALL_S)
        self._plan.point(f"answered {name}")
        return result

    def _deliver(self, action: Callable[[], Any]) -> None:
        """The request arrives, at once or some time after its sender has gone."""
        life = self.host.life

        def arrive() -> None:
            if self.host.up and self.host.life == life:
                try:
                    action()
                except Exception:  # noqa: BLE001
                    return  # a refusal that nobody hears

        if self._late_s:
            self.host.clock.at(self._late_s, arrive)
        else:
            arrive()


@contextmanager
def journal_moments(plan: Plan, *, segment_bytes: int | None = None) -> Iterator[None]:
    """Makes every write and flush of the journal a moment of the plan; segments are sealed past `segment_bytes`."""
    real_append, real_head, real_begin = segment.append_bytes, head.write_head, rotate.begin_segment

    def append_bytes(path: Path, data: bytes, *, at: int) -> None:
        plan.point("line not begun")
        if plan.reached("line torn"):
            _write(path, data[: len(data) // 2])
            raise Crash("line torn")
        if plan.reached("line written, not flushed"):
            _write(path, data)
            raise Crash("line written")
        if plan.act == "disk" and plan.reached("no space"):
            raise segment.WriteFailed("no space", may_stand=False)
        if plan.act == "disk" and plan.reached("flush failed"):
            _write(path, data)
            raise segment.WriteFailed("input/output error", may_stand=True)
        _write(path, data)
        plan.point("line flushed")

    def write_head(path: Path, end: Any) -> None:
        plan.point("head not written")
        real_head(path, end)
        plan.point("head written")

    def begin_segment(directory: Path, ledger: Any, **rest: Any) -> int:
        plan.point("segment not begun")
        if plan.reached("segment torn"):
            (directory / f"{ledger.segment + 1:06}.tmp").write_bytes(b'{"v":1,"seq":9,"at":"')
            raise Crash("segment torn")
        number = real_begin(directory, ledger, **rest)
        plan.point("segment begun")
        return number

    with pytest.MonkeyPatch.context() as patch:
        if segment_bytes is not None:
            patch.setattr(rotate, "SEGMENT_BYTES", segment_bytes)
        patch.setattr(rotate, "begin_segment", begin_segment)
        patch.setattr(rotate, "fsync_dir", lambda _: None)
        patch.setattr(rotate.os, "fsync", lambda _: None)
        patch.setattr(segment, "append_bytes", append_bytes)
        patch.setattr(head, "write_head", write_head)
        yield
    assert segment.append_bytes is real_append


def _write(path: Path, data: bytes) -> None:
    """Writes without a flush: the simulation has no power loss, and a real flush would only cost time."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
