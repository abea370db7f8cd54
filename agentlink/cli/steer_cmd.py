"""`followup` and `cancel`: more for a task to do, or less."""

from typing import TYPE_CHECKING

import click

from agentlink.cli.delegate_cmd import read_prompt
from agentlink.cli.output import json_option, print_json, run_with, say, tell
from agentlink.cli.tasks_cmd import checked_task

if TYPE_CHECKING:
    from agentlink.app.cancel import Scope, TaskCanceled


@click.command("followup")
@click.argument("task")
@click.argument("prompt", required=False)
@click.option("--prompt-file", metavar="F", help="Read the prompt from this file (- for standard input).")
@click.option("--steer", is_flag=True, help="Join the running turn at its next step, instead of a turn of its own.")
@click.option("--request-key", metavar="K", help="Your own id for this prompt: repeating it never sends it twice.")
@click.option("--since-cursor", metavar="C", help="Refuse if something happened after this cursor.")
@json_option
def followup_command(
    task: str,
    prompt: str | None,
    prompt_file: str | None,
    *,
    steer: bool,
    request_key: str | None,
    since_cursor: str | None,
    as_json: bool,
) -> None:
    """Send TASK another PROMPT (or - for standard input). It gets a turn of its own, after what waits already."""
    from agentlink.app.followup import FollowUp, follow_up

    wanted = checked_task(task)
    asked = FollowUp(
        prompt=read_prompt(prompt, prompt_file),
        mode="steer" if steer else "queue",
        since_cursor=since_cursor,
        request_key=request_key,
    )
    sent = run_with(lambda runtime: follow_up(runtime, wanted, asked))
    if as_json:
        print_json(sent)
        return
    again = ", sent before under this request key" if sent.repeated else ""
    tell(f"{sent.request_id}: {sent.mode}, {sent.delivery.replace('_', ' ')}{again}")
    for warning in sent.warnings:
        say(f"warning: {warning}")
    say(f"next: agentlink wait {sent.task_id}")


@click.command("cancel")
@click.argument("task")
@click.option(
    "--scope",
    type=click.Choice(["turn", "queue", "all"]),
    default="turn",
    show_default=True,
    help="The running turn, the prompts that wait, or both and all subagents.",
)
@json_option
def cancel_command(task: str, scope: str, *, as_json: bool) -> None:
    """Stop TASK. Its workspace claim and its session stay."""
    from agentlink.app.cancel import cancel

    wanted = checked_task(task)
    what: Scope = scope  # type: ignore[assignment]  # click.Choice checked it
    canceled = run_with(lambda runtime: cancel(runtime, wanted, scope=what))
    if as_json:
        print_json(canceled)
        return
    tell(f"{canceled.task_id}: {_told(canceled)}")
    for note in (*canceled.notes, *(f"warning: {warning}" for warning in canceled.warnings)):
        say(note)


def _told(canceled: "TaskCanceled") -> str:
    said = []
    if canceled.scope != "queue":
        said.append("turn stopped" if canceled.turn_canceled else "no turn was running")
    queue = canceled.queue
    if queue is not None:
        said.append(f"{queue.removed} of {queue.requested} waiting prompts removed")
        if queue.already_taken:
            said.append(f"{queue.already_taken} had begun already")
        if queue.failed:
            said.append(f"{queue.failed} could not be removed")
    return ", ".join([*said, f"now {canceled.execution}"])
