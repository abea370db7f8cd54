"""A task's journal lines, read back: the path its launch took and the record that 003 FR-12 asks for."""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import LaunchAbandoned, SessionLost
from agentlink.core.facts.work import TaskFact, TaskLineFact
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.state import Launch, apply

_AFTERWARDS = (*get_args(TaskFact), SessionLost, LaunchAbandoned)
"""Facts that tell what became of an attempt's claim or session: its record is what it was."""


class Recorded(msgspec.Struct, frozen=True):
    """One journal line of a task: `n` counts the task's lines from 1, `at` is UTC and information only."""

    seq: int
    at: str
    n: int
    facts: tuple[TaskLineFact, ...]


class TaskView(msgspec.Struct, frozen=True):
    """A task as the journal has it now; `n` is the number of its lines."""

    task: TaskId
    launch: Launch
    n: int
    created_at: str = ""


class StaleTask(Exception):
    """The task has other lines than expected: somebody else appended. Read again and decide anew."""

    def __init__(self, task: str, *, expected: int, found: int) -> None:
        super().__init__(f"{task}: expected line {expected + 1}, found {found} lines")


class Stage(msgspec.Struct, frozen=True):
    """One step of the launch: the fact that made it, the state it led to, when, in which attempt."""

    fact: str
    source: str
    state: str
    at: str
    attempt: int


class RouteRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The Task Route Record: exactly the nine fields of 003 FR-12, derived, never stored."""

    selection_mode: Literal["automatic", "manual", "dsh-default"]
    route_rule_id: str | None = None
    requested_preset: str | None = None
    resolved_preset: str | None = None
    verification: Literal["not-required", "verified", "unavailable", "failed"]
    launch_stage: Literal["session-created", "preset-verified", "launch-failed", "prompt-sent"]
    prompt_sent: bool
    failure_code: str | None = None
    recorded_at: str


def replay(lines: Sequence[Recorded]) -> Launch:
    """The launch that these lines tell. Raises IllegalFact."""
    launch = Launch()
    for line in lines:
        for fact in line.facts:
            launch = apply(launch, fact)
    return launch


def stages(lines: Sequence[Recorded]) -> tuple[Stage, ...]:
    """Every step in order, over all attempts (claims and later writes are no steps of the launch)."""
    launch, path = Launch(), []
    for line in lines:
        for fact in line.facts:
            before, launch = launch, apply(launch, fact)
            if not isinstance(fact, TaskFact):
                path.append(Stage(fact_type(fact), before.state, launch.state, line.at, launch.attempt))
    return tuple(path)


def route_record(lines: Sequence[Recorded]) -> RouteRecord | None:
    """The record after these lines, or None before a session exists (unless the launch failed)."""
    launch = replay(lines)
    stage = _record_stage(launch)
    if stage is None:
        return None
    moved = [line.at for line in lines if any(not isinstance(fact, _AFTERWARDS) for fact in line.facts)]
    return RouteRecord(
        selection_mode=launch.mode,
        route_rule_id=launch.rule,
        requested_preset=launch.preset or launch.asked_preset,
        resolved_preset=launch.resolved,
        verification=verification_of(launch),
        launch_stage=stage,
        prompt_sent=launch.state == machine.PROMPT_SENT,
        failure_code=launch.code,
        recorded_at=moved[-1],
    )


def _record_stage(
    launch: Launch,
) -> Literal["session-created", "preset-verified", "launch-failed", "prompt-sent"] | None:
    match launch.state:
        case machine.SESSION_CREATED:
            return "session-created"
        case machine.PRESET_VERIFIED | machine.CLAIMED:
            return "preset-verified"
        case machine.PROMPT_SENT:
            return "prompt-sent"
        case machine.LAUNCH_FAILED:
            return "launch-failed"
        case _:
            return None


def verification_of(launch: Launch) -> Literal["not-required", "verified", "unavailable", "failed"]:
    """How the resolved preset compares with the one asked, as far as it was compared (003 FR-06, FR-12)."""
    if launch.code == "resolved_preset_mismatch":
        return "failed"
    if launch.mode == "dsh-default":
        return "not-required"
    return launch.verification or "unavailable"
