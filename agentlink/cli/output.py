"""Output for pipes: one JSON document on stdout, people's text elsewhere, exit statuses."""

import io
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from agentlink.cli.plain_text import safe
from agentlink.core.errors import Code, Failure, envelope

if TYPE_CHECKING:
    from agentlink.app.runtime import Runtime

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_NOT_COMPLETED = 3
"""The command worked, but the agent's turn did not end as completed."""
EXIT_INTERRUPTED = 130

T = TypeVar("T")

_SENT = {
    True: "the prompt was sent",
    False: "no prompt was sent",
    None: "whether the prompt was sent is unknown",
}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


def tolerant_streams() -> None:
    """Lets any character be printed in any terminal: what it cannot show becomes an escape, never a crash."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_json(value: Any) -> None:
    """One document in UTF-8, whatever the terminal's encoding is."""
    data = msgspec.json.encode(value) + b"\n"
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)
        buffer.flush()


def say(text: str) -> None:
    """A line for a person who watches: never on stdout."""
    print(safe(text), file=sys.stderr, flush=True)


def tell(text: str) -> None:
    """A text on stdout, fit for a terminal."""
    print(safe(text), flush=True)


def no_terminal() -> bool:
    """Whether nobody is there who could be asked something."""
    return not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty())


def report_failure(failure: Failure, *, as_json: bool) -> int:
    """Prints the failure and gives the exit status."""
    if as_json:
        print_json(envelope(failure))
        return EXIT_FAILURE
    say(f"error: {failure.message}  [{failure.code.value}]")
    facts = [
        f"stage {failure.stage}" if failure.stage else "",
        f"task {failure.task}" if failure.task else "",
        f"session {failure.session}" if failure.session else "",
        _SENT[failure.prompt_sent] if failure.stage or failure.prompt_sent else "",
    ]
    if any(facts):
        say("  " + ", ".join(fact for fact in facts if fact))
    for name, value in (failure.details or {}).items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        say(f"  {name}: {shown}")
    say(f"  next: {failure.next_step}")
    return EXIT_FAILURE


def report_usage(error: click.ClickException, *, as_json: bool) -> int:
    """Prints what is wrong with the command line itself."""
    if as_json:
        print_json(envelope(Failure(Code.INVALID_REQUEST, error.format_message())))
    else:
        error.show(file=sys.stderr)
    return EXIT_USAGE


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Runs one piece of work to its end in an event loop of its own."""
    import anyio

    return anyio.run(_awaited, work)


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


def run_with(work: Callable[["Runtime"], Awaitable[T]], environment: Mapping[str, str] | None = None) -> T:
    """Runs one use case on the runtime of this environment, and closes it."""
    from agentlink.app.runtime import open_runtime

    async def call() -> T:
        runtime = open_runtime(environment)
        try:
            return await work(runtime)
        finally:
            await runtime.aclose()

    return run_async(call)
