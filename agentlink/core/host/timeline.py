"""What the tail of a session's log says about its last turn (design section 6, the part a launch needs)."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    Event,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

Execution = Literal[
    "not_started",
    "unknown",
    "awaiting_approval",
    "awaiting_input",
    "running",
    "queued",
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
_QUESTION_TOOL = "ask_user_question"


class LastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The last turn as far as these events show it."""

    execution: Execution
    error_code: str | None = None
    final_text: str | None = None
    """What the agent said last to the user in that turn; None when it said nothing."""
    ended_seq: int | None = None


def last_turn(events: Sequence[Event], *, waiting: int) -> LastTurn:
    """The last turn of a log's tail, in ascending order and whole from some event on.

    A tail without any turn event lies inside a turn that began earlier, unless the log has no turn at all;
    `waiting` is the number of prompts in the inbox.
    """
    start = max((i for i, event in enumerate(events) if isinstance(event, TurnStarted)), default=None)
    turn = events[start:] if start is not None else events
    ended = next((event for event in reversed(turn) if isinstance(event, TurnEnded)), None)
    text = _final_text(turn)
    if ended is not None:
        return LastTurn(
            execution="queued" if waiting else _ENDS.get(ended.kind, "failed"),
            error_code=ended.error_code,
            final_text=text,
            ended_seq=ended.seq,
        )
    if start is None and not any(isinstance(event, AssistantMessage | ToolCalled | ToolEnded) for event in events):
        return LastTurn(execution="queued" if waiting else "not_started")
    return LastTurn(execution=_open_turn(turn), final_text=None)


def _final_text(turn: Sequence[Event]) -> str | None:
    for event in reversed(turn):
        if isinstance(event, AssistantMessage) and event.text:
            return event.text
    return None


def _open_turn(turn: Sequence[Event]) -> Execution:
    approvals: set[str] = set()
    questions: set[str] = set()
    for event in turn:
        match event:
            case ApprovalAsked():
                approvals.add(event.approval)
            case ApprovalDecided():
                approvals.discard(event.approval)
            case ToolCalled() if event.name == _QUESTION_TOOL:
                questions.add(event.call)
            case ToolEnded():
                questions.discard(event.call)
            case _:
                pass
    if approvals:
        return "awaiting_approval"
    return "awaiting_input" if questions else "running"
