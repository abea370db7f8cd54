"""The command group. Each command lives in a module of its own, imported only when it runs."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence

import click

from agentlink import __version__
from agentlink.cli.output import EXIT_INTERRUPTED, report_failure, report_usage, tolerant_streams
from agentlink.core.errors import Failure

COMMANDS = {
    "answer": ("answer_cmd", "Answer what an agent asks."),
    "approve": ("answer_cmd", "Allow one tool call once."),
    "cancel": ("steer_cmd", "Stop a task's turn, its queue, or all of it."),
    "delegate": ("delegate_cmd", "Hand a task to the Host."),
    "demo": ("demo_cmd", "See one delegation happen on a disposable real Host."),
    "doctor": ("doctor_cmd", "Check settings, home, journal, Host and login."),
    "followup": ("steer_cmd", "Send a task another prompt."),
    "journal": ("journal_cmd", "Show, verify or repair the journal."),
    "list": ("tasks_cmd", "List tasks, newest first."),
    "login": ("login_cmd", "Log in to a Host with the address it printed."),
    "recover": ("recover_cmd", "Settle interrupted launches and use what they left."),
    "reject": ("answer_cmd", "Refuse one tool call."),
    "release": ("tasks_cmd", "Give a task's workspace claim back."),
    "route": ("route_cmd", "Look at, propose and apply the rules that choose a preset."),
    "serve": ("serve_cmd", "Serve the MCP tools over standard input and output."),
    "statechart": ("statechart_cmd", "Export the launch machine as diagrams."),
    "status": ("tasks_cmd", "Show one task."),
    "tail": ("tail_cmd", "Tell what a task did, and what it does."),
    "wait": ("wait_cmd", "Wait until a task is done or needs a person."),
    "watch": ("watch_cmd", "Watch a task live, and answer what it asks."),
}


class LazyGroup(click.Group):
    """Knows every command's name and help line without importing it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"agentlink.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="agentlink")
def agentlink() -> None:
    """Hand a coding task to a DSH Web Host and never lose it."""


def run(arguments: Sequence[str], *, serve: Callable[[], None]) -> int:
    """Runs one command line and gives its exit status: 0, 1 failure, 2 usage, 3 turn not completed, 130 interrupt.

    `serve` is what the serve command starts.
    """
    if arguments[:1] != ["serve"]:
        # This flushes stdout, and what imports printed so far must never reach the wire of the server (F7).
        tolerant_streams()
    try:
        status = _status_of(arguments, serve=serve, as_json="--json" in arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_has_gone()
    return status


def _status_of(arguments: Sequence[str], *, serve: Callable[[], None], as_json: bool) -> int:
    try:
        status = agentlink.main(list(arguments), prog_name="agentlink", standalone_mode=False, obj=serve)
    except Failure as failure:
        return report_failure(failure, as_json=as_json)
    except click.ClickException as error:
        return report_usage(error, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    return status if isinstance(status, int) else 0


def _reader_has_gone() -> int:
    """The reader of our output stopped: end quietly, as other tools in a pipe do."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # What is left in the buffer goes where nobody minds, or the interpreter would complain at its end.
            os.dup2(null, stream.fileno())
    return 128 + 13
