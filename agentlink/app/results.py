"""What the use cases answer, in the form that MCP and the command line print: camelCase, absent rather than null."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from agentlink.core.host.timeline import Execution
from agentlink.core.launch.claims import CLAIM_NOTICE
from agentlink.core.launch.history import RouteRecord
from agentlink.core.launch.state import Launch
from agentlink.core.launch.writes import Write
from agentlink.core.supervision.interactions import Pending


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of every result."""


class RouteHealth(Result, frozen=True, kw_only=True):
    """Whether the routes file can be used now (003 FR-11); targets are judged only with a roster at hand."""

    state: Literal["missing", "valid", "invalid"]
    rules: int
    absent: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    code: str | None = None
    message: str | None = None
    line: int | None = None


class Routing(Result, frozen=True, kw_only=True):
    """How the preset was chosen and what the Host resolved (003 FR-08)."""

    mode: Literal["automatic", "manual", "dsh-default"]
    rule_id: str | None = None
    requested_preset: str | None = None
    resolved_preset: str | None = None
    verification: str
    reason: str | None = None


class LaunchBrief(Result, frozen=True, kw_only=True):
    """Where the launch stands; `promptSent` is null while unknown."""

    stage: str
    prompt_sent: bool | None


class ClaimInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace claim, and what it is not: the notice is never left out."""

    mode: str
    cwd: str
    held: bool
    notice: str = CLAIM_NOTICE


class Delegated(Result, frozen=True, kw_only=True):
    """The answer to a delegation."""

    task_id: str
    session_id: str | None = None
    launch: LaunchBrief
    routing: Routing
    claim: ClaimInfo
    repeated: bool = False
    cursor: str | None = None
    """From here a tail tells everything."""
    waited: Any = None
    """How the wait ended that was asked for with the delegation; see dsh_wait."""
    warnings: tuple[str, ...] = ()


class PathStage(Result, frozen=True, kw_only=True):
    """One replayed stage; `attempt` is left out for the first."""

    stage: str
    at: str
    attempt: int = 1


class LaunchDetail(Result, frozen=True, kw_only=True):
    """The replayed launch: where it stands, whether that is final, how it got there, and its route record."""

    stage: str
    prompt_sent: bool | None
    confirmed: bool = False
    abandoned: bool = False
    attempt: int = 1
    path: tuple[PathStage, ...] = ()
    record: RouteRecord | None = None


class FailureInfo(Result, frozen=True, kw_only=True):
    """Why a launch failed, or why its fate cannot be told now."""

    code: str
    next: str
    stage: str | None = None
    host_code: str | None = None
    message: str | None = None


class Rest(Result, frozen=True, kw_only=True):
    """Where the rest of a text is: `dsh_tail` with this event and offset goes on; `size` is that of the whole text, in
    characters."""

    event: str
    offset: int
    size: int


class OpenWrite(Result, frozen=True, kw_only=True):
    """A follow-up whose outcome is not final yet; `outcome` is null while nothing is known of it."""

    request_id: str
    kind: str
    outcome: str | None


class TaskState(Result, frozen=True, kw_only=True):
    """What a task does and waits for, as the Host says it at that moment."""

    task_id: str
    session_id: str | None = None
    availability: str
    execution: Execution
    queued: int = 0
    parked: int = 0
    """Prompts that wait and will not run before another prompt comes."""
    pending: tuple[Pending, ...] = ()
    children_running: tuple[str, ...] = ()
    tool: str | None = None
    final_message: str | None = None
    final_message_rest: Rest | None = None
    final_message_missing: str | None = None
    error_code: str | None = None
    open_writes: tuple[OpenWrite, ...] = ()
    undelivered: tuple[OpenWrite, ...] = ()
    """Follow-ups that will not run, since the last one that reached the agent."""
    cursor: str | None = None
    claim: ClaimInfo
    failure: FailureInfo | None = None


class TaskStatus(TaskState, frozen=True, kw_only=True):
    """One task: its launch replayed from the journal, its conversation read from the Host."""

    launch: LaunchDetail
    warnings: tuple[str, ...] = ()


class TaskRow(Result, frozen=True, kw_only=True):
    """One line of a list: journal facts, and `running` as far as the Host said."""

    task_id: str
    stage: str
    cwd: str
    preset: str | None = None
    code: str | None = None
    claim_held: bool = False
    unfinished: bool = False
    abandoned: bool = False
    running: bool | None = None
    created_at: str


class TaskList(Result, frozen=True, kw_only=True):
    """Tasks, newest first; `next` goes into `before` for the page after this one."""

    tasks: tuple[TaskRow, ...]
    next: str | None = None
    warnings: tuple[str, ...] = ()


class Released(Result, frozen=True, kw_only=True):
    """The answer to a release."""

    task_id: str
    claim: ClaimInfo


class PresetRow(Result, frozen=True, kw_only=True):
    """One preset of the live roster."""

    id: str
    is_default: bool = False
    broken: str | None = None


class LinkInfo(Result, frozen=True, kw_only=True):
    """The live connection of this process, as far as one was wanted; ages in seconds."""

    connected: bool
    for_seconds: float
    """How long it has been so."""
    last_heard_seconds: float | None = None
    failures: int = 0
    reason: str | None = None


class HostStatus(Result, frozen=True, kw_only=True):
    """Whether the Host can be used now, and if not, why and what to do."""

    availability: str
    origin: str
    wire: str | None = None
    login: str
    automatic_routing: bool
    """Whether this Host can prove an automatic choice; false while that is not known."""
    routes: RouteHealth
    presets: tuple[PresetRow, ...] = ()
    link: LinkInfo | None = None
    failure: FailureInfo | None = None
    details: dict[str, Any] | None = None


def told_writes(writes: Iterable[Write]) -> tuple[OpenWrite, ...]:
    return tuple(OpenWrite(request_id=one.request, kind=one.kind, outcome=one.outcome) for one in writes)


def claim_info(launch: Launch) -> ClaimInfo:
    return ClaimInfo(mode=launch.claim_mode, cwd=launch.cwd, held=launch.claim_held)


def launch_brief(launch: Launch) -> LaunchBrief:
    return LaunchBrief(stage=launch.state, prompt_sent=launch.prompt_sent)
