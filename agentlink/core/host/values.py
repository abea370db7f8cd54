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


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """One session exactly as the Host has it, up to event `last_seq` (-1 for an empty log)."""

    last_seq: int
    preset: str | None
    model: ModelChoice | None
    waiting: tuple[str | None, ...]
    """Request ids in the inbox, in order; None for an entry that no client request made."""
    blank: bool


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
    """A message that reached the model; `request` is the client request behind it, if any."""

    request: str | None
    by_person: bool


class AssistantMessage(EventBase, frozen=True):
    """One model answer; `text` joins its text parts, `calls_tools` says that a tool call follows."""

    text: str
    calls_tools: bool


class InboxSpliced(EventBase, frozen=True):
    """An edit of one of the two inbox lists: at `start` remove `removed` entries, then insert."""

    target: Literal["next-turn", "next-step"]
    start: int
    removed: int
    inserted: tuple[str | None, ...]
    canceled: bool


class ToolCalled(EventBase, frozen=True):
    call: str
    name: str


class ToolEnded(EventBase, frozen=True):
    call: str


class ApprovalAsked(EventBase, frozen=True):
    approval: str


class ApprovalDecided(EventBase, frozen=True):
    approval: str


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
    | OtherEvent
)


class Page(msgspec.Struct, frozen=True):
    """Contiguous events in ascending order; `host_now_ms` is the Host's own clock, rounded down to a second."""

    events: tuple[Event, ...]
    has_more: bool
    host_now_ms: int | None
