"""Tasks on the real Host for tests of the command line, and output that comes while a command runs."""

from __future__ import annotations

import io
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentlink.cli.main import run
from agentlink.lab import Lab
from tests.cli.program import Finished, start
from tests.lab.client import until


class Tasks:
    """Delegates tasks, each with a directory of its own, and looks at them."""

    def __init__(self, running: Lab, env: Mapping[str, str]) -> None:
        self.lab = running
        self.env = env

    def new(self, prompt: str, *, preset: str = "standard", place: Path | None = None) -> str:
        return str(
            self("delegate", prompt, "--cwd", str(place or self.place()), "--preset", preset, "--json").json["taskId"]
        )

    def place(self) -> Path:
        """A directory that nobody claims."""
        place = self.lab.host.workspace / f"w-{secrets.token_hex(4)}"
        place.mkdir()
        return place

    def __call__(self, *words: str, given: bytes = b"") -> Finished:
        """One command line, in this process: starting another one takes longer than what most commands do."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name not in self.env]:
                patch.delenv(name)
            for name, value in self.env.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            status = run(words, serve=lambda: None)
        return Finished(status, out.buffer.getvalue(), err.buffer.getvalue())  # type: ignore[attr-defined]

    def status(self, task: str) -> dict[str, Any]:
        return dict(self("status", task, "--json").json)

    def at(self, task: str, execution: str) -> dict[str, Any]:
        """The status once the task has come to that state."""

        def look() -> dict[str, Any] | None:
            status = self.status(task)
            return status if status["execution"] == execution else None

        return until(look, timeout_s=20)

    def pending(self, prompt: str) -> tuple[str, str]:
        """A new task that waits for a person, and the request."""
        task = self.new(prompt)
        waited = self("wait", task, "--json").json
        return task, str(waited["pending"][0]["requestId"])


class Running:
    """A command at work whose lines are read as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._take, args=(stream, lines), daemon=True)
            for stream, lines in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _take(stream: Any, lines: list[str]) -> None:
        lines.extend(line.decode().rstrip("\n") for line in stream)

    def says(self, text: str, *, timeout_s: float = 15) -> None:
        """Waits for a line with that text on either stream."""
        until(lambda: True if any(text in line for line in (*self.out, *self.err)) else None, timeout_s=timeout_s)

    def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self.ends()

    def ends(self, *, timeout_s: float = 20) -> int:
        status = self._process.wait(timeout_s)
        for reader in self._readers:
            reader.join(5)
        assert not any("Traceback" in line for line in self.err), self.err
        return status

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def running(words: Sequence[str], *, env: Mapping[str, str]) -> Iterator[Running]:
    """The command at work; killed at the end if it still runs."""
    command = Running(start(words, env=env))
    try:
        yield command
    finally:
        command.kill()
