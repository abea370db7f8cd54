"""Waiting for a task, or the first of several: bounded, and at once when there is nothing to wait for (F3)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import anyio
import msgspec
from msgspec.structs import replace

from agentlink.app.conversation import NOTHING_YET, Conversation, read_within
from agentlink.app.live import LiveTask, following
from agentlink.app.look import find_task, settle_task
from agentlink.app.results import Result, TaskState
from agentlink.app.runtime import Runtime
from agentlink.app.settle_writes import settle_writes
from agentlink.app.status import state_of
from agentlink.app.tail import anything_since, check_cursor
from agentlink.core.errors import Code, Failure
from agentlink.core.host.timeline import Execution
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch
from agentlink.core.supervision.status import TaskNow

MAX_WAIT_S = 45.0
"""Callers give up on a call after about 60 s, even when all is well."""
MAX_TASKS = 20
LOST_AFTER_S = 5.0
"""How long a Host may be away before a waiter is told; a cut connection is back long before."""
_LOOK_AGAIN_S = 1.0
_LAUNCH_POLL_S = 0.1
_PROGRESS_S = 5.0
_PASSING = frozenset(
    code.value for code in (Code.HOST_UNREACHABLE, Code.BAD_HOST_REPLY, Code.HOST_ERROR, Code.HOST_UNSUPPORTED)
)
"""What a Host that restarts answers for a moment."""

Until = Literal["settled", "any"]
Say = Callable[[float, str], Awaitable[None]]
"""Told the seconds that passed, always more than before, and what the task does."""


class TaskNews(Result, frozen=True, kw_only=True):
    """One of several tasks, shortly."""

    task_id: str
    execution: Execution


class Waited(TaskState, frozen=True, kw_only=True):
    """How a wait ended: the task with news, or with `timedOut` the first one, which runs on."""

    timed_out: bool = False
    stage: str
    stale_seconds: float | None = None
    """How long the live connection has been down, when it is."""
    clamped_to: float | None = None
    """The seconds that the wait was cut to, when more were asked."""
    tasks: tuple[TaskNews, ...] = ()


class _Outcome(msgspec.Struct, frozen=True):
    """One task when its wait ended."""

    view: TaskView
    conversation: Conversation
    problem: Failure | None = None
    stale_s: float | None = None

    @property
    def execution(self) -> Execution:
        return self.conversation.now().execution

    @property
    def is_news(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.view.launch.failed or not self.conversation.now().goes_on


class WaitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks. With `until` any, every change after the cursor ends the wait, which takes one task then."""

    tasks: tuple[TaskId, ...]
    timeout_s: float = MAX_WAIT_S
    until: Until = "settled"
    cursor: str | None = None


async def wait(runtime: Runtime, asked: WaitRequest, *, say: Say | None = None) -> Waited:
    """Returns when the first of the tasks is settled, needs a person or cannot go on, or when the time is over.

    Raises Failure for a task that does not exist. The tasks run on, whatever becomes of the wait.
    """
    _check(asked)
    for task in asked.tasks:
        view = await find_task(runtime, task)
        check_cursor(view, asked.cursor)
    began = runtime.clock.now()
    timeout_s = min(asked.timeout_s, MAX_WAIT_S)
    waits = [_TaskWait(runtime, task, until=asked.until, cursor=asked.cursor) for task in asked.tasks]
    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as group:
            news = anyio.Event()
            for one in waits:
                group.start_soon(one.run, news)
            if say is not None:
                group.start_soon(_tell, runtime, waits, began, say)
            await news.wait()
            group.cancel_scope.cancel()
    outcomes = await _outcomes(waits)
    first = next((n for n, one in enumerate(waits) if one.done), None)
    if first is None:
        # There was no time to wait at all, or it ran out just as something came.
        first = next((n for n, outcome in enumerate(outcomes) if outcome.is_news), None)
    shown = outcomes[first or 0]
    return _waited(
        shown if first is None else await _with_writes_settled(runtime, shown),
        timed_out=first is None,
        clamped_to=MAX_WAIT_S if asked.timeout_s > MAX_WAIT_S else None,
        tasks=() if len(waits) == 1 else tuple(TaskNews(task_id=o.view.task, execution=o.execution) for o in outcomes),
    )


async def _with_writes_settled(runtime: Runtime, outcome: "_Outcome") -> "_Outcome":
    """A task that is done may be done because a follow-up will never run: the history says so by now."""
    with anyio.move_on_after(LOST_AFTER_S):
        view = await settle_writes(runtime, await find_task(runtime, outcome.view.task))
        return replace(outcome, view=view)
    return outcome


async def _outcomes(waits: Sequence["_TaskWait"]) -> list["_Outcome"]:
    """Each task as it stands at the end; those that were not looked at yet are read now. Raises Failure."""
    found: dict[TaskId, _Outcome] = {}

    async def look(one: _TaskWait) -> None:
        try:
            found[one.task] = await one.outcome()
        except Failure as failure:
            one.error = failure

    async with anyio.create_task_group() as group:
        for one in waits:
            group.start_soon(look, one)
    error = next((one.error for one in waits if one.error is not None), None)
    if error is not None and not any(one.done for one in waits):
        raise error
    unread = Conversation(availability="unknown")
    return [found.get(one.task) or _Outcome(TaskView(one.task, Launch(), 0), unread) for one in waits]


def _check(asked: WaitRequest) -> None:
    def refuse(argument: str, message: str) -> Failure:
        return Failure(Code.INVALID_REQUEST, message, details={"argument": argument})

    if not asked.tasks:
        raise refuse("taskIds", "name at least one task")
    if len(asked.tasks) > MAX_TASKS:
        raise refuse("taskIds", f"at most {MAX_TASKS} tasks can be waited for at once")
    if len(set(asked.tasks)) != len(asked.tasks):
        raise refuse("taskIds", "a task is named twice")
    if not asked.timeout_s >= 0:  # a number that is none is refused too
        raise refuse("timeoutSeconds", "the time to wait cannot be negative")
    if asked.cursor is not None and len(asked.tasks) != 1:
        raise refuse("cursor", "a cursor belongs to one task; wait for that one alone")


async def _tell(runtime: Runtime, waits: Sequence["_TaskWait"], began: float, say: Say) -> None:
    while True:
        await anyio.sleep(_PROGRESS_S)
        states = sorted({one.now().execution for one in waits})
        await say(runtime.clock.now() - began, ", ".join(states))


class _TaskWait:
    """The wait for one task."""

    def __init__(self, runtime: Runtime, task: TaskId, *, until: Until, cursor: str | None) -> None:
        self.task = task
        self.done = False
        self.error: Failure | None = None
        self._runtime = runtime
        self._until = until
        self._cursor = cursor
        self._outcome: _Outcome | None = None
        self._live: LiveTask | None = None
        self._conversation = NOTHING_YET
        self._lost_since: float | None = None

    def now(self) -> TaskNow:
        return self._live.now() if self._live is not None else self._conversation.now()

    async def outcome(self) -> _Outcome:
        """The task when the wait ended, or as it stands when time ran out."""
        if self._outcome is not None:
            return self._outcome
        view = await find_task(self._runtime, self.task)
        if self._conversation is NOTHING_YET:
            # Bounded, as the time is over already: a frozen Host must not make the wait a long one.
            self._conversation = await self._read(view)
        lost = self._lost_since
        return _Outcome(view, self._conversation, stale_s=None if lost is None else self._runtime.clock.now() - lost)

    async def run(self, news: anyio.Event) -> None:
        try:
            self._outcome = await self._until_news()
            self.done = True
        except Failure as failure:
            self.error = failure
        news.set()

    async def _until_news(self) -> _Outcome:
        runtime = self._runtime
        while True:
            looked_at = runtime.clock.now()
            view, problem = await self._prompted()
            if view.launch.state != machine.PROMPT_SENT:
                return _Outcome(view, NOTHING_YET, problem)
            conversation = await self._read(view)
            if conversation.root is not None:
                self._conversation, self._lost_since = conversation, None
                # Asked after the reading, since the streams tell only what came after that.
                if self._until == "any" and await self._has_news(view):
                    return _Outcome(view, await self._read(view))
                outcome = await self._follow(view, conversation)
                if outcome is not None:
                    return outcome
            elif conversation.availability not in _PASSING:
                return _Outcome(view, conversation)
            else:
                self._lost_since = self._lost_since or looked_at
                away_s = runtime.clock.now() - self._lost_since
                if away_s >= LOST_AFTER_S:
                    return _Outcome(view, conversation, stale_s=away_s)
                await runtime.clock.sleep(0.3)

    async def _read(self, view: TaskView) -> Conversation:
        return await read_within(self._runtime, view.launch, LOST_AFTER_S)

    async def _prompted(self) -> tuple[TaskView, Failure | None]:
        """The task once its launch is over; one that another process drives is waited for."""
        while True:
            view, problem = await self._settled()
            driven = problem is not None and problem.code is Code.LAUNCH_IN_PROGRESS
            if view.launch.state == machine.PROMPT_SENT or view.launch.failed or not driven:
                return view, problem
            await self._runtime.clock.sleep(_LAUNCH_POLL_S)

    async def _settled(self) -> tuple[TaskView, Failure | None]:
        """The task, settled as far as can be; once it has its prompt, a frozen Host does not hold that up."""
        view = await find_task(self._runtime, self.task)
        if view.launch.state != machine.PROMPT_SENT:
            return await settle_task(self._runtime, view)
        with anyio.move_on_after(LOST_AFTER_S):
            return await settle_task(self._runtime, view)
        return view, None

    async def _has_news(self, view: TaskView) -> bool:
        if self._cursor is None:
            return False
        try:
            return await anything_since(self._runtime, view, self._cursor)
        except Failure as failure:
            if failure.code.value in _PASSING:
                return False  # the streams find out whether the Host is back soon
            raise

    async def _follow(self, view: TaskView, conversation: Conversation) -> _Outcome | None:
        """The task's live streams until there is news; None when the Host has been away too long: look again."""
        if not conversation.now().goes_on:
            return _Outcome(view, conversation)
        before = conversation.now()
        runtime = self._runtime
        async with following(runtime, conversation) as live:
            self._live = live
            try:
                while True:
                    with anyio.move_on_after(_LOOK_AGAIN_S):
                        await live.changed()
                    self._lost_since = live.lost_since
                    seen = await self._exact(view, live.conversation())
                    if seen is not None:
                        self._conversation, now = seen, seen.now()
                        if not now.goes_on or (self._until == "any" and (live.news or _differs(before, now))):
                            return _Outcome(view, seen)
                    if live.lost_since is not None and runtime.clock.now() - live.lost_since >= LOST_AFTER_S:
                        return None
            finally:
                self._live = None

    async def _exact(self, view: TaskView, live: Conversation) -> Conversation | None:
        """What the streams tell; the end of a task with subagents only as a reading shows it, None when there is none.

        A stream may tell late that a subagent has begun to work, again or for the first time.
        """
        if not live.descendants or live.now().goes_on:
            return live
        conversation = await self._read(view)
        return None if conversation.root is None else conversation


def _differs(before: TaskNow, now: TaskNow) -> bool:
    """Whether a caller who sees every change would call this one."""

    def seen(one: TaskNow) -> tuple[object, ...]:
        return (one.execution, one.queued, one.parked, one.pending, one.running_children, one.tool)

    return seen(before) != seen(now)


def _waited(outcome: _Outcome, *, timed_out: bool, clamped_to: float | None, tasks: tuple[TaskNews, ...]) -> Waited:
    return Waited(
        **state_of(outcome.view.task, outcome.view.launch, outcome.conversation, outcome.problem),
        timed_out=timed_out,
        stage=outcome.view.launch.state,
        stale_seconds=outcome.stale_s,
        clamped_to=clamped_to,
        tasks=tasks,
    )
