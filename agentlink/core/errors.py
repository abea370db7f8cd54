"""The one registry of error codes and the one envelope in which every surface reports a failure.

Each code says what to do next, so a caller that only reads the code and `next` acts safely.
"""

from enum import StrEnum
from typing import Any

import msgspec


class Code(StrEnum):
    """Every code a caller can be given (design section 5)."""

    INVALID_REQUEST = "invalid_request"
    ROUTING_REQUEST_AMBIGUOUS = "routing_request_ambiguous"
    ROUTING_HINTS_INVALID = "routing_hints_invalid"
    ROUTING_NOT_CONFIGURED = "routing_not_configured"
    ROUTING_CONFIG_INVALID = "routing_config_invalid"
    NO_ELIGIBLE_ROUTE = "no_eligible_route"
    AMBIGUOUS_ROUTE = "ambiguous_route"
    CWD_NOT_FOUND = "cwd_not_found"
    REQUEST_KEY_CONFLICT = "request_key_conflict"
    WORKSPACE_CONFLICT = "workspace_conflict"
    WORKSPACE_CLAIM_MISSING = "workspace_claim_missing"
    HOST_UNREACHABLE = "host_unreachable"
    LOGIN_REQUIRED = "login_required"
    HOST_UNSUPPORTED = "host_unsupported"
    HOST_CHANGED = "host_changed"
    HOST_ERROR = "host_error"
    BAD_HOST_REPLY = "bad_host_reply"
    PRESET_NOT_FOUND = "preset_not_found"
    PRESET_BROKEN = "preset_broken"
    SESSION_IDENTITY_MISMATCH = "session_identity_mismatch"
    RESOLVED_PRESET_MISMATCH = "resolved_preset_mismatch"
    RESOLVED_PRESET_UNOBSERVABLE = "resolved_preset_unobservable"
    ROUTING_VERIFICATION_UNAVAILABLE = "routing_verification_unavailable"
    MODEL_UNROUTABLE = "model_unroutable"
    DELIVERY_UNKNOWN = "delivery_unknown"
    PROMPT_LOST = "prompt_lost"
    PROMPT_DISCARDED = "prompt_discarded"
    PROMPT_CONSUMED = "prompt_consumed"
    INTERRUPTED = "interrupted"
    CANCELED = "canceled"
    LAUNCH_IN_PROGRESS = "launch_in_progress"
    SESSION_NOT_BLANK = "session_not_blank"
    SESSION_NOT_FOUND = "session_not_found"
    TASK_NOT_FOUND = "task_not_found"
    TASK_BUSY = "task_busy"
    NOT_RECOVERABLE = "not_recoverable"
    NOT_PROMPTED = "not_prompted"
    STALE_VIEW = "stale_view"
    NOT_PENDING = "not_pending"
    AMBIGUOUS_REQUEST = "ambiguous_request"
    BAD_ANSWER = "bad_answer"
    CURSOR_INVALID = "cursor_invalid"
    JOURNAL_UNWRITABLE = "journal_unwritable"
    JOURNAL_CORRUPT = "journal_corrupt"
    JOURNAL_NEWER = "journal_newer"
    LOCK_TIMEOUT = "lock_timeout"
    INTERNAL_ERROR = "internal_error"


NEXT: dict[Code, str] = {
    Code.INVALID_REQUEST: "Correct the named argument and call again.",
    Code.ROUTING_REQUEST_AMBIGUOUS: "Give either agentPreset or routing, not both.",
    Code.ROUTING_HINTS_INVALID: "Give only fields and values of the vocabulary, or leave the hint out.",
    Code.ROUTING_NOT_CONFIGURED: "Name an agentPreset, or leave it out to use the Host's default.",
    Code.ROUTING_CONFIG_INVALID: "Correct the named line of the rules file; until then name an agentPreset.",
    Code.NO_ELIGIBLE_ROUTE: "Give the hints that the task states, change the rules, or name an agentPreset.",
    Code.AMBIGUOUS_ROUTE: "Give one of the named rules another priority, or name an agentPreset.",
    Code.CWD_NOT_FOUND: "Give the absolute path of an existing directory.",
    Code.REQUEST_KEY_CONFLICT: "Use a new requestKey for a different request.",
    Code.WORKSPACE_CONFLICT: (
        "Wait for that task, release its workspace (dsh_release_workspace or `agentlink release TASK`), "
        "or use a git worktree of your own."
    ),
    Code.WORKSPACE_CLAIM_MISSING: "Nothing is left to do: the directory is free.",
    Code.HOST_UNREACHABLE: "Start the Host with `dsh web`, then call again.",
    Code.LOGIN_REQUIRED: "Run `agentlink login` with the address that `dsh web` printed, then call again.",
    Code.HOST_UNSUPPORTED: "Use a DSH Web Host that speaks a wire Agentlink knows; see `agentlink doctor`.",
    Code.HOST_CHANGED: "Start the Host that owns this task, or confirm the loss with `recover --session-lost`.",
    Code.HOST_ERROR: "Read the Host's code and message; call again once its cause is gone.",
    Code.BAD_HOST_REPLY: "Check that the address is a DSH Web Host (`agentlink doctor`).",
    Code.PRESET_NOT_FOUND: "Name one of the available presets.",
    Code.PRESET_BROKEN: "Repair that preset on the Host, or name another one.",
    Code.SESSION_IDENTITY_MISMATCH: "Look at both sessions in DSH Web; delegate again for a fresh session.",
    Code.RESOLVED_PRESET_MISMATCH: "Look at the session in DSH Web; delegate again with the preset you want.",
    Code.RESOLVED_PRESET_UNOBSERVABLE: "Check the Host; it should report the preset of a session and did not.",
    Code.ROUTING_VERIFICATION_UNAVAILABLE: "Name an agentPreset: this Host cannot prove an automatic choice.",
    Code.MODEL_UNROUTABLE: "Choose a routable model or add its API key in DSH Web, then delegate again.",
    Code.DELIVERY_UNKNOWN: (
        "Do not send it again. Ask dsh_status (`agentlink status TASK`) until the Host's history settles it."
    ),
    Code.PROMPT_LOST: "The prompt did not survive the Host's crash; delegate it again.",
    Code.PROMPT_DISCARDED: "The prompt was removed from the Host's queue; delegate again if still wanted.",
    Code.PROMPT_CONSUMED: "The Host ended the turn before the model saw the prompt; delegate again.",
    Code.INTERRUPTED: (
        "Nothing was sent. Use its session with dsh_recover (`agentlink recover TASK PROMPT`), or delegate again."
    ),
    Code.CANCELED: "Nothing was sent. Delegate again when wanted.",
    Code.LAUNCH_IN_PROGRESS: "Another process is working on this task; ask again in a moment.",
    Code.SESSION_NOT_BLANK: "The session is in use by somebody else; delegate again for a fresh one.",
    Code.SESSION_NOT_FOUND: "The Host no longer has this session.",
    Code.TASK_NOT_FOUND: "List the tasks with dsh_list or `agentlink list`.",
    Code.TASK_BUSY: "Wait until the task is done, or release with force if nothing of it may run any more.",
    Code.NOT_RECOVERABLE: "Ask dsh_status for where the task stands; delegate again for a new one.",
    Code.NOT_PROMPTED: "The session never got its prompt. Ask dsh_status; recover the task or delegate again.",
    Code.STALE_VIEW: "Look at what happened since (dsh_tail with that cursor), then call again with the new cursor.",
    Code.NOT_PENDING: "It is answered already or gone. Ask dsh_status what the task waits for now.",
    Code.AMBIGUOUS_REQUEST: "Answer in DSH Web: the Host offers several items that cannot be told apart.",
    Code.BAD_ANSWER: "Correct the answer to the named question; nothing was sent and it is still pending.",
    Code.CURSOR_INVALID: "Call again without the cursor, or with the one of the last reply.",
    Code.JOURNAL_UNWRITABLE: "Free disk space or fix the permissions of the state home, then call again.",
    Code.JOURNAL_CORRUPT: "Run `agentlink journal verify`; nothing is written until it is repaired.",
    Code.JOURNAL_NEWER: "Update Agentlink: a newer version wrote this journal.",
    Code.LOCK_TIMEOUT: "Another process holds the journal; call again in a moment.",
    Code.INTERNAL_ERROR: "This is a defect of Agentlink; see its log and report it.",
}


class Failure(Exception):
    """A failure as a caller will read it: what, how far it got, and what is safe to do next.

    `prompt_sent` is None while unknown and is never False then (design section 3, rule 13).
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        stage: str | None = None,
        task: str | None = None,
        session: str | None = None,
        prompt_sent: bool | None = False,
        next_step: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.stage = stage
        self.task = task
        self.session = session
        self.prompt_sent = prompt_sent
        self.next_step = next_step or NEXT[code]
        self.details = details

    def located(
        self, *, stage: str | None, task: str | None, session: str | None, prompt_sent: bool | None
    ) -> "Failure":
        """The same failure, told from a known place of a launch."""
        return Failure(
            self.code,
            self.message,
            stage=stage,
            task=task,
            session=session,
            prompt_sent=prompt_sent,
            next_step=self.next_step,
            details=self.details,
        )


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The inside of `{"error": …}`; `promptSent` is always there, null while unknown."""

    code: str
    message: str
    prompt_sent: bool | None
    next: str
    stage: str | None = None
    task_id: str | None = None
    session_id: str | None = None
    details: dict[str, Any] | None = None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """What MCP and the command line print for a failure."""

    error: ErrorBody


def envelope(failure: Failure) -> ErrorEnvelope:
    """The failure in the form that every surface prints."""
    return ErrorEnvelope(
        ErrorBody(
            code=failure.code.value,
            message=failure.message,
            prompt_sent=failure.prompt_sent,
            next=failure.next_step,
            stage=failure.stage,
            task_id=failure.task,
            session_id=failure.session,
            details=failure.details,
        )
    )
