"""`login`: exchange a printed launch address for the Host's cookie, once."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from agentlink.cli.output import json_option, print_json, run_async
from agentlink.core.errors import Code, Failure


@click.command("login")
@click.argument("address", required=False)
@json_option
def login_command(address: str | None, *, as_json: bool) -> None:
    """Log in with the ADDRESS that `dsh web` printed (http://127.0.0.1:PORT/?token=…).

    Without ADDRESS, or with -, it is read from standard input, so that the token stays out of the shell's history.
    """
    from agentlink.app.login import log_in

    if address is None and sys.stdin.isatty():
        address = click.prompt("Address printed by dsh web", hide_input=True, err=True)
    elif address in (None, "-"):
        address = sys.stdin.readline()
    if not address or not address.strip():
        raise Failure(Code.INVALID_REQUEST, "no launch address was given", details={"argument": "address"})
    text = address.strip()
    answer: Any = run_async(lambda: log_in(os.environ, text))
    if as_json:
        print_json(answer)
        return
    click.echo(f"logged in to {answer.origin}")
    click.echo(f"remembered in {Path(answer.config)}")
