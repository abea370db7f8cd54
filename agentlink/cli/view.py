"""Watching a task until its turn has ended: as plain lines, or on a screen where a person answers in place."""

from typing import TYPE_CHECKING

import anyio

from agentlink.app.answer import Resolved, answer_question, resolve_approval
from agentlink.app.runtime import Runtime
from agentlink.cli.ask import ask_approval, ask_questions, read_line
from agentlink.cli.news import Emit, News, why_away
from agentlink.cli.output import report_failure, say
from agentlink.cli.pending_text import answers
from agentlink.cli.sight import Sight, watching
from agentlink.core.errors import Code, Failure
from agentlink.core.host.timeline import FINISHED
from agentlink.core.ids import TaskId
from agentlink.core.supervision.interactions import Answer, Outcome, Pending

if TYPE_CHECKING:
    from agentlink.cli.screen import Screen

_FRAME_S = 0.1
_TICK_S = 0.5
_AGAIN = frozenset(
    {Code.HOST_UNREACHABLE, Code.HOST_ERROR, Code.BAD_HOST_REPLY, Code.LAUNCH_IN_PROGRESS, Code.BAD_ANSWER}
)
"""After these it can be said once more."""


async def watch_lines(runtime: Runtime, task: TaskId, emit: Emit) -> bool:
    """Tells every news until the end; whether the turn completed. Raises Failure."""
    news = News(task, emit, asks=False)
    async with watching(runtime, task, listener=news) as sight:
        news.sight = sight
        while True:
            news.look(sight)
            if _ended(sight):
                return _end(sight, news)
            await sight.changed()


async def watch_screen(runtime: Runtime, task: TaskId, screen: "Screen") -> bool:
    """The same on a terminal; pending items are asked one after the other. Raises Failure."""
    news = News(task, screen.emit, asks=True)
    left_open: set[str] = set()
    with screen.shown():
        async with watching(runtime, task, listener=news) as sight:
            news.sight = sight
            while True:
                news.look(sight)
                if _ended(sight):
                    return _end(sight, news)
                screen.draw(sight, news)
                item = next((one for one in sight.now().pending if _name(one) not in left_open), None)
                if item is not None and sight.lost_s is None:
                    with screen.paused():
                        if await _asked(runtime, task, sight, news, item):
                            left_open.add(_name(item))
                else:
                    await anyio.sleep(_FRAME_S)
                    with anyio.move_on_after(_TICK_S):
                        await sight.changed()


def _name(item: Pending) -> str:
    return item.request_id


def _ended(sight: Sight) -> bool:
    seen = sight.known and why_away(sight) is None
    return sight.over or (seen and sight.now().execution in FINISHED)


def _end(sight: Sight, news: News) -> bool:
    if sight.error is not None:
        raise sight.error
    news.end(sight)
    if sight.over and not sight.launch_failed and sight.problem is not None:
        raise sight.problem
    return not sight.over and sight.now().execution == "turn_completed"


async def _asked(runtime: Runtime, task: TaskId, sight: Sight, news: News, item: Pending) -> bool:
    """Asks the person about one item; whether it is done with: answered, left open or gone."""
    said = _Said()
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            said.value = await (
                ask_approval(read_line, item) if item.kind == "approval" else ask_questions(read_line, item)
            )
            said.done = True
            group.cancel_scope.cancel()

        group.start_soon(ask)
        while any(_name(one) == _name(item) for one in sight.now().pending) and not sight.over:
            await sight.changed()
            news.look(sight)
        group.cancel_scope.cancel()
    if not said.done:
        say("\n  it was answered elsewhere, or is gone")
        return True
    if said.value is None:
        say("  left pending:")
        for line in answers(task, item):
            say(f"  {line}")
        return True
    try:
        resolved = await _send(runtime, task, item, said.value)
    except Failure as failure:
        report_failure(failure, as_json=False)
        return failure.code not in _AGAIN
    say(f"  {resolved.outcome or 'answered'}" + ("" if resolved.delivery == "in_history" else " (not in the log yet)"))
    return True


class _Said:
    """What the person said, once they did."""

    done = False
    value: Outcome | list[Answer] | None = None


async def _send(runtime: Runtime, task: TaskId, item: Pending, said: Outcome | list[Answer]) -> Resolved:
    if isinstance(said, list):
        return await answer_question(runtime, task, item.request_id, said)
    return await resolve_approval(runtime, task, item.request_id, said)
