"""Settling a launch whose driver is gone, by reading the Host: never by calling again (design section 3)."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeVar

from msgspec.structs import replace

from agentlink.app.ports import Rule
from agentlink.app.read_log import standing_of
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchFact
from agentlink.core.facts.work import TaskLineFact
from agentlink.core.host.faults import HostFault
from agentlink.core.launch.settle import Look, Seen, settlement
from agentlink.core.launch.state import Launch

QUIET_S = 3.0
"""How long after a call's connection ended its absence on the Host becomes proof (rule 7)."""

T = TypeVar("T")
HostProof = Literal["binding", "sibling", "person"]


class Records(Protocol):
    """What settling needs of a driver: the launch as it stands, and a way to append."""

    launch: Launch

    async def record(self, *facts: TaskLineFact, rule: Rule | None = None) -> None: ...


async def settle_attempt(
    runtime: Runtime, attempt: Records, *, quiet_since: float, person_confirms: bool = False
) -> HostFault | None:
    """Appends every fact that the Host's state proves; the fault, if the Host could not be read.

    `quiet_since` is the monotonic time, in seconds, at which the connection of the last call had certainly ended.
    `person_confirms` lets a person's word stand for the proof that the Host is the task's own. The task lock is held.
    Raises Failure when a fact cannot be written.
    """
    while True:
        step = settlement(attempt.launch, None)
        if step is None:
            return None
        if not isinstance(step, Look):
            await attempt.record(*step)
            continue
        try:
            facts = await facts_from_host(
                runtime, attempt.launch, step, quiet_since=quiet_since, person_confirms=person_confirms
            )
        except HostFault as fault:
            return fault
        if facts is None:
            return None
        await attempt.record(*facts)


async def facts_from_host(
    runtime: Runtime, launch: Launch, look: Look, *, quiet_since: float, person_confirms: bool = False
) -> tuple[LaunchFact, ...] | None:
    """What the Host proves about an intent; None when it proves nothing. Raises HostFault.

    Takes up to QUIET_S seconds when only time can tell that nothing is on its way any more.
    """
    person: HostProof | None = "person" if person_confirms else None
    return await proven(
        runtime,
        lambda: _look(runtime, launch, look, person),
        lambda seen: _facts(launch, seen),
        quiet_since=quiet_since,
    )


async def proven(
    runtime: Runtime, look: Callable[[], Awaitable[Seen]], judge: Callable[[Seen], T | None], *, quiet_since: float
) -> T | None:
    """What the judge makes of a look; of a second one, when only quiet is missing to the first. Raises HostFault."""
    seen = await look()
    verdict = judge(seen)
    if verdict is not None or judge(replace(seen, nothing_underway=True)) is None:
        return verdict
    # Only that nothing is on its way any more is missing: wait until that is certain, and read once more.
    await runtime.clock.sleep(max(0.0, quiet_since + QUIET_S - runtime.clock.now()))
    return judge(replace(await look(), nothing_underway=True))


def _facts(launch: Launch, seen: Seen) -> tuple[LaunchFact, ...] | None:
    step = settlement(launch, seen)
    return None if isinstance(step, Look) else step


async def _look(runtime: Runtime, launch: Launch, look: Look, person: HostProof | None) -> Seen:
    host = runtime.host
    session = launch.session or launch.intended_session or ""
    state = await host.session_state(session)
    if state is None:
        return Seen(session_exists=False, host_proof=await prove_host(runtime, launch, session) or person)
    proof: HostProof = "sibling"
    if look is Look.SESSION or launch.request is None:
        return Seen(session_exists=True, resolved=state.preset, host_proof=proof)
    found, now = await standing_of(host, session, launch.request, last_seq=state.last_seq)
    return Seen(session_exists=True, resolved=state.preset, found=found, host_proof=proof, host_now_ms=now)


def other_host(runtime: Runtime, launch: Launch) -> Failure | None:
    """Why this Host cannot be asked about the task; None when it has the task's address."""
    if launch.origin == runtime.host.origin:
        return None
    return Failure(Code.HOST_CHANGED, f"the task belongs to {launch.origin}, not to {runtime.host.origin}")


async def session_gone(runtime: Runtime, launch: Launch, session: str) -> Failure:
    """What it means that the Host, which answers, does not have the task's session. Raises HostFault."""
    known = await prove_host(runtime, launch, session) is not None
    code = Code.SESSION_NOT_FOUND if known else Code.HOST_CHANGED
    return Failure(code, f"this Host has no session {session}")


async def prove_host(runtime: Runtime, launch: Launch, session: str) -> HostProof | None:
    """How the Host that just answered is recognised as the task's own; None when it is not (design section 5).

    The login's cookie is signed with a secret of one Host's home, so the same login accepted again is that Host;
    after a new login, another session of ours that was made under the task's own login, and that the Host still has,
    proves it. A session made later may be another Host's.
    """
    host = runtime.host
    if launch.origin != host.origin:
        return None
    if launch.binding is not None and launch.binding == host.binding:
        return "binding"
    siblings = await runtime.store.sibling_sessions(
        host=launch.host, origin=launch.origin, binding=launch.binding, but=session
    )
    for other in siblings:
        if await host.session_state(other) is not None:
            return "sibling"
    return None
