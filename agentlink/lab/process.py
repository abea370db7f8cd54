"""Our side of the supervisor: processes and directories that cannot outlive us."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from agentlink.lab.errors import LabBroken

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_ENDING_S = 10.0


class Supervised:
    """A command that ends, with everything it started, at the latest when this program does."""

    def __init__(self, process: subprocess.Popen[bytes], *, pid: int) -> None:
        self._supervisor = process
        self.pid = pid

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        out: Path,
        err: Path,
        holds: Sequence[int] = (),
    ) -> Supervised:
        """Start it; `holds` are descriptors kept open until its last process is gone."""
        supervisor = subprocess.Popen(
            _supervisor_command("run", str(out), str(err), "--", *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            pass_fds=tuple(holds),
            start_new_session=True,
        )
        assert supervisor.stdout is not None
        with supervisor.stdout as answers:
            line = answers.readline()
        if not line:
            supervisor.communicate()
            raise LabBroken(what=f"the supervisor of {command[0]} did not start", tail="")
        return cls(supervisor, pid=int(line))

    @property
    def is_alive(self) -> bool:
        """Whether the command, or something it started, is still there."""
        return self._supervisor.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the command itself, if it has not ended."""
        if self.is_alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def wait(self, *, timeout_s: float) -> bool:
        """Wait until everything has ended; false when the time is over first."""
        try:
            self._supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._close_lifeline()
        return True

    def close(self) -> None:
        """End everything now."""
        self._close_lifeline()
        if not self.wait(timeout_s=_ENDING_S):
            self._supervisor.kill()
            self._supervisor.wait()

    def _close_lifeline(self) -> None:
        if self._supervisor.stdin is not None:
            self._supervisor.stdin.close()


class RemovedAtEnd:
    """A new directory, removed at the end of the block or of this program, whichever comes first.

    Pass `descriptor` on as one of the `holds` of a `Supervised` that writes there: the removal then
    waits for the last of its processes.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        reading, self.descriptor = os.pipe()
        try:
            # Before the directory is made, so that there is no moment in which it could be left over.
            self._remover = subprocess.Popen(
                _supervisor_command("remove", str(directory)),
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(reading)
        directory.mkdir(parents=True, mode=0o700)

    def __enter__(self) -> RemovedAtEnd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        # A directory of many sessions takes its time to go; the remover ends by itself and needs no waiting for.
        with suppress(subprocess.TimeoutExpired):
            self._remover.wait(_ENDING_S)


def _supervisor_command(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(_SUPERVISOR), *arguments]
