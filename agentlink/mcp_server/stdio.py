"""The process around the server: nothing but protocol reaches standard output, before, while and after it serves."""

import logging
import os
import signal
import sys

from agentlink.core.redact import redact


def serve() -> None:
    """Serves over standard input and output until standard input ends."""
    wire = _divert_stdout()
    _log_to_stderr()
    # The default ends the process at once, as SIGTERM does: a cancelled loop would wait for its next line of input.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import anyio

    from agentlink.mcp_server.server import leave, serve_stdio

    # LF alone ends a message on every platform; the descriptor is never closed, so that its number is never reused.
    messages = open(wire, "w", encoding="utf-8", newline="\n", closefd=False)  # noqa: SIM115
    try:
        anyio.run(serve_stdio, anyio.wrap_file(messages))
    except* BrokenPipeError:
        # The caller stopped reading: nobody is left to serve.
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
