"""`recover`: settle what was interrupted, and prompt, abandon or give up what it left."""

import sys
from typing import Any

import click

from agentlink.cli.delegate_cmd import read_prompt
from agentlink.cli.output import json_option, print_json, run_with, say
from agentlink.cli.tasks_cmd import checked_task


@click.command("recover")
@click.argument("task", required=False)
@click.argument("prompt", required=False)
@click.option("--prompt-file", metavar="F", help="Read the prompt from this file (- for standard input).")
@click.option("--abandon", is_flag=True, help="Close the unprompted session of TASK for good.")
@click.option("--session-lost", is_flag=True, help="Confirm that the session of TASK is gone from its Host.")
@json_option
def recover_command(
    task: str | None, prompt: str | None, prompt_file: str | None, *, abandon: bool, session_lost: bool, as_json: bool
) -> None:
    """Without TASK, settle every interrupted launch by reading the Host and list the sessions left without a prompt.

    With TASK and PROMPT (or - for standard input), send it into that session once, after proving preset, claim and
    model route again.
    """
    from agentlink.app.recover import recover

    if task is not None and prompt is None and prompt_file is None and not (abandon or session_lost):
        raise click.UsageError("with TASK give PROMPT, --prompt-file F, --abandon or --session-lost")
    wanted = None if task is None else checked_task(task)
    text = None if prompt is None and prompt_file is None else read_prompt(prompt, prompt_file)
    progress = None if as_json or not sys.stderr.isatty() else _progress

    async def work(runtime: Any) -> Any:
        return await recover(
            runtime, wanted, prompt=text, give_up=abandon, session_lost=session_lost, progress=progress
        )

    answer = run_with(work)
    if progress is not None:
        say("")
    if as_json:
        print_json(answer)
        return
    from agentlink.cli.render import show_recovery

    show_recovery(answer)


def _progress(done: int, total: int) -> None:
    print(f"\rlooked at {done} of {total} launches", end="", file=sys.stderr, flush=True)
