"""What a task does now, out of the timelines of its root session and of its subagents (design section 6)."""

from collections.abc import Sequence

import msgspec

from agentlink.core.host.timeline import (
    FINISHED,
    Execution,
    Timeline,
    final_message,
    queue_runs,
    session_execution,
)
from agentlink.core.host.values import AssistantMessage, ChildRef
from agentlink.core.supervision.interactions import Pending, pending_items

REPORT_MS = 2_000
"""How long after a subagent's turn its parent may take to be woken by it: 11 ms were measured on a quiet Host."""
GOING_ON: frozenset[Execution] = frozenset({"not_started", "unknown", "running", "queued", "children_running"})
"""States that change by themselves: what a waiter waits through."""
NO_MESSAGE = "turn_ended_without_message"


class Descendant(msgspec.Struct, frozen=True):
    """A subagent of the task, the session that started it, and its timeline (None when it cannot be read)."""

    ref: ChildRef
    parent: str
    timeline: Timeline | None


class TaskNow(msgspec.Struct, frozen=True, kw_only=True):
    """The task at one moment. `settles_ms` is when it may become done without any further event."""

    execution: Execution
    queued: int = 0
    parked: int = 0
    pending: tuple[Pending, ...] = ()
    running_children: tuple[ChildRef, ...] = ()
    tool: str | None = None
    error_code: str | None = None
    final: AssistantMessage | None = None
    final_missing: str | None = None
    settles_ms: int | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the state changes by itself: a waiter waits through it."""
        return self.execution in GOING_ON


def look_at(root: Timeline, session: str, descendants: Sequence[Descendant], *, now_ms: int) -> TaskNow:
    """The task's state by the Host's clock `now_ms`. Done means: turn ended, queue empty, no descendant at work."""
    own = session_execution(root, now_ms=now_ms)
    timelines = {session: root} | {d.ref.session: d.timeline for d in descendants if d.timeline is not None}
    ends = [(d, _busy_until(d, timelines, now_ms=now_ms)) for d in descendants]
    busy = [(d, until) for d, until in ends if until is not None]
    execution: Execution = "children_running" if busy and own in FINISHED else own
    runs = root.waiting > 0 and queue_runs(root, now_ms=now_ms)
    timers = [until for _, until in busy if until > now_ms]
    final = final_message(root) if execution in FINISHED else None
    return TaskNow(
        execution=execution,
        queued=root.waiting if runs else 0,
        parked=0 if runs else root.waiting,
        pending=pending_items(root),
        running_children=tuple(d.ref for d, _ in busy),
        tool=root.tools[-1].name if root.tools else None,
        error_code=root.end.error_code if root.ended and root.end is not None else None,
        final=final,
        final_missing=None if final is not None else (NO_MESSAGE if execution in FINISHED else execution),
        settles_ms=min(timers, default=None),
    )


def _busy_until(descendant: Descendant, timelines: dict[str, Timeline], *, now_ms: int) -> int | None:
    """None for a subagent at rest; else the Host's clock at which it counts as at rest by itself (0: only an event
    tells)."""
    timeline = descendant.timeline
    if timeline is None:
        return None
    if session_execution(timeline, now_ms=now_ms) not in FINISHED:
        # One that was made a moment ago has no turn yet.
        return 0 if timeline.in_turn or timeline.waiting or now_ms - timeline.last_ms < REPORT_MS else None
    end = timeline.end
    parent = timelines.get(descendant.parent)
    if end is None or parent is None:
        return None
    announced = dict(parent.reports).get(descendant.ref.session, 0)
    over = end.time_ms + REPORT_MS
    # Its parent is idle and will be woken in a moment: to call the task done now would be wrong.
    return over if announced < end.time_ms and now_ms < over else None
