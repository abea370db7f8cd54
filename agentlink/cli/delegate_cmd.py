"""`delegate`: hand a task to the Host, and follow it to the end of its turn when asked."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from agentlink.cli.output import EXIT_NOT_COMPLETED, json_option, print_json, run_with, say, tell
from agentlink.core.errors import Code, Failure
from agentlink.core.routing.hints import FIELDS


def hint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option for each field of the vocabulary; what is given is checked with the rest of the request."""
    for field in reversed(FIELDS):
        flag, values = _flag(field.name), ", ".join(field.values)
        command = click.option(flag, field.name.lower(), metavar="HINT", help=f"{field.says}: {values}")(command)
    return command


def _flag(field: str) -> str:
    return "--" + re.sub("([A-Z])", r"-\1", field).lower()


def given_options(options: Mapping[str, Any]) -> dict[str, object]:
    """The hints among a command's options, by their names in the vocabulary."""
    return {field.name: options[field.name.lower()] for field in FIELDS if options[field.name.lower()] is not None}


def read_prompt(argument: str | None, file: str | None) -> str:
    """The prompt, byte for byte: from the argument, a file, or standard input (`-`). Raises Failure."""
    if (argument is None) == (file is None):
        raise click.UsageError("give the prompt as an argument, as --prompt-file FILE, or - for standard input")
    if argument is not None and argument != "-":
        return argument
    try:
        from_stdin = "-" in (argument, file)
        data = sys.stdin.buffer.read() if from_stdin else Path(str(file)).read_bytes()
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Failure(Code.INVALID_REQUEST, "the prompt is not UTF-8 text", details={"argument": "prompt"}) from None
    except OSError as error:
        reason = f"the prompt file cannot be read: {error.strerror}"
        raise Failure(Code.INVALID_REQUEST, reason, details={"argument": "prompt-file"}) from None


def _here() -> Path | None:
    """Where a relative directory starts: the shell's own, unless somebody has removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


@click.command("delegate")
@click.argument("prompt", required=False)
@click.option("--cwd", required=True, help="Working directory of the task.")
@click.option("--preset", help="DSH preset id; without it the Host's default.")
@click.option("--auto", is_flag=True, help="Let the rules in routes.toml choose the preset, by these hints:")
@hint_options
@click.option("--prompt-file", metavar="F", help="Read the prompt from this file (- for standard input).")
@click.option(
    "--workspace-mode",
    type=click.Choice(["exclusive-write", "read-only"]),
    default="exclusive-write",
    show_default=True,
    help="Cooperative claim on the directory; it does not control the DSH sandbox.",
)
@click.option("--title", help="Title of the session.")
@click.option("--request-key", help="Your own id for this request: repeating it never starts a second task.")
@click.option("--wait", is_flag=True, help="Follow the task to the end of its turn and print the final message.")
@json_option
def delegate_command(prompt: str | None, prompt_file: str | None, *, wait: bool, as_json: bool, **options: Any) -> int:
    """Hand PROMPT (or - for standard input) to the Host."""
    from agentlink.app.delegate import DelegateRequest, delegate
    from agentlink.cli.follow import follow, whole_message

    request = DelegateRequest(
        prompt=read_prompt(prompt, prompt_file),
        cwd=options["cwd"],
        preset=options["preset"],
        auto=options["auto"],
        hints=given_options(options) or None,
        claim=options["workspace_mode"],
        title=options["title"],
        request_key=options["request_key"],
        root=_here(),
    )

    async def work(runtime: Any) -> Any:
        answer = await delegate(runtime, request)
        if not wait:
            return answer
        if not as_json:
            say(f"task {answer.task_id}, session {answer.session_id}")
        status = await follow(runtime, answer.task_id, say=None if as_json else say)
        return status if as_json else await whole_message(runtime, status)

    answer = run_with(work)
    if as_json:
        print_json(answer)
    elif wait:
        _show_end(answer)
    else:
        from agentlink.cli.render import show_delegated

        show_delegated(answer)
    return EXIT_NOT_COMPLETED if wait and answer.execution != "turn_completed" else 0


def _show_end(status: Any) -> None:
    from agentlink.cli.pending_text import pending_lines

    if status.final_message is not None:
        tell(status.final_message)
    if status.execution != "turn_completed":
        say(f"the turn did not complete: {status.execution}" + (f" ({status.error_code})" if status.error_code else ""))
    for line in pending_lines(status.task_id, status.pending):
        say(line)
