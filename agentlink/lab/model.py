"""The scripted model: a local server that answers a Host as the prompt itself says.

Write steps anywhere in the prompt; each is one model call of the turn, in order:

    [[say: TEXT]]               answer with TEXT
    [[tool: NAME {JSON}]]       ask for one tool call; the next step follows its result
    [[slow: SECONDS TEXT]]      answer with TEXT in pieces, spread over SECONDS (TEXT may be left out)
    [[error: STATUS]]           HTTP error, 500 when left out; a Host retries 429 and 5xx but not 400,
                                each retry takes the next step, and an error written last repeats
    [[hang]]  [[hang: TEXT]]    send TEXT, then never end
    [[max-tokens: TEXT]]        answer with TEXT, ended by the token limit (TEXT may be left out)

When the steps are used up, or there are none, the answer is `Done: ` and the first line of the rest
of the prompt. Titles are asked for in requests of their own and are always the same. Unknown words in
double brackets are plain text; a known word that cannot be read is answered with the reason.
`GET /requests` counts every prompt: `calls` are all model calls, `runs` are turns begun with it.

The server is a process of its own (`agentlink.lab.server`), so that a Host never waits for our event
loop, and it ends when the pipe to its starter closes, however that happens.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec
from msgspec import Struct

import agentlink
from agentlink.lab.errors import LabBroken, LabNotInstalled


class Seen(Struct, frozen=True):
    """How often a prompt (its first 2000 characters) was begun, and how often the model was called."""

    prompt: str
    runs: int
    calls: int


class LabModel:
    """A running scripted model; use it as a context manager, or call `close`."""

    def __init__(self, process: subprocess.Popen[bytes], *, port: int, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self.port = port

    @classmethod
    def start(cls) -> LabModel:
        """Begin listening at once; the answers come when the process is up, some 0.5 s later."""
        for library in ("starlette", "uvicorn"):
            if find_spec(library) is None:
                raise LabNotInstalled(missing=library)
        # Bound here and handed over: the address is known, and calls queue, before the server is up.
        with socket.create_server(("127.0.0.1", 0)) as listening:
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close(), together with the process
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "agentlink.lab.server", "--fd", str(listening.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(listening.fileno(),),
                env={**os.environ, "PYTHONPATH": _import_path()},
                start_new_session=True,  # Ctrl-C is for us; the server goes when we do
            )
            return cls(process, port=listening.getsockname()[1], errors=errors)

    @property
    def url(self) -> str:
        """What a Host takes as its `DEEPSEEK_BASE_URL`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def requests(self, *, timeout_s: float = 15) -> list[Seen]:
        """Every prompt seen, the most recent last (at most 1000); a first call also waits for the start."""
        if self._process.poll() is not None:
            raise self._broken()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", "/requests")
            return msgspec.json.decode(connection.getresponse().read(), type=list[Seen])
        except OSError as exc:
            raise self._broken() from exc
        finally:
            connection.close()

    def runs(self, text: str) -> int:
        """How many turns were begun with a prompt that contains `text`."""
        return sum(seen.runs for seen in self.requests() if text in seen.prompt)

    def close(self) -> None:
        """End the server, whatever it is streaming."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> LabModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _broken(self) -> LabBroken:
        tail = ""
        if not self._errors.closed:
            self._errors.seek(0)
            tail = self._errors.read()[-2000:].decode(errors="replace")
        return LabBroken(what="the scripted model does not answer", tail=tail)


def _import_path() -> str:
    """A path on which the child finds this very package, installed or not."""
    package = Path(agentlink.__file__).resolve().parent.parent
    return os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
