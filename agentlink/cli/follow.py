"""Waiting for as long as a person wants: bounded waits, one after the other, through a Host that is away."""

import math
from collections.abc import Callable

import msgspec

from agentlink.app.results import Rest, TaskStatus
from agentlink.app.runtime import Clock, Runtime
from agentlink.app.status import task_status
from agentlink.app.tail import MOST_BYTES, read_event
from agentlink.app.wait import MAX_WAIT_S, Until, Waited, WaitRequest, wait
from agentlink.core.errors import Code
from agentlink.core.ids import TaskId
from agentlink.core.supervision.status import GOING_ON

HOPELESS = frozenset({"session_not_found", "host_changed", "login_required", "host_unsupported"})
"""What waiting alone does not mend."""
_STARTING_S = 5.0
_AGAIN_S = 0.5
_FIRST_S = 0.5
"""The first wait is short, so that a person soon sees what the task does."""


class Patience:
    """Tells a Host that is starting from one that cannot be used: for a moment it has no live connection to offer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def is_over(self, code: str | None) -> bool:
        """Whether waiting does not mend what the Host was just found to be."""
        if code != Code.HOST_UNSUPPORTED.value:
            self._since = None
            return code in HOPELESS
        self._since = self._since or self._clock.now()
        return self._clock.now() - self._since >= _STARTING_S


async def wait_on(
    runtime: Runtime,
    tasks: tuple[TaskId, ...],
    *,
    timeout_s: float = math.inf,
    until: Until = "settled",
    cursor: str | None = None,
    say: Callable[[str], None] | None = None,
) -> Waited:
    """How the wait ended: the first task with news, or `timedOut` when the time is over. Raises Failure."""
    clock = runtime.clock
    deadline = clock.now() + timeout_s
    patience = Patience(clock)
    shown = ""

    def tell(line: str) -> None:
        nonlocal shown
        if say is not None and line != shown:
            say(line)
            shown = line

    async def progress(_: float, states: str) -> None:
        tell(states)

    slice_s = _FIRST_S
    while True:
        left = max(0.0, deadline - clock.now())
        asked = WaitRequest(tasks=tasks, timeout_s=min(left, slice_s), until=until, cursor=cursor)
        waited = await wait(runtime, asked, say=progress)
        slice_s = MAX_WAIT_S
        over = clock.now() >= deadline
        goes_on = _goes_on(waited, patience)
        if not waited.timed_out and not goes_on:
            return waited
        if not waited.timed_out and until == "any" and waited.availability == "connected":
            return waited
        if until == "any":
            cursor = cursor or waited.cursor  # what happens between two waits is a change, too
        if over:
            return msgspec.structs.replace(waited, timed_out=waited.timed_out or goes_on)
        if waited.availability != "connected" or waited.stale_seconds is not None:
            tell("Host: host_unreachable" if waited.availability == "connected" else f"Host: {waited.availability}")
        elif waited.timed_out:
            tell(", ".join(sorted({one.execution for one in waited.tasks} or {waited.execution})))
        if not waited.timed_out:
            await clock.sleep(min(_AGAIN_S, max(0.0, deadline - clock.now())))


def _goes_on(waited: Waited, patience: Patience) -> bool:
    """Whether the wait ended only because the Host is away, or because its launch cannot be settled just now."""
    if waited.execution not in GOING_ON or waited.stage == "launch-failed":
        return False
    code = None if waited.failure is None else waited.failure.code
    away = waited.availability if waited.availability != "connected" else code
    return not patience.is_over(away) and code not in (*HOPELESS - {away}, "delivery_unknown")


async def follow(runtime: Runtime, task: str, *, say: Callable[[str], None] | None) -> TaskStatus:
    """The task's status once its turn has ended, a person is needed, or its launch failed. Raises Failure.

    A Host that cannot be reached is waited for: the task may run on there. Interrupting ends the wait, not the task.
    """
    patience = Patience(runtime.clock)
    while True:
        await wait_on(runtime, (TaskId(task),), say=say)
        status = await task_status(runtime, TaskId(task))
        settled = status.launch.confirmed or status.launch.stage == "launch-failed"
        if settled and (status.execution not in GOING_ON or _cannot_go_on(status, patience)):
            if say is not None:
                say(status.execution if status.availability == "connected" else f"Host: {status.availability}")
            return status
        # The Host went away again between the two looks, or its history does not show the prompt yet.
        await runtime.clock.sleep(_AGAIN_S)


def _cannot_go_on(status: TaskStatus, patience: Patience) -> bool:
    return status.launch.stage == "launch-failed" or patience.is_over(status.availability)


async def rest_of(runtime: Runtime, task: str, rest: Rest) -> str:
    """What a cut text leaves out. Raises Failure."""
    parts, offset = [], rest.offset
    while True:
        part = await read_event(runtime, TaskId(task), rest.event, offset=offset, max_bytes=MOST_BYTES)
        parts.append(part.text)
        if part.next is None:
            return "".join(parts)
        offset = part.next


async def whole_message(runtime: Runtime, status: TaskStatus) -> TaskStatus:
    """The same status with its final message uncut: a terminal has no limit. Raises Failure."""
    if status.final_message is None or status.final_message_rest is None:
        return status
    text = status.final_message + await rest_of(runtime, status.task_id, status.final_message_rest)
    return msgspec.structs.replace(status, final_message=text, final_message_rest=None)
