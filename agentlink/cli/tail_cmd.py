"""`tail`: what a task did, as lines for people or as JSON, and on as it happens."""

from typing import TYPE_CHECKING, Any

import click

from agentlink.cli.output import EXIT_INTERRUPTED, EXIT_NOT_COMPLETED, json_option, print_json, run_with, say, tell
from agentlink.cli.tasks_cmd import checked_task

if TYPE_CHECKING:
    from agentlink.app.runtime import Runtime
    from agentlink.app.tail import EventText, Tailed
    from agentlink.core.ids import TaskId


@click.command("tail")
@click.argument("task")
@click.option("--cursor", metavar="C", help="Begin after this cursor of an earlier answer.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until Ctrl+C.")
@click.option("--event", metavar="ID", help="Print the whole text of this event.")
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="With --event: begin at this character.")
@click.option("--max-bytes", type=int, metavar="N", help="One bounded answer of at most this size, as a tool gets it.")
@json_option
def tail_command(task: str, *, as_json: bool, **options: Any) -> int:
    """Tell what TASK did, its subagents included: the whole story, or what came after a cursor.

    The cursor that goes on from here is printed on stderr. With --follow and --json there is one JSON object a line.
    """
    _check(options)
    wanted = checked_task(task)
    if options["event"] is not None:
        return _event(wanted, options["event"], options["offset"] or 0, options["max_bytes"], as_json=as_json)
    if options["follow"]:
        return _follow(wanted, options["cursor"], as_json=as_json)
    return _once(wanted, options["cursor"], options["max_bytes"], as_json=as_json)


def _check(options: dict[str, Any]) -> None:
    if options["event"] is not None and (options["cursor"] is not None or options["follow"]):
        raise click.UsageError("--event does not go with --cursor or --follow")
    if options["offset"] is not None and options["event"] is None:
        raise click.UsageError("--offset goes with --event")
    if options["follow"] and options["max_bytes"] is not None:
        raise click.UsageError("--max-bytes does not go with --follow")


def _event(task: "TaskId", event: str, offset: int, max_bytes: int | None, *, as_json: bool) -> int:
    import msgspec

    from agentlink.app.results import Rest
    from agentlink.app.tail import MOST_BYTES, read_event
    from agentlink.cli.follow import rest_of
    from agentlink.cli.plain_text import command

    async def work(runtime: "Runtime") -> "EventText":
        first = await read_event(runtime, task, event, offset=offset, max_bytes=max_bytes or MOST_BYTES)
        if first.next is None or max_bytes is not None:
            return first
        rest = await rest_of(runtime, task, Rest(event=event, offset=first.next, size=first.size))
        return msgspec.structs.replace(first, text=first.text + rest, next=None)

    found = run_with(work)
    if as_json:
        print_json(found)
        return 0
    tell(found.text)
    if found.next is not None:
        say(f"more: {command('tail', task, '--event', event, '--offset', str(found.next))}")
    return 0


def _once(task: "TaskId", cursor: str | None, max_bytes: int | None, *, as_json: bool) -> int:
    from agentlink.app.tail import DEFAULT_BYTES, MOST_BYTES, tail
    from agentlink.cli.tailing import Printed, joined

    async def work(runtime: "Runtime") -> "Tailed":
        if max_bytes is not None or as_json:
            reply = await tail(runtime, task, cursor=cursor, max_bytes=max_bytes or MOST_BYTES)
            while reply.more and max_bytes is None:
                reply = joined(reply, await tail(runtime, task, cursor=reply.cursor, max_bytes=MOST_BYTES))
            printed.take(reply)
            return reply
        at = cursor
        while True:
            reply = await tail(runtime, task, cursor=at, max_bytes=DEFAULT_BYTES)
            printed.take(reply)
            at = reply.cursor
            if not reply.more:
                return reply

    printed = Printed(task, as_json=None if as_json else False)
    reply = run_with(work)
    if as_json:
        print_json(reply)
        return 0
    printed.finish()
    printed.end()
    if reply.more:
        say(f"more: {reply.events_left} events are left")
    return 0


def _follow(task: "TaskId", cursor: str | None, *, as_json: bool) -> int:
    from agentlink.cli.tailing import Printed, follow_story

    printed = Printed(task, as_json=as_json)
    printed.cursor = cursor
    try:
        run_with(lambda runtime: follow_story(runtime, task, printed))
    except KeyboardInterrupt:
        printed.end()
        if not as_json:
            say("the view ended; the task was not touched")
        return EXIT_INTERRUPTED
    printed.end()
    return EXIT_NOT_COMPLETED
