"""One session's events, folded: what its agent does now, what it waits for, what it said last (design section 6).

The same fold takes live frames and pages of history, in any cutting: events seen before change nothing, unknown ones
count only as seen. A fold may begin in the middle of a log, at the exact state that a Host gives for some event.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    ChildRef,
    Event,
    EventBase,
    InboxSpliced,
    ModelRetried,
    QueuedItem,
    SessionState,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

Execution = Literal[
    "not_started",
    "unknown",
    "awaiting_approval",
    "awaiting_input",
    "running",
    "queued",
    "children_running",
    "turn_completed",
    "turn_incomplete",
    "failed",
    "blocked",
    "canceled",
    "interrupted",
]

_ENDS: dict[str, Execution] = {
    "completed": "turn_completed",
    "max-tokens": "turn_incomplete",
    "error": "failed",
    "blocked": "blocked",
    "aborted": "canceled",
    "interrupted": "interrupted",
}
FINISHED: frozenset[Execution] = frozenset(_ENDS.values())
QUESTION_TOOL = "ask_user_question"
_STOPS_THE_QUEUE = frozenset({"aborted", "error", "interrupted"})
"""Turn ends after which waiting prompts stay parked until another prompt comes (measured on 0.2.1-rc.2)."""
PICKED_UP_MS = 5_000
"""A prompt that an idle agent has not taken by then is parked: the next turn follows its predecessor at once."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A session up to event `last_seq`. What belongs to a turn is that of the last one."""

    last_seq: int = -1
    last_ms: int = 0
    """Host clock of the last event, milliseconds."""
    in_turn: bool = False
    turn_seq: int = -1
    """Where the last turn began, -1 when these events do not show it."""
    end: TurnEnded | None = None
    next_turn: tuple[QueuedItem, ...] = ()
    next_step: tuple[QueuedItem, ...] = ()
    queue_ms: int = 0
    """When a prompt came last into the queue."""
    approvals: tuple[ApprovalAsked, ...] = ()
    tools: tuple[ToolCalled, ...] = ()
    """Calls without a result, in the order in which they began."""
    answer: AssistantMessage | None = None
    """The model's last answer in this turn."""
    said: AssistantMessage | None = None
    """Its last answer that had a text."""
    retry: ModelRetried | None = None
    children: tuple[ChildRef, ...] = ()
    reports: tuple[tuple[str, int], ...] = ()
    """Subagents whose end was announced, and the Host's clock when it was announced last."""

    @property
    def waiting(self) -> int:
        return len(self.next_turn) + len(self.next_step)

    @property
    def questions(self) -> tuple[ToolCalled, ...]:
        """Calls that wait for a person's answer."""
        return tuple(call for call in self.tools if call.name == QUESTION_TOOL)

    @property
    def ended(self) -> bool:
        """Whether a turn has ended and no other has begun."""
        return self.end is not None and not self.in_turn


class Gap(Exception):
    """The event does not follow: events between are missing, and nothing has changed."""

    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(f"expected event {expected}, found {found}")
        self.expected = expected
        self.found = found


def fold(timeline: Timeline, event: Event) -> Timeline:
    """The timeline after one more event. Raises Gap."""
    if event.seq <= timeline.last_seq:
        return timeline
    if event.seq != timeline.last_seq + 1:
        raise Gap(expected=timeline.last_seq + 1, found=event.seq)
    step = _STEPS.get(type(event))
    changes = {} if step is None else step(timeline, event)
    return replace(timeline, last_seq=event.seq, last_ms=max(timeline.last_ms, event.time_ms), **changes)


def fold_all(timeline: Timeline, events: Iterable[Event]) -> Timeline:
    """The timeline after all these events. Raises Gap."""
    for event in events:
        timeline = fold(timeline, event)
    return timeline


def timeline_at(state: SessionState, events: Sequence[Event]) -> Timeline:
    """The timeline at an exact state, from the last events up to it: whole turns, or the end of one long turn.

    Raises Gap when the events do not end at the state.
    """
    first = next((event for event in events if isinstance(event, TurnStarted | TurnEnded)), None)
    # Without a turn's beginning the events lie inside a turn that began before them, unless there never was one.
    inside = isinstance(first, TurnEnded) or (first is None and not state.blank)
    start = events[0].seq if events else state.last_seq + 1
    timeline = fold_all(Timeline(last_seq=start - 1, in_turn=inside), events)
    if timeline.last_seq != state.last_seq:
        raise Gap(expected=state.last_seq, found=timeline.last_seq)
    # The queue and the children are older than these events may be: the state has them whole.
    return replace(timeline, next_turn=state.next_turn, next_step=state.next_step, children=state.children)


# -- one step for each kind of event that changes something: the changed fields

Changes = dict[str, Any]


def _turn_started(_: Timeline, event: TurnStarted) -> Changes:
    return {
        "in_turn": True,
        "turn_seq": event.seq,
        "end": None,
        "approvals": (),
        "tools": (),
        "answer": None,
        "said": None,
        "retry": None,
    }


def _turn_ended(_: Timeline, event: TurnEnded) -> Changes:
    return {"in_turn": False, "end": event, "approvals": (), "tools": (), "retry": None}


def _spliced(timeline: Timeline, event: InboxSpliced) -> Changes:
    name = "next_turn" if event.target == "next-turn" else "next_step"
    entries = list(timeline.next_turn if event.target == "next-turn" else timeline.next_step)
    items = event.items if len(event.items) == len(event.inserted) else ("",) * len(event.inserted)
    inserted = [QueuedItem(item, request) for item, request in zip(items, event.inserted, strict=True)]
    entries[event.start : event.start + event.removed] = inserted
    changes: Changes = {name: tuple(entries)}
    if inserted:
        changes["queue_ms"] = event.time_ms
    if event.reports:
        changes["reports"] = _reported(timeline, event.reports, event.time_ms)
    return changes


def _user_message(timeline: Timeline, event: UserMessage) -> Changes:
    if event.reports is None:
        return {}
    return {"reports": _reported(timeline, (event.reports,), event.time_ms)}


def _reported(timeline: Timeline, children: Sequence[str], at: int) -> tuple[tuple[str, int], ...]:
    others = tuple(report for report in timeline.reports if report[0] not in children)
    return (*others, *((child, at) for child in children))


def _answered(timeline: Timeline, event: AssistantMessage) -> Changes:
    return {"answer": event, "said": event if event.text else timeline.said, "retry": None}


def _tool_called(timeline: Timeline, event: ToolCalled) -> Changes:
    return {"tools": (*timeline.tools, event)}


def _tool_ended(timeline: Timeline, event: ToolEnded) -> Changes:
    tools = tuple(call for call in timeline.tools if call.call != event.call)
    approvals = tuple(asked for asked in timeline.approvals if asked.call != event.call)
    return {"tools": tools, "approvals": approvals}


def _asked(timeline: Timeline, event: ApprovalAsked) -> Changes:
    return {"approvals": (*timeline.approvals, event)}


def _decided(timeline: Timeline, event: ApprovalDecided) -> Changes:
    return {"approvals": tuple(asked for asked in timeline.approvals if asked.approval != event.approval)}


def _retried(_: Timeline, event: ModelRetried) -> Changes:
    return {"retry": event}


def _subagent_started(timeline: Timeline, event: SubagentStarted) -> Changes:
    known = any(child.session == event.child.session for child in timeline.children)
    return {} if known else {"children": (*timeline.children, event.child)}


_STEPS: dict[type[EventBase], Callable[[Timeline, Any], Changes]] = {
    TurnStarted: _turn_started,
    TurnEnded: _turn_ended,
    InboxSpliced: _spliced,
    UserMessage: _user_message,
    AssistantMessage: _answered,
    ToolCalled: _tool_called,
    ToolEnded: _tool_ended,
    ApprovalAsked: _asked,
    ApprovalDecided: _decided,
    ModelRetried: _retried,
    SubagentStarted: _subagent_started,
}


# -- what the timeline says


def queue_runs(timeline: Timeline, *, now_ms: int) -> bool:
    """Whether what waits will be taken up by itself; otherwise it is parked until the next prompt."""
    if timeline.in_turn:
        return True
    if timeline.end is None:
        return now_ms - timeline.queue_ms < PICKED_UP_MS or not timeline.queue_ms
    arrived_after = timeline.queue_ms > timeline.end.time_ms
    if timeline.end.kind in _STOPS_THE_QUEUE and not arrived_after:
        return False
    return now_ms - max(timeline.end.time_ms, timeline.queue_ms) < PICKED_UP_MS


def session_execution(timeline: Timeline, *, now_ms: int) -> Execution:
    """What the session's own agent does now, its subagents left aside."""
    if timeline.in_turn:
        if timeline.approvals:
            return "awaiting_approval"
        return "awaiting_input" if timeline.questions else "running"
    if timeline.waiting and queue_runs(timeline, now_ms=now_ms):
        return "queued"
    if timeline.end is None:
        return "not_started"
    return _ENDS.get(timeline.end.kind, "failed")


def final_message(timeline: Timeline) -> AssistantMessage | None:
    """What the agent said to the user in its last turn, whole; None when it said nothing final.

    A turn that was stopped or failed has a final message only when its last answer is a whole one: what was said on
    the way, or until somebody stopped it, is none.
    """
    end, answer = timeline.end, timeline.answer
    if timeline.in_turn or end is None or answer is None:
        return None
    if end.kind == "completed":
        # Some models say all they have to say beside their last tool call, and then nothing more.
        return timeline.said
    return answer if answer.text and not answer.calls_tools and not answer.interrupted else None
