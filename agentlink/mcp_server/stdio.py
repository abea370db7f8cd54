"""The process around the server: nothing but protocol reaches standard output, before, while and after it serves."""

import io
import logging
import os
import signal
import sys
from typing import Any

from agentlink.core.redact import redact


def serve() -> None:
    """Serves over standard input and output until standard input ends."""
    wire = _divert_stdout()
    _log_to_stderr()
    # The default ends the process at once, as SIGTERM does: a cancelled loop would wait for its next line of input.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import anyio

    from agentlink.mcp_server.server import serve_stdio

    # LF alone ends a message on every platform.
    messages = io.TextIOWrapper(io.BufferedWriter(_Wire(wire, "wb", closefd=False)), encoding="utf-8", newline="\n")
    anyio.run(serve_stdio, anyio.wrap_file(messages))


class _Wire(io.FileIO):
    """The caller's end of the pipe; once the caller reads no more, nobody is left to serve."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            # Ending the loop instead would wait for one more line of input, perhaps for ever.
            from agentlink.mcp_server.server import leave

            leave()


def _divert_stdout() -> int:
    """Sends whatever is printed to stderr, for good; the descriptor of the wire, known to the transport alone."""
    wire = os.dup(1)
    os.dup2(2, 1)
    # What was printed until now is still in Python's buffer: it belongs to stderr too.
    sys.stdout.flush()
    return wire


class _RedactingFormatter(logging.Formatter):
    """Scrubs credentials from messages and tracebacks before they are written."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(redact(line, limit=2_000) for line in super().format(record).splitlines())


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RedactingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
