"""Runs the program as a person's shell does: a process of its own, bytes in and out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

PROGRAM = [sys.executable, "-m", "agentlink"]


class Finished(msgspec.Struct, frozen=True):
    status: int
    out: bytes
    err: bytes

    @property
    def json(self) -> Any:
        """The one document on stdout; anything beside it is an error."""
        return msgspec.json.decode(self.out)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


def agentlink(
    *words: str, env: Mapping[str, str], given: bytes = b"", cwd: Path | None = None, timeout_s: float = 40
) -> Finished:
    """Runs one command to its end; whatever it does, a traceback never belongs on stderr."""
    done = subprocess.run(
        [*PROGRAM, *words], env=dict(env), input=given, capture_output=True, timeout=timeout_s, cwd=cwd, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    return Finished(done.returncode, done.stdout, done.stderr)


def start(words: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Begins one command and leaves it running."""
    return subprocess.Popen(
        [*PROGRAM, *words],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        start_new_session=True,
    )
