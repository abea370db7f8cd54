"""`watch`: one task live. It never starts or answers anything by itself."""

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from agentlink.cli.output import (
    EXIT_INTERRUPTED,
    EXIT_NOT_COMPLETED,
    json_option,
    no_terminal,
    print_json,
    run_with,
    say,
    tell,
)
from agentlink.cli.tasks_cmd import checked_task

if TYPE_CHECKING:
    from agentlink.app.runtime import Runtime
    from agentlink.core.ids import TaskId


@click.command("watch")
@click.argument("task")
@click.option("--plain", is_flag=True, help="Lines only: no colours, no questions. So it is without a terminal, too.")
@json_option
def watch_command(task: str, *, plain: bool, as_json: bool) -> int:
    """Watch TASK until its turn ends; on a terminal, what it asks is answered in place.

    Enter leaves a question open. Ctrl+C ends the view; the task runs on. With --json there is one JSON object a line.
    """
    from agentlink.cli.plain_text import command

    wanted = checked_task(task)
    lines = plain or as_json or no_terminal() or not sys.stdout.isatty()
    watch = _lines(wanted, as_json=as_json) if lines else _screen(wanted)
    try:
        completed = run_with(watch)
    except KeyboardInterrupt:
        if not as_json:
            say(f"the view ended; the task runs on: {command('watch', wanted)}")
        return EXIT_INTERRUPTED
    return 0 if completed else EXIT_NOT_COMPLETED


def _lines(task: "TaskId", *, as_json: bool) -> "Callable[[Runtime], Awaitable[bool]]":
    from agentlink.cli.view import watch_lines

    def emit(line: str, data: dict[str, Any]) -> None:
        if as_json:
            print_json(data)
        else:
            tell(line)

    return lambda runtime: watch_lines(runtime, task, emit)


def _screen(task: "TaskId") -> "Callable[[Runtime], Awaitable[bool]]":
    from agentlink.cli.screen import Screen
    from agentlink.cli.view import watch_screen

    return lambda runtime: watch_screen(runtime, task, Screen(task))
