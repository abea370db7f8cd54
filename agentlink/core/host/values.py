"""Host answers in neutral form. Adapters translate each wire generation into these; core reads nothing else."""

from typing import Literal

import msgspec

Text = str | None


class Preset(msgspec.Struct, frozen=True):
    """One entry of the live roster; `broken` is the Host's reason, None when usable."""

    id: str
    is_default: bool = False
    broken: str | None = None
    name: str | None = None


class CreatedSession(msgspec.Struct, frozen=True):
    """The create's answer: the id the Host used and the preset it resolved (None when it does not say)."""

    session: str
    resolved: str | None


class ModelChoice(msgspec.Struct, frozen=True):
    """A provider and one of its models."""

    provider: str
    model: str


class ModelCatalog(msgspec.Struct, frozen=True):
    """The Host's default choice and the providers it can route to."""

    default: ModelChoice | None
    routable: tuple[str, ...]


class QueuedItem(msgspec.Struct, frozen=True):
    """One prompt in the inbox: the Host's id of the entry and the client request behind it, if any."""

    item: str
    request: str | None = None


class ChildRef(msgspec.Struct, frozen=True):
    """A subagent session as its parent's log names it; `created_ms` is the Host's clock."""

    session: str
    label: str = ""
    mode: str = "unknown"
    created_ms: int = 0


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """One session exactly as the Host has it, up to event `last_seq` (-1 for an empty log)."""

    last_seq: int
    preset: str | None
    model: ModelChoice | None
    waiting: tuple[str | None, ...]
    """Request ids in the inbox, in order; None for an entry that no client request made."""
    blank: bool
    next_turn: tuple[QueuedItem, ...] = ()
    """Prompts that wait for a turn of their own; together with `next_step` the same entries as `waiting`."""
    next_step: tuple[QueuedItem, ...] = ()
    """Prompts that join the running turn at its next step."""
    children: tuple[ChildRef, ...] = ()


class Address(msgspec.Struct, frozen=True):
    """Which session a history call means: a subagent's is reached through its parent only."""

    session: str
    parent: str | None = None


class EventBase(msgspec.Struct, frozen=True, kw_only=True):
    """Where an event stands: dense sequence number and Host clock in milliseconds."""

    seq: int
    time_ms: int


class TurnStarted(EventBase, frozen=True):
    turn: int


class TurnEnded(EventBase, frozen=True):
    """`kind` as the Host says: completed, aborted, error, interrupted, blocked, max-tokens, …"""

    turn: int
    kind: str
    error_code: str | None = None


class UserMessage(EventBase, frozen=True):
    """A message that reached the model; `request` is the client request behind it, if any.

    `source` is who wrote it as the Host says (user, runtime-context, subagent-settled, …), `reports` the subagent
    whose end it announces.
    """

    request: str | None
    by_person: bool
    source: str = "user"
    text: str = ""
    reports: str | None = None


class AssistantMessage(EventBase, frozen=True):
    """One model answer; `text` joins its text parts, `calls_tools` says that a tool call follows.

    `interrupted` marks what was said until somebody stopped the answer.
    """

    text: str
    calls_tools: bool
    interrupted: bool = False


class InboxSpliced(EventBase, frozen=True):
    """An edit of one of the two inbox lists: at `start` remove `removed` entries, then insert.

    `inserted` holds request ids, `items` the Host's ids of the same entries, `reports` the subagents whose end an
    inserted message announces.
    """

    target: Literal["next-turn", "next-step"]
    start: int
    removed: int
    inserted: tuple[str | None, ...]
    canceled: bool
    items: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()


class ToolCalled(EventBase, frozen=True):
    """A tool runs now; `arguments` is JSON text."""

    call: str
    name: str
    arguments: str = ""


class ToolEnded(EventBase, frozen=True):
    call: str
    failed: bool = False
    error_code: str | None = None
    text: str = ""


class ApprovalAsked(EventBase, frozen=True):
    """The agent asks a person whether a tool call may go on."""

    approval: str
    tool: str = ""
    call: str | None = None
    reason: str = ""


class ApprovalDecided(EventBase, frozen=True):
    """`outcome` as the Host says: allowed-once, rejected, cancelled, unavailable."""

    approval: str
    outcome: str = ""


class SubagentStarted(EventBase, frozen=True):
    """The session has a new subagent."""

    child: ChildRef


class ModelRetried(EventBase, frozen=True):
    """A model call failed and will be tried again."""

    retry: int
    of: int
    error_code: str | None = None


class PresetChanged(EventBase, frozen=True):
    """Somebody chose another preset for the session."""

    preset: str


class ModelChanged(EventBase, frozen=True):
    """Somebody chose another model for the session."""

    model: ModelChoice


class OtherEvent(EventBase, frozen=True):
    """An event this version has no use for, known or unknown."""

    type: str


Event = (
    TurnStarted
    | TurnEnded
    | UserMessage
    | AssistantMessage
    | InboxSpliced
    | ToolCalled
    | ToolEnded
    | ApprovalAsked
    | ApprovalDecided
    | SubagentStarted
    | ModelRetried
    | PresetChanged
    | ModelChanged
    | OtherEvent
)

_TYPES: dict[type[EventBase], str] = {
    TurnStarted: "turn/start",
    TurnEnded: "turn/end",
    UserMessage: "user/message",
    AssistantMessage: "assistant/message",
    InboxSpliced: "agent/inbox/spliced",
    ToolCalled: "tool/call",
    ToolEnded: "tool/result",
    ApprovalAsked: "approval/asked",
    ApprovalDecided: "approval/decided",
    SubagentStarted: "subagent/catalog",
    ModelRetried: "llm/retry",
    PresetChanged: "agent-preset/selected",
    ModelChanged: "model/selection",
}


def event_type(event: Event) -> str:
    """The event's type as Hosts name it: what stays the same when a later version understands more of them."""
    return event.type if isinstance(event, OtherEvent) else _TYPES[type(event)]


class Page(msgspec.Struct, frozen=True):
    """Contiguous events in ascending order; `host_now_ms` is the Host's own clock, rounded down to a second."""

    events: tuple[Event, ...]
    has_more: bool
    host_now_ms: int | None


class Snapshot(msgspec.Struct, frozen=True):
    """How a followed session stands when its stream begins: exact state, and the last events up to it."""

    state: SessionState
    events: tuple[Event, ...]
    has_more: bool


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer that the model is giving now; not durable. `begins` starts a new answer."""

    text: str
    begins: bool = False


class LinkLost(msgspec.Struct, frozen=True):
    """The live connection is gone; the next item of the stream is a fresh Snapshot, once there is one."""

    reason: str


LiveItem = Snapshot | Event | TextDelta | LinkLost


class AskedApproval(msgspec.Struct, frozen=True):
    """An approval that the Host offers to this client; `key` names it in the answer."""

    key: str
    session: str
    tool: str
    call: str | None
    reason: str


class AskedQuestions(msgspec.Struct, frozen=True):
    """Questions that the Host offers to this client; `questions` is their JSON text, `key` names it in the answer."""

    key: str
    session: str
    questions: bytes


class Withdrawn(msgspec.Struct, frozen=True):
    """Another client has answered, or the turn has ended: `key` is not pending any more."""

    key: str


class Attached(msgspec.Struct, frozen=True):
    """The stream of offers has begun; answers name `client`. What is pending is offered again after it."""

    client: str


Offer = Attached | AskedApproval | AskedQuestions | Withdrawn | LinkLost


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """How the live connection stands; times are monotonic seconds."""

    connected: bool
    since: float
    last_frame: float | None = None
    """When anything was last heard of the Host, its heartbeat included; None before the first connection."""
    failures: int = 0
    """Attempts to connect that failed in a row."""
    reason: str | None = None
    """Why it is not connected."""
