"""The kinds of tasks that lists and look-ups ask for, as predicates over a launch."""

from collections.abc import Callable
from typing import Literal

from agentlink.core.launch.state import Launch

Kind = Literal["unfinished", "failed", "sent", "claimed", "unprompted", "absent", "with-session"]

KINDS: dict[Kind, Callable[[Launch], bool]] = {
    "unfinished": lambda launch: not launch.settled,
    "failed": lambda launch: launch.failed,
    "sent": lambda launch: launch.prompt_sent is True,
    "claimed": lambda launch: launch.claim_held,
    "unprompted": lambda launch: launch.unprompted,
    "absent": lambda launch: bool(launch.absent_sessions),
    "with-session": lambda launch: launch.session is not None,
}


def is_open(launch: Launch) -> bool:
    """Whether the task is carried into every new segment: unfinished, claim held, recoverable, or written to with an
    outcome that is not final."""
    return not launch.settled or launch.claim_held or launch.unprompted or bool(launch.writes.open)


def kinds_of(launch: Launch) -> tuple[Kind, ...]:
    """Every kind that the launch is of, in the order of KINDS."""
    return tuple(kind for kind, holds in KINDS.items() if holds(launch))
