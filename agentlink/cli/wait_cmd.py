"""`wait`: until a task is done, needs a person or cannot go on; for as long as a person wants."""

import math
from typing import TYPE_CHECKING

import click

from agentlink.cli.output import EXIT_INTERRUPTED, EXIT_NOT_COMPLETED, json_option, print_json, run_with, say, tell
from agentlink.cli.plain_text import command
from agentlink.cli.tasks_cmd import checked_task

if TYPE_CHECKING:
    from agentlink.app.runtime import Runtime
    from agentlink.app.wait import Until, Waited


@click.command("wait")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Seconds; without it there is no end.")
@click.option(
    "--until", type=click.Choice(["settled", "any"]), default="settled", show_default=True, help="any: every change."
)
@click.option("--cursor", metavar="C", help="With --until any: what came after it counts as a change, too.")
@json_option
def wait_command(
    tasks: tuple[str, ...], timeout: float | None, until: str, cursor: str | None, *, as_json: bool
) -> int:
    """Wait until the first TASK is done, needs a person or cannot go on, and print its final message.

    A Host that is away is waited for. Ctrl+C ends the wait; the tasks run on. The exit status is 3 unless the turn
    completed.
    """
    from agentlink.cli.follow import rest_of, wait_on

    wanted = tuple(checked_task(text) for text in tasks)
    end: Until = until  # type: ignore[assignment]  # click.Choice checked it
    timeout_s = math.inf if timeout is None else timeout

    async def work(runtime: "Runtime") -> "tuple[Waited, str]":
        waited = await wait_on(
            runtime, wanted, timeout_s=timeout_s, until=end, cursor=cursor, say=None if as_json else say
        )
        cut = waited.final_message_rest
        if as_json or cut is None or len(wanted) > 1:
            return waited, ""
        return waited, await rest_of(runtime, waited.task_id, cut)

    try:
        waited, rest = run_with(work)
    except KeyboardInterrupt:
        if not as_json:
            say(f"the wait ended; what was waited for runs on: {command('wait', *wanted)}")
        return EXIT_INTERRUPTED
    if as_json:
        print_json(waited)
    else:
        _show(waited, rest=rest)
    return 0 if waited.execution == "turn_completed" else EXIT_NOT_COMPLETED


def _show(waited: "Waited", *, rest: str) -> None:
    from agentlink.cli.pending_text import pending_lines

    task = waited.task_id
    if waited.tasks:
        for one in waited.tasks:
            say(f"{one.task_id}: {one.execution}")
        tell(f"{task} {'timed_out' if waited.timed_out else waited.execution}")
    elif waited.final_message is not None:
        tell(waited.final_message + rest)
    if waited.execution != "turn_completed":
        state = waited.execution + (f" ({waited.error_code})" if waited.error_code else "")
        say(f"{'the time is over' if waited.timed_out else 'the turn did not complete'}: {state}")
    for line in pending_lines(task, waited.pending):
        say(line)
    if waited.parked:
        removal = command("cancel", task, "--scope", "queue")
        say(f"{waited.parked} parked: these prompts run before the next one, unless they are removed: {removal}")
    if waited.stale_seconds is not None:
        say(f"the live connection has been down for {waited.stale_seconds:.0f} s")
    if waited.failure is not None:
        failure = waited.failure
        say(f"{failure.code}: {failure.message}" if failure.message else failure.code)
        say(f"next: {failure.next}")
