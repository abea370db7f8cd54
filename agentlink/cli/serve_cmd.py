"""`serve`: the MCP server over stdio, handed in by the program's start."""

from collections.abc import Callable

import click


@click.command("serve")
@click.pass_obj
def serve_command(serve: Callable[[], None]) -> None:
    """Serve the MCP tools over standard input and output until standard input ends."""
    serve()
