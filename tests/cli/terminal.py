"""Runs the program in a pseudo terminal, as a person has it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from tests.cli.program import PROGRAM

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """One command in a terminal of its own; what it shows is waited for, never slept for."""

    def __init__(self, words: Sequence[str], *, env: Mapping[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:  # pragma: no cover  # the child
            os.execve(PROGRAM[0], [*PROGRAM, *words], {**env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.raw = b""
        self._seen = 0
        self._status: int | None = None

    @property
    def text(self) -> str:
        """All that was shown, without colours and movements."""
        return _CONTROL.sub("", self.raw.decode("utf-8", "replace")).replace("\r\n", "\n")

    @property
    def echoes(self) -> bool:
        """Whether typed keys are shown."""
        return bool(termios.tcgetattr(self._fd)[3] & termios.ECHO)

    def shows(self, text: str, *, timeout_s: float = 15) -> None:
        """Waits until that is shown, after what was waited for before."""
        deadline = time.monotonic() + timeout_s
        while (at := self.text.find(text, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} is not shown after:\n{self.text[self._seen :]}")
        self._seen = at + len(text)

    def types(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def ends(self, *, timeout_s: float = 15) -> int:
        """The exit status."""
        deadline = time.monotonic() + timeout_s
        while self._read(deadline):
            pass
        if self._status is None:
            _, status = os.waitpid(self._pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        assert "Traceback" not in self.text, self.text
        return self._status

    def _read(self, deadline: float) -> bool:
        """Takes what comes next; False at the end of the output. Raises AssertionError when it takes too long."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing comes after:\n{self.text}")
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux says so when the program has ended
            return False
        self.raw += data
        return bool(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._fd)
