"""`serve`: the MCP server over stdio."""

import logging
import os
import sys

import click

from agentlink.core.redact import redact


@click.command("serve")
def serve_command() -> None:
    """Serve the MCP tools over standard input and output until standard input ends."""
    wire = _keep_stdout_clean()
    _log_to_stderr()
    import anyio

    from agentlink.mcp_server.server import serve_stdio

    sys.stdout.flush()
    os.dup2(wire, 1)
    os.close(wire)
    try:
        anyio.run(serve_stdio)
    finally:
        # What is still buffered, or printed while the interpreter stops, is no protocol.
        os.dup2(2, 1)


def _keep_stdout_clean() -> int:
    """Sends everything printed so far, and by the imports to come, to stderr; the saved descriptor of the wire."""
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
