"""The launch machine: one delegation from the caller's request to a delivered prompt, as a table.

In plain words. A launch is *requested* (accepted, nothing exists outside), in automatic mode the preset roster
is read, then preset and workspace claim are *selected*. The Host then makes the session (*session-created*), the
preset it resolved is compared (*preset-verified*), the claim is seen to stand still (*claimed*) and the prompt goes
out (*prompt-sent*). Anything that stops it on the way ends in *launch-failed*. The process that drives the attempt
makes every step; a crash leaves the last line standing, and whoever looks at the task next settles it.

What is odd here, and why:
- `selected` and `claimed` are *intents*. They name a session and a request that may or may not exist on the Host,
  because they are on disk before the call. That is what lets a restart settle a crash without calling again.
- `prompt-sent` is left only by proof: confirmed by the Host's durable log, or failed because the log says otherwise.
- `launch-failed` is not always the end. With a session it can be recovered, abandoned or found lost; without one, or
  with a lost one, a new attempt may be requested.
"""

from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import (
    LaunchAbandoned,
    LaunchClaimed,
    LaunchFailed,
    LaunchRecovered,
    LaunchRequested,
    LaunchSelected,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    RosterRead,
    SessionCreated,
    SessionLost,
)
from agentlink.core.statechart.table import START, Row, State, Table, checked

REQUESTED = "requested"
ROSTER_READ = "roster-read"
SELECTED = "selected"
SESSION_CREATED = "session-created"
PRESET_VERIFIED = "preset-verified"
CLAIMED = "claimed"
PROMPT_SENT = "prompt-sent"
LAUNCH_FAILED = "launch-failed"

STATES = (
    State(REQUESTED, "accepted; nothing exists on the Host"),
    State(ROSTER_READ, "the live presets are known (automatic mode only)"),
    State(SELECTED, "preset and claim decided; the named session may exist"),
    State(SESSION_CREATED, "the Host has the session, without a prompt"),
    State(PRESET_VERIFIED, "the Host resolved the preset that was asked"),
    State(CLAIMED, "the named prompt request may have been accepted"),
    State(PROMPT_SENT, "the Host has the prompt; final once confirmed"),
    State(LAUNCH_FAILED, "nothing runs; the code says why; the claim is free"),
)

_IN_FLIGHT = (REQUESTED, ROSTER_READ, SELECTED, SESSION_CREATED, PRESET_VERIFIED, CLAIMED)

ROWS = (
    Row(START, fact_type(LaunchRequested), REQUESTED, note="accepted"),
    Row(REQUESTED, fact_type(RosterRead), ROSTER_READ, "automatic", "roster read"),
    Row(REQUESTED, fact_type(LaunchSelected), SELECTED, "named_or_default", "preset as asked"),
    Row(ROSTER_READ, fact_type(LaunchSelected), SELECTED, note="rule chose"),
    Row(SELECTED, fact_type(SessionCreated), SESSION_CREATED, note="Host answered"),
    Row(SESSION_CREATED, fact_type(PresetVerified), PRESET_VERIFIED, note="preset compared"),
    Row(PRESET_VERIFIED, fact_type(LaunchClaimed), CLAIMED, "claim_stands", "claim stands"),
    Row(CLAIMED, fact_type(PromptSent), PROMPT_SENT, note="accepted or seen in the log"),
    Row(PROMPT_SENT, fact_type(PromptConfirmed), PROMPT_SENT, "not_confirmed", "in the durable log"),
    *(Row(source, fact_type(LaunchFailed), LAUNCH_FAILED, note="failed") for source in _IN_FLIGHT),
    Row(PROMPT_SENT, fact_type(LaunchFailed), LAUNCH_FAILED, "not_confirmed", "log proves it gone"),
    Row(LAUNCH_FAILED, fact_type(LaunchRequested), REQUESTED, "session_absent", "new attempt"),
    Row(LAUNCH_FAILED, fact_type(LaunchRecovered), SESSION_CREATED, "recoverable", "same session again"),
    Row(LAUNCH_FAILED, fact_type(SessionLost), LAUNCH_FAILED, "session_known", "session gone"),
    Row(LAUNCH_FAILED, fact_type(LaunchAbandoned), LAUNCH_FAILED, "recoverable", "given up"),
)

GUARDS = {
    "automatic": "the caller asked for automatic routing",
    "named_or_default": "the caller named a preset or takes the Host's default",
    "claim_stands": "the workspace claim has not been released meanwhile",
    "not_confirmed": "the prompt is not yet in the durable log",
    "session_absent": "no session was made, or it is proven lost",
    "session_known": "the attempt left a session",
    "recoverable": "the attempt left a session that is neither abandoned nor lost",
}

TABLE = checked(Table("launch", "Launch of one delegated task", STATES, ROWS, GUARDS))
