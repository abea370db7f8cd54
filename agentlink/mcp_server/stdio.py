"""The process around the server: nothing but protocol reaches standard output, before, while and after it serves."""

import logging
import os
import sys

from agentlink.core.redact import redact


def serve() -> None:
    """Serves over standard input and output until standard input ends."""
    wire = _divert_stdout()
    _log_to_stderr()
    import anyio

    from agentlink.mcp_server.server import serve_stdio

    # What the imports printed is still in Python's buffer: it belongs to stderr too.
    sys.stdout.flush()
    os.dup2(wire, 1)
    os.close(wire)
    try:
        anyio.run(serve_stdio)
    finally:
        # What is printed while the interpreter stops is no protocol either.
        os.dup2(2, 1)


def _divert_stdout() -> int:
    """Sends whatever is printed from now on to stderr; the saved descriptor of the wire."""
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    return wire


class _RedactingFormatter(logging.Formatter):
    """Scrubs credentials from messages and tracebacks before they are written."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(redact(line, limit=2_000) for line in super().format(record).splitlines())


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RedactingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
