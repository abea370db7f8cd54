"""Reading what the Host says of a task now: its root session and its subagents, exactly, with bounded reads."""

from collections.abc import Mapping

import anyio
import msgspec

from agentlink.app.ports import Host
from agentlink.app.runtime import Runtime
from agentlink.app.settle import other_host, session_gone
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import HostFault, Refused
from agentlink.core.host.timeline import Execution, Gap, Timeline, timeline_at
from agentlink.core.host.values import ChildRef, Event
from agentlink.core.launch import machine
from agentlink.core.launch.decide import failure_for
from agentlink.core.launch.state import Launch
from agentlink.core.supervision.status import Descendant, TaskNow, look_at

TAIL_MESSAGES = 20
MAX_CHILDREN = 64
"""Subagents of one session that are looked at, the newest first; a `standard` agent has far fewer."""
MAX_DEPTH = 4
_AT_ONCE = 4
_ATTEMPTS = 3
"""A log that grows between the two reads of it is read anew."""


class SessionRead(msgspec.Struct, frozen=True):
    """One session as it was read: its timeline, its last event, the Host's clock."""

    timeline: Timeline
    last: Event | None
    host_now_ms: int


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What the Host says of a task; without `root` nothing can be said, and `failure` says why if there is a reason."""

    availability: str
    session: str = ""
    root: SessionRead | None = None
    descendants: tuple[Descendant, ...] = ()
    lasts: Mapping[str, Event | None] = {}
    """Session -> its last event, for a cursor at this moment."""
    now_ms: int = 0
    failure: Failure | None = None
    unread_children: int = 0

    def now(self) -> TaskNow:
        """The task at the moment of the reading."""
        if self.root is None:
            execution: Execution = "not_started" if self.availability == "none" else "unknown"
            return TaskNow(execution=execution, final_missing=execution)
        return look_at(self.root.timeline, self.session, self.descendants, now_ms=self.now_ms)


NOTHING_YET = Conversation(availability="none")
"""The launch has not led to a prompted session: there is no conversation."""


async def read_conversation(runtime: Runtime, launch: Launch) -> Conversation:
    """The conversation of a task as it is now. What cannot be read is told by availability and failure."""
    if launch.state != machine.PROMPT_SENT:
        return NOTHING_YET
    other = other_host(runtime, launch)
    if other is not None:
        return _unknown(other)
    session = launch.session or ""
    try:
        root = await read_session(runtime.host, session)
        if root is None:
            return _unknown(await session_gone(runtime, launch, session))
        descendants, lasts, unread = await read_descendants(runtime.host, session, root.timeline)
    except HostFault as fault:
        return _unknown(failure_for(fault))
    # Every clock here is the Host's; its headers tell whole seconds, its events more.
    times = [root.host_now_ms, root.timeline.last_ms, *(d.timeline.last_ms for d in descendants if d.timeline)]
    return Conversation(
        availability="connected",
        session=session,
        root=root,
        descendants=descendants,
        lasts={session: root.last, **lasts},
        now_ms=max(times),
        unread_children=unread,
    )


async def read_within(runtime: Runtime, launch: Launch, seconds: float) -> Conversation:
    """A reading that a frozen Host does not hold up."""
    with anyio.move_on_after(seconds):
        return await read_conversation(runtime, launch)
    return _unknown(Failure(Code.HOST_UNREACHABLE, f"the Host did not answer within {seconds:g} s"))


def _unknown(failure: Failure) -> Conversation:
    return Conversation(availability=availability_of(failure), failure=failure)


def availability_of(failure: Failure) -> str:
    """Availability is about the Host; a failure of ours leaves it unknown."""
    named = (
        Code.HOST_UNREACHABLE,
        Code.LOGIN_REQUIRED,
        Code.HOST_UNSUPPORTED,
        Code.HOST_CHANGED,
        Code.SESSION_NOT_FOUND,
        Code.BAD_HOST_REPLY,
        Code.HOST_ERROR,
    )
    return failure.code.value if failure.code in named else "unknown"


async def read_session(host: Host, session: str, *, parent: str | None = None) -> SessionRead | None:
    """The session's timeline, from its exact state and the last turn up to it; None when the Host has no such session.

    Raises HostFault.
    """
    for attempt in range(_ATTEMPTS):
        state = await host.session_state(session)
        if state is None:
            return None
        events: tuple[Event, ...] = ()
        now = None
        if state.last_seq >= 0:
            page = await host.page(
                session, through=state.last_seq, messages=TAIL_MESSAGES, whole_turn=True, parent=parent
            )
            events, now = page.events, page.host_now_ms
        try:
            timeline = timeline_at(state, events)
        except Gap:
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        return SessionRead(timeline, events[-1] if events else None, max(now or 0, timeline.last_ms))
    raise AssertionError  # pragma: no cover


async def read_descendants(
    host: Host, session: str, root: Timeline, *, depth: int = 1
) -> tuple[tuple[Descendant, ...], dict[str, Event | None], int]:
    """The subagents below a session, each with its timeline; their last events; how many were left out.

    Raises HostFault, except that a subagent which the Host refuses to show is one without a timeline.
    """
    refs = sorted(root.children, key=lambda child: (child.created_ms, child.session))[-MAX_CHILDREN:]
    left_out = len(root.children) - len(refs)
    if not refs:
        return (), {}, left_out
    reads: dict[str, SessionRead | None] = {}
    faults: list[HostFault] = []
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def read(ref: ChildRef) -> None:
        async with limiter:
            try:
                reads[ref.session] = await read_session(host, ref.session, parent=session)
            except Refused:
                reads[ref.session] = None
            except HostFault as fault:
                faults.append(fault)

    async with anyio.create_task_group() as group:
        for ref in refs:
            group.start_soon(read, ref)
    if faults:
        raise faults[0]
    found: list[Descendant] = []
    lasts: dict[str, Event | None] = {}
    for ref in refs:
        child = reads[ref.session]
        found.append(Descendant(ref, session, None if child is None else child.timeline))
        if child is None:
            continue
        lasts[ref.session] = child.last
        if child.timeline.children and depth < MAX_DEPTH:
            below, below_lasts, more = await read_descendants(host, ref.session, child.timeline, depth=depth + 1)
            found += below
            lasts |= below_lasts
            left_out += more
    return tuple(found), lasts, left_out
