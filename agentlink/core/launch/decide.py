"""The comparisons between a launch's steps: what the Host said against what was asked (design section 3, rules 3-6).

Each judge takes values and answers with None (go on) or a `Stop`; nothing here acts.
"""

import re
from typing import Any

import msgspec

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchFailed, Verified
from agentlink.core.host.faults import (
    BadReply,
    HostFault,
    LoginNeeded,
    Refused,
    ReplyLost,
    Unreachable,
    Unsupported,
)
from agentlink.core.host.values import CreatedSession, ModelCatalog, SessionState
from agentlink.core.launch.state import Launch
from agentlink.core.redact import redact

_HOST_CODE = re.compile(r"[A-Za-z0-9._/-]{1,64}")


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Why the launch does not go on. `message` and `details` are for the reply only, never for the journal."""

    code: Code
    message: str
    host_code: str | None = None
    resolved: str | None = None
    details: dict[str, Any] | None = None


def failed(launch: Launch, stop: Stop) -> LaunchFailed:
    """The fact that ends the attempt, free of any text."""
    return LaunchFailed(
        code=stop.code.value,
        stage=launch.state,
        host_code=stop.host_code,
        resolved=stop.resolved,
        session=launch.session or launch.intended_session,
    )


def failure_for(fault: HostFault, *, prompt_sent: bool | None = False) -> Failure:
    """A Host fault as a caller reads it, where no launch has to be stopped for it."""
    stop = stop_for_fault(fault)
    return Failure(stop.code, stop.message, prompt_sent=prompt_sent, details=stop.details)


def stop_for_fault(fault: HostFault) -> Stop:
    """The stop that a Host fault means, outside the one question whether a write took effect."""
    message = redact(fault.message)
    host_code = _journaled_code(fault.code) if isinstance(fault, Refused) else None
    match fault:
        case Refused(kind="preset_not_found"):
            return Stop(
                code=Code.PRESET_NOT_FOUND,
                message=message,
                host_code=host_code,
                details=_only(fault.details, "agentPreset", "available"),
            )
        case Refused(kind="preset_broken"):
            return Stop(
                code=Code.PRESET_BROKEN,
                message=message,
                host_code=host_code,
                details=_only(fault.details, "agentPreset", "reason"),
            )
        case Refused(kind="session_not_found"):
            return Stop(code=Code.SESSION_NOT_FOUND, message=message, host_code=host_code)
        case Refused():
            return Stop(
                code=Code.HOST_ERROR,
                message=f"the Host refused: {message}",
                host_code=host_code,
                details={"hostCode": host_code},
            )
        case LoginNeeded():
            return Stop(code=Code.LOGIN_REQUIRED, message=message, details={"expired": fault.expired})
        case Unsupported():
            return Stop(code=Code.HOST_UNSUPPORTED, message=message)
        case BadReply():
            return Stop(code=Code.BAD_HOST_REPLY, message=message)
        case Unreachable() | ReplyLost():
            return Stop(code=Code.HOST_UNREACHABLE, message=message)
        case _:
            return Stop(code=Code.HOST_ERROR, message=message)


def _journaled_code(code: str) -> str:
    """The Host's code, if it is one: it goes into the journal, where no text of a Host may stand (rule 14)."""
    return code if _HOST_CODE.fullmatch(code) else "unreadable"


def _only(details: dict[str, object], *names: str) -> dict[str, Any]:
    """The named details, their texts redacted and bounded; at most 20 entries of a list."""
    kept: dict[str, Any] = {}
    for name in names:
        value = details.get(name)
        if isinstance(value, str):
            kept[name] = redact(value)
        elif isinstance(value, list | tuple):
            kept[name] = [redact(str(item), limit=80) for item in value[:20]]
            if len(value) > 20:
                kept[f"{name}More"] = len(value) - 20
    return kept


def judge_identity(launch: Launch, created: CreatedSession) -> Stop | None:
    """Rule 6: the Host answered for the session that was asked, and no other."""
    if created.session == launch.intended_session:
        return None
    return Stop(
        code=Code.SESSION_IDENTITY_MISMATCH,
        message=f"asked for session {launch.intended_session}, the Host made {redact(created.session, limit=120)}",
        resolved=created.resolved,
        details={"asked": launch.intended_session, "got": redact(created.session, limit=120)},
    )


def judge_preset(launch: Launch, resolved: str | None, *, host_reports_presets: bool) -> Verified | Stop:
    """Rule 4 and 003 FR-06: the resolved preset against the mode's demand."""
    if launch.mode == "dsh-default":
        return "not-required"
    asked = launch.preset
    if resolved is None:
        if launch.mode == "automatic":
            return Stop(
                code=Code.ROUTING_VERIFICATION_UNAVAILABLE,
                message="this Host does not say which preset a session has; automatic routing needs that proof",
            )
        if not host_reports_presets:
            return "unavailable"
        return Stop(
            code=Code.RESOLVED_PRESET_UNOBSERVABLE,
            message=f"the Host did not report the preset of the session; {asked} was asked",
        )
    if resolved != asked:
        return Stop(
            code=Code.RESOLVED_PRESET_MISMATCH,
            message=f"asked for preset {asked}, the session has {redact(resolved, limit=80)}",
            resolved=resolved,
            details={"requestedPreset": asked, "resolvedPreset": redact(resolved, limit=80)},
        )
    return "verified"


def judge_model_route(catalog: ModelCatalog, session: SessionState) -> Stop | None:
    """Whether the Host can route the session's model choice; with none of its own, the Host's default."""
    choice = session.model or catalog.default
    if choice is not None and choice.provider in catalog.routable:
        return None
    shown = "no model is chosen" if choice is None else f"{choice.provider}/{choice.model} cannot be routed"
    return Stop(
        code=Code.MODEL_UNROUTABLE,
        message=f"{redact(shown, limit=120)}: the Host has no usable credential or adapter for it",
        details={"provider": None if choice is None else redact(choice.provider, limit=80)},
    )
