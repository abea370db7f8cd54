"""Facts of a launch (design section 3). Ids and codes only: no text of a Host or a caller is kept."""

from typing import Literal

from agentlink.core.facts.base import Fact

Mode = Literal["automatic", "manual", "dsh-default"]
ClaimMode = Literal["exclusive-write", "read-only"]
Verified = Literal["verified", "not-required", "unavailable"]
Evidence = Literal["receipt", "log"]


class LaunchRequested(Fact, frozen=True, tag="launch/requested"):
    """A delegation was accepted. Nothing exists on the Host yet."""

    attempt: int
    mode: Mode
    cwd: str
    claim: ClaimMode
    host: str
    origin: str
    binding: str | None = None
    """Which login the Host was reached with: equal bindings prove the same Host (ADR 0003)."""
    preset: str | None = None
    hints: str | None = None
    key: str | None = None
    """Digest of the caller's request key."""
    input: str | None = None
    """Keyed digest of everything the caller asked, when a request key was given."""


class RosterRead(Fact, frozen=True, tag="launch/roster-read"):
    """The live preset roster was read (automatic mode only, 003 FR-03)."""

    presets: int
    broken: int
    wire: str


class LaunchSelected(Fact, frozen=True, tag="launch/selected"):
    """Preset and workspace claim are decided; the session of this id will be created."""

    session: str
    reason: str
    preset: str | None = None
    rule: str | None = None


class SessionCreated(Fact, frozen=True, tag="launch/session-created"):
    """The Host has the session; `resolved` is the preset it reported, None when it reported none."""

    session: str
    resolved: str | None = None


class PresetVerified(Fact, frozen=True, tag="launch/preset-verified"):
    """The resolved preset passed the mode's comparison (003 FR-06)."""

    verification: Verified


class LaunchClaimed(Fact, frozen=True, tag="launch/claimed"):
    """The workspace claim still stands; the prompt will be sent under this request id."""

    request: str


class PromptSent(Fact, frozen=True, tag="launch/prompt-sent"):
    """The Host accepted the prompt: it said so, or its log shows it. Not yet proof against its crash."""

    request: str
    evidence: Evidence


class PromptConfirmed(Fact, frozen=True, tag="launch/prompt-confirmed"):
    """The prompt is in the Host's durable log as the user message with this seq. Final."""

    seq: int


class LaunchFailed(Fact, frozen=True, tag="launch/failed"):
    """The attempt ended without a delivered prompt; its claim is free."""

    code: str
    stage: str
    host_code: str | None = None
    resolved: str | None = None
    session: str | None = None
    """The session that was intended or left behind."""


class LaunchRecovered(Fact, frozen=True, tag="launch/recovered"):
    """A new attempt uses the unprompted session of the attempt before; nothing is chosen anew."""

    attempt: int
    resolved: str | None = None
    """The preset that the session has now, read for this attempt."""
    binding: str | None = None


class SessionLost(Fact, frozen=True, tag="launch/session-lost"):
    """The unprompted session is proven gone from its own Host."""

    session: str
    proof: Literal["binding", "sibling", "person"]


class LaunchAbandoned(Fact, frozen=True, tag="launch/abandoned"):
    """The unprompted session will not be used any more."""


LaunchFact = (
    LaunchRequested
    | RosterRead
    | LaunchSelected
    | SessionCreated
    | PresetVerified
    | LaunchClaimed
    | PromptSent
    | PromptConfirmed
    | LaunchFailed
    | LaunchRecovered
    | SessionLost
    | LaunchAbandoned
)
