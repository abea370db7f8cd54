"""Whether the Host can be used now: read-only, and an answer in every case (003 FR-03: down is not "no route")."""

from agentlink.app.results import FailureInfo, HostStatus, LinkInfo, PresetRow
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Failure
from agentlink.core.host.faults import HostFault, LoginNeeded
from agentlink.core.host.values import Preset
from agentlink.core.launch.decide import stop_for_fault
from agentlink.core.redact import redact
from agentlink.host.client import PROBE_SESSION


async def host_status(runtime: Runtime) -> HostStatus:
    """Availability, wire, login, presets and the health of the routes; never raises for anything a Host does."""
    host = runtime.host
    try:
        await host.session_state(PROBE_SESSION)
    except HostFault as fault:
        stop = stop_for_fault(fault)
        login = "required" if isinstance(fault, LoginNeeded) else "unknown"
        if isinstance(fault, LoginNeeded) and fault.expired:
            login = "expired"
        failure = _info(Failure(stop.code, stop.message))
        return await _status(runtime, availability=stop.code.value, login=login, failure=failure)
    login = "none" if host.binding is None else "accepted"
    try:
        roster = await host.roster()
    except HostFault as fault:
        stop = stop_for_fault(fault)
        failure = _info(Failure(stop.code, f"the preset roster cannot be read: {stop.message}"), stop.host_code)
        return await _status(runtime, availability="connected", login=login, failure=failure)
    return await _status(runtime, availability="connected", login=login, roster=roster)


async def _status(
    runtime: Runtime,
    *,
    availability: str,
    login: str,
    roster: tuple[Preset, ...] | None = None,
    failure: FailureInfo | None = None,
) -> HostStatus:
    host = runtime.host
    return HostStatus(
        availability=availability,
        origin=host.origin,
        wire=host.wire,
        login=login,
        automatic_routing=availability == "connected" and host.reports_presets,
        routes=await runtime.routes.health(roster),
        presets=tuple(
            PresetRow(
                id=redact(preset.id, limit=80),
                is_default=preset.is_default,
                broken=None if preset.broken is None else redact(preset.broken, limit=160),
            )
            for preset in (roster or ())[:50]
        ),
        link=_link(runtime),
        failure=failure,
    )


def _link(runtime: Runtime) -> LinkInfo | None:
    state = runtime.link_state
    if state is None:
        return None
    now = runtime.clock.now()
    return LinkInfo(
        connected=state.connected,
        for_seconds=round(now - state.since, 1),
        last_heard_seconds=None if state.last_frame is None else round(now - state.last_frame, 1),
        failures=state.failures,
        reason=state.reason,
    )


def _info(failure: Failure, host_code: str | None = None) -> FailureInfo:
    return FailureInfo(code=failure.code.value, message=failure.message, next=failure.next_step, host_code=host_code)
