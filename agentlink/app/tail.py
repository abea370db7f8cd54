"""A task's conversation, its subagents' included, told in bounded replies that go on exactly where the last one ended.

A subagent's log is opened only when the story comes to the time when it was made, so that a reply costs as much as it
tells and not as much as the task has.
"""

from agentlink.app.forward import Reader
from agentlink.app.look import find_task
from agentlink.app.ports import Host
from agentlink.app.results import Result
from agentlink.app.runtime import Runtime
from agentlink.app.settle import other_host, session_gone
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import HostFault, Refused
from agentlink.core.host.values import Address, Event
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.decide import failure_for
from agentlink.core.launch.history import TaskView
from agentlink.core.supervision.cursor import (
    START,
    Cursor,
    CursorInvalid,
    decode,
    encode,
    short_id,
)
from agentlink.core.supervision.digest import Digest, digest, parse_event_id, session_key, text_of
from agentlink.core.supervision.tail import Strand, cut_text, deal

DEFAULT_BYTES = 40_000
LEAST_BYTES, MOST_BYTES = 1_000, 1_000_000
_USUAL_CURSOR = 30
"""Characters of a cursor that the envelope has room for; with many subagents it is longer."""
_ENVELOPE_BYTES = 200
"""Kept free for what stands around the events."""
_MOST_WINDOWS = 64
"""Of a log in which nothing is worth telling, a reply reads this much and leaves the rest to the next one."""


class Rewound(Result, frozen=True, kw_only=True):
    """The Host lost the end of this session's history: everything from this event on is told anew."""

    session: str | None = None
    """Only for a subagent."""
    from_seq: int


class Tailed(Result, frozen=True, kw_only=True):
    """What happened after the cursor, oldest first; `cursor` goes on after it."""

    task_id: str
    session_id: str | None = None
    events: tuple[Digest, ...]
    cursor: str
    more: bool = False
    """Whether the reply was cut: there is more to read now."""
    events_left: int = 0
    """How many Host events are left, as far as the logs were looked at."""
    rewound: tuple[Rewound, ...] = ()


class EventText(Result, frozen=True, kw_only=True):
    """A part of one event's text; `next` is the offset of the part after it. All numbers count characters."""

    task_id: str
    id: str
    kind: str
    text: str
    offset: int = 0
    size: int
    next: int | None = None


async def tail(runtime: Runtime, task: TaskId, *, cursor: str | None = None, max_bytes: int = DEFAULT_BYTES) -> Tailed:
    """The events after the cursor, or from the beginning. Raises Failure."""
    _check_bytes(task, max_bytes)
    view = await find_task(runtime, task)
    known = _known(view, cursor)
    if view.launch.session is None:
        return Tailed(task_id=task, events=(), cursor=encode(known))
    try:
        envelope = _ENVELOPE_BYTES + max(0, len(encode(known)) - _USUAL_CURSOR)
        return await _told(runtime, view, known, max(max_bytes - envelope, LEAST_BYTES // 2))
    except HostFault as fault:
        raise _failure(view, fault) from fault


async def anything_since(runtime: Runtime, view: TaskView, cursor: str) -> bool:
    """Whether a tail from this cursor would tell anything now. Raises Failure."""
    known = _known(view, cursor)
    if view.launch.session is None:
        return False
    try:
        told = await _told(runtime, view, known, LEAST_BYTES)
    except HostFault as fault:
        raise _failure(view, fault) from fault
    return bool(told.events or told.rewound)


async def read_event(
    runtime: Runtime, task: TaskId, event_id: str, *, offset: int = 0, max_bytes: int = DEFAULT_BYTES
) -> EventText:
    """The text of one event from that character on. Raises Failure."""
    _check_bytes(task, max_bytes)
    view = await find_task(runtime, task)
    parsed = parse_event_id(event_id)
    if parsed is None:
        raise _invalid(task, "event", f"{event_id[:40]!r} is no event of a tail")
    if offset < 0:
        raise _invalid(task, "offset", "the offset counts characters from 0")
    launch, (key, seq) = view.launch, parsed
    if launch.session is None:
        raise _invalid(task, "event", "the task has no session yet")
    try:
        _same_host(runtime, view)
        found = await _find_session(runtime.host, launch.session, key)
        event = None if found is None else await _event_at(runtime.host, found, seq)
    except HostFault as fault:
        raise _failure(view, fault) from fault
    told = None
    if found is not None and event is not None:
        told = digest(event, task=task, session=None if found.parent is None else found.session)
    if event is None or told is None:
        raise _invalid(task, "event", f"the task has no event {event_id} with a text")
    whole = text_of(event)
    if offset > len(whole):
        raise _invalid(task, "offset", f"the text has {len(whole)} characters")
    text = cut_text(whole, offset=offset, max_bytes=max_bytes - _ENVELOPE_BYTES)
    end = offset + len(text)
    return EventText(
        task_id=task,
        id=event_id,
        kind=told.kind,
        text=text,
        offset=offset,
        size=len(whole),
        next=end if end < len(whole) else None,
    )


async def _told(runtime: Runtime, view: TaskView, known: Cursor, room: int) -> Tailed:
    for attempt in (1, 2):
        try:
            return await _read(runtime, view, known, room)
        except Refused as fault:
            # The log can become shorter between its state and a page of it, when the Host restarts just then.
            if attempt == 2 or fault.kind != "other":
                raise
    raise AssertionError  # pragma: no cover


async def _read(runtime: Runtime, view: TaskView, known: Cursor, room: int) -> Tailed:
    _same_host(runtime, view)
    root = view.launch.session or ""
    strands = [Strand(mark=known.root)]
    readers = [Reader(runtime.host, Address(root))]
    met = {root}
    parts: list[Digest] = []
    while True:
        dealt = deal(strands, task=known.task, room=room, first=not parts)
        strands = list(dealt.strands)
        parts += dealt.parts
        room -= dealt.used
        index = dealt.hungry
        if index is None or sum(max(0, reader.windows - 1) for reader in readers) >= _MOST_WINDOWS:
            break
        reader = readers[index]
        strands[index] = await reader.fill(strands[index])
        if index == 0 and reader.gone and view.launch.state == machine.PROMPT_SENT:
            raise _located(view, await session_gone(runtime, view.launch, root))
        children, reader.children = reader.children, ()
        for child in children:
            if child.session not in met:
                met.add(child.session)
                mark = known.child(child.session)
                strands.append(Strand(session=child.session, since_ms=child.created_ms, mark=mark))
                readers.append(Reader(runtime.host, Address(child.session, strands[index].session or root)))
    marks = dict(known.children) | {short_id(s.session): s.mark for s in strands if s.session and s.mark != START}
    return Tailed(
        task_id=known.task,
        session_id=root,
        events=tuple(parts),
        cursor=encode(Cursor(known.task, strands[0].mark, tuple(sorted(marks.items())))),
        more=dealt.full or dealt.hungry is not None,
        events_left=sum(reader.left(strand) for reader, strand in zip(readers, strands, strict=True)),
        rewound=tuple(
            Rewound(session=strand.session, from_seq=reader.rewound_to)
            for reader, strand in zip(readers, strands, strict=True)
            if reader.rewound_to is not None
        ),
    )


async def _find_session(host: Host, root: str, key: str) -> Address | None:
    """The session that event ids name by that key, and its parent."""
    todo, met = [Address(root)], set[str]()
    while todo:
        address = todo.pop(0)
        if session_key(None if address.parent is None else address.session) == key:
            return address
        met.add(address.session)
        state = await host.session_state(address.session)
        below = () if state is None else state.children
        todo += [Address(child.session, address.session) for child in below if child.session not in met]
    return None


async def _event_at(host: Host, address: Address, seq: int) -> Event | None:
    state = await host.session_state(address.session)
    if state is None or seq > state.last_seq:
        return None
    page = await host.page(address.session, through=seq, messages=1, parent=address.parent)
    return page.events[-1] if page.events and page.events[-1].seq == seq else None


def check_cursor(view: TaskView, cursor: str | None) -> None:
    """Raises Failure cursor_invalid for one that is damaged or of another task."""
    _known(view, cursor)


def _known(view: TaskView, cursor: str | None) -> Cursor:
    if cursor is None:
        return Cursor(view.task)
    try:
        return decode(cursor, task=view.task)
    except CursorInvalid as error:
        raise _located(view, Failure(Code.CURSOR_INVALID, str(error), details={"reason": error.reason})) from error


def _same_host(runtime: Runtime, view: TaskView) -> None:
    other = other_host(runtime, view.launch)
    if other is not None:
        raise _located(view, other)


def _failure(view: TaskView, fault: HostFault) -> Failure:
    return _located(view, failure_for(fault))


def _located(view: TaskView, failure: Failure) -> Failure:
    launch = view.launch
    return failure.located(stage=None, task=view.task, session=launch.session, prompt_sent=launch.prompt_sent)


def _invalid(task: TaskId, argument: str, message: str) -> Failure:
    return Failure(Code.INVALID_REQUEST, message, task=task, prompt_sent=None, details={"argument": argument})


def _check_bytes(task: TaskId, max_bytes: int) -> None:
    if not LEAST_BYTES <= max_bytes <= MOST_BYTES:
        raise _invalid(task, "maxBytes", f"maxBytes goes from {LEAST_BYTES} to {MOST_BYTES}")
