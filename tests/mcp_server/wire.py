"""A server process spoken to in raw lines, so that every byte on its stdout is seen."""

from __future__ import annotations

import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

SERVE = [sys.executable, "-m", "agentlink", "serve"]
ANSWER_S = 30.0


class RawServer:
    """`agentlink serve`, its stdin and stdout as bytes; use it as a context manager."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        command: Sequence[str] = SERVE,
        cwd: Path | None = None,
        new_session: bool = True,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=cwd,
            start_new_session=new_session,
        )
        self.out = b""
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._next = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line
            self._lines.put(line)

    def send(self, method: str, params: dict[str, Any] | None = None, *, answered: bool = True) -> int | None:
        """Writes one message and gives its id."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if answered:
            self._next += 1
            message["id"] = self._next
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(message) + b"\n")
        self.process.stdin.flush()
        return message.get("id")

    def answer(self, number: int | None) -> dict[str, Any]:
        """The reply with this id; notifications before it are passed over."""
        while True:
            message = msgspec.json.decode(self._lines.get(timeout=ANSWER_S), type=dict[str, Any])
            if message.get("id") == number:
                return message

    def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return self.answer(self.send(method, params))["result"]

    def initialize(self) -> Any:
        client = {"name": "raw", "version": "0"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        result = self.call("initialize", params)
        self.send("notifications/initialized", answered=False)
        return result

    def ask(self, name: str, **arguments: Any) -> int | None:
        """Calls a tool without waiting for its answer."""
        return self.send("tools/call", {"name": name, "arguments": arguments})

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The tool's JSON text, decoded."""
        return body(self.answer(self.ask(name, **arguments))["result"])

    @property
    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def end_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, *, timeout_s: float = 5) -> int:
        status = self.process.wait(timeout=timeout_s)
        self._reader.join(timeout=5)
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(timeout=5)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._errors.close()

    def __enter__(self) -> RawServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def body(result: dict[str, Any]) -> dict[str, Any]:
    return msgspec.json.decode(result["content"][0]["text"], type=dict[str, Any])
