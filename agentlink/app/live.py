"""A task's conversation kept current by live streams: the root's, and those of the subagents that are at work.

Every stream begins with an exact state, so a lost connection costs nothing: the next snapshot is folded anew. Who
listens gets each event once: what a snapshot does not reach back to is read from the history.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from agentlink.app.conversation import Conversation, SessionRead, read_session
from agentlink.app.ports import Link
from agentlink.app.runtime import Runtime
from agentlink.core.host.faults import HostFault, Refused
from agentlink.core.host.timeline import Gap, Timeline, fold, timeline_at
from agentlink.core.host.values import (
    Address,
    ChildRef,
    Event,
    LinkLost,
    LiveItem,
    Snapshot,
    SubagentStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
    event_type,
)
from agentlink.core.supervision.digest import digest
from agentlink.core.supervision.status import Descendant, TaskNow, look_at

_HOLE_MESSAGES = 200


class Listener(Protocol):
    """Who wants every event, not only the state."""

    def on_event(self, session: str, event: Event) -> None: ...

    def on_text(self, session: str, delta: TextDelta) -> None: ...

    def on_rewound(self, session: str, from_seq: int) -> None:
        """The Host lost the end of this history: what follows is told again from there."""
        ...


class _Session:
    """One session: its timeline, and the last event that was told."""

    def __init__(self, parent: str | None, ref: ChildRef | None, read: SessionRead | None) -> None:
        self.parent = parent
        self.ref = ref
        self.timeline = None if read is None else read.timeline
        self.last = None if read is None else read.last
        self.followed = False


class LiveTask:
    """The task's state, always the newest known; see `following`."""

    def __init__(
        self, runtime: Runtime, link: Link, group: TaskGroup, conversation: Conversation, listener: Listener | None
    ) -> None:
        self._runtime = runtime
        self._link = link
        self._group = group
        self._listener = listener
        self._root = conversation.session
        self._sessions: dict[str, _Session] = {
            conversation.session: _Session(None, None, conversation.root),
        }
        for d in conversation.descendants:
            read = None
            if d.timeline is not None:
                read = SessionRead(d.timeline, conversation.lasts.get(d.ref.session), conversation.now_ms)
            self._sessions[d.ref.session] = _Session(d.parent, d.ref, read)
        self._host_ms = conversation.now_ms
        self._host_at = runtime.clock.now()
        self._changed = anyio.Event()
        self.lost_since: float | None = None
        """Monotonic second since which the root's stream is down."""
        self.lost_reason: str | None = None
        self.news = 0
        """How many events came since the reading that a tail would tell."""

    # -- what is known

    def now_ms(self) -> int:
        """The Host's clock, as far as its last events tell."""
        return self._host_ms + int((self._runtime.clock.now() - self._host_at) * 1000)

    def now(self) -> TaskNow:
        root = self._sessions[self._root].timeline or Timeline()
        return look_at(root, self._root, self._descendants(), now_ms=self.now_ms())

    def conversation(self) -> Conversation:
        """The same, in the form of a reading."""
        root = self._sessions[self._root]
        now = self.now_ms()
        return Conversation(
            availability="connected",
            session=self._root,
            root=SessionRead(root.timeline or Timeline(), root.last, now),
            descendants=self._descendants(),
            lasts={name: one.last for name, one in self._sessions.items() if one.timeline is not None},
            now_ms=now,
        )

    def _descendants(self) -> tuple[Descendant, ...]:
        return tuple(
            Descendant(one.ref, one.parent or self._root, one.timeline)
            for one in self._sessions.values()
            if one.ref is not None
        )

    async def changed(self) -> None:
        """Returns when anything has changed since the last call."""
        await self._changed.wait()
        self._changed = anyio.Event()

    # -- following

    def begin(self) -> None:
        self._follow(self._root)
        for name, one in self._sessions.items():
            if one.ref is not None and (one.timeline is None or one.timeline.in_turn or one.timeline.waiting):
                self._follow(name)

    def _follow(self, session: str) -> None:
        one = self._sessions[session]
        if not one.followed:
            one.followed = True
            self._group.start_soon(self._pump, session)

    async def _pump(self, session: str) -> None:
        one = self._sessions[session]
        async with self._link.follow(Address(session, one.parent)) as feed:
            while True:
                await self._take(session, one, await feed.next())
                self._changed.set()

    async def _take(self, session: str, one: _Session, item: LiveItem) -> None:
        match item:
            case Snapshot():
                await self._begin_anew(session, one, item)
                if session == self._root:
                    self.lost_since = self.lost_reason = None
            case LinkLost():
                if session == self._root and self.lost_since is None:
                    self.lost_since, self.lost_reason = self._runtime.clock.now(), item.reason
            case TextDelta():
                if self._listener is not None:
                    self._listener.on_text(session, item)
            case _:
                try:
                    self._fold(session, one, item)
                except Gap:  # its snapshot could not be made sense of
                    await self._begin_from_history(session, one)

    def _fold(self, session: str, one: _Session, event: Event) -> None:
        timeline = one.timeline or Timeline()
        if event.seq <= timeline.last_seq:
            return
        one.timeline = fold(timeline, event)
        self._tell(session, one, event)
        if isinstance(event, SubagentStarted):
            self._meet(session, event.child, at_work=True)
        if isinstance(event, TurnEnded):
            self._group.start_soon(self._look_at_the_resting)

    def _tell(self, session: str, one: _Session, event: Event) -> None:
        one.last = event
        self.news += digest(event, task="") is not None
        if event.time_ms > self._host_ms:
            self._host_ms, self._host_at = event.time_ms, self._runtime.clock.now()
        if self._listener is not None:
            self._listener.on_event(session, event)

    def _meet(self, parent: str, child: ChildRef, *, at_work: bool) -> None:
        if child.session not in self._sessions:
            one = self._sessions[child.session] = _Session(parent, child, None)
            # Until it has been read it counts as at work: its parent may end its turn before that.
            one.timeline = Timeline(in_turn=True, last_ms=child.created_ms)
        if at_work:
            self._follow(child.session)

    async def _begin_anew(self, session: str, one: _Session, snapshot: Snapshot) -> None:
        try:
            timeline = timeline_at(snapshot.state, snapshot.events)
        except Gap:
            await self._begin_from_history(session, one)
            return
        missed = await self._missed(session, one, snapshot, timeline)
        before, one.timeline = one.timeline, timeline
        for event in missed:
            self._tell(session, one, event)
        one.last = snapshot.events[-1] if snapshot.events else one.last
        for child in timeline.children:
            known = child.session in self._sessions
            # One that was made since the last look is followed as if its start had been seen: a listener has not had
            # any of its events.
            born = not known and (before is None or child.created_ms >= before.last_ms)
            self._meet(session, child, at_work=born)
            if not known and not born:
                self._group.start_soon(self._look_at_child, child.session)

    async def _begin_from_history(self, session: str, one: _Session) -> None:
        read = await self._read(session, one)
        if read is not None:
            one.timeline, one.last = read.timeline, read.last

    async def _read(self, session: str, one: _Session) -> SessionRead | None:
        try:
            return await read_session(self._runtime.host, session, parent=one.parent)
        except (HostFault, Gap):
            return None

    async def _missed(self, session: str, one: _Session, snapshot: Snapshot, timeline: Timeline) -> list[Event]:
        """The events between what was told last and the snapshot, which a listener has not had."""
        last = one.last
        if self._listener is None or one.timeline is None or last is None:
            return [event for event in snapshot.events if last is None or event.seq > last.seq]
        at_last = next((event for event in snapshot.events if event.seq == last.seq), None)
        replaced = at_last is not None and (at_last.time_ms, event_type(at_last)) != (last.time_ms, event_type(last))
        if timeline.last_seq < last.seq or replaced:
            starts = [e.seq for e in snapshot.events if isinstance(e, TurnStarted) and e.seq <= last.seq]
            begin = starts[-1] if starts else (snapshot.events[0].seq if snapshot.events else 0)
            self._listener.on_rewound(session, begin)
            return [event for event in snapshot.events if event.seq >= begin]
        events = [event for event in snapshot.events if event.seq > last.seq]
        first = events[0].seq if events else timeline.last_seq + 1
        while first > last.seq + 1:
            # A hole that cannot be read now must not be passed over: the listener would miss it for good.
            page = await self._page(session, one, before=first, through=timeline.last_seq)
            if not page:
                self._listener.on_rewound(session, first)
                break
            events = [event for event in page if event.seq > last.seq] + events
            first = page[0].seq
        return events

    async def _page(self, session: str, one: _Session, *, before: int, through: int) -> tuple[Event, ...]:
        while True:
            try:
                page = await self._runtime.host.page(
                    session, through=through, before=before, messages=_HOLE_MESSAGES, parent=one.parent
                )
            except Refused:
                return ()  # it will not be told: the listener hears that it is told anew from the snapshot on
            except HostFault:
                await self._runtime.clock.sleep(0.2)
            else:
                return page.events

    async def _look_at_child(self, session: str) -> None:
        """Reads a subagent that was met in a snapshot; follows it when it is at work."""
        one = self._sessions[session]
        read = await self._read(session, one)
        if one.followed:
            return
        if read is None:
            self._follow(session)  # its stream tells of it as soon as it can be read
            return
        one.timeline, one.last = read.timeline, read.last
        if read.timeline.in_turn or read.timeline.waiting:
            self._follow(session)
        self._changed.set()

    async def _look_at_the_resting(self) -> None:
        """At the end of a turn: a subagent that had finished may have been given more to do."""
        for name, one in list(self._sessions.items()):
            if one.ref is not None and not one.followed:
                await self._look_at_child(name)


@asynccontextmanager
async def following(
    runtime: Runtime, conversation: Conversation, *, listener: Listener | None = None
) -> AsyncIterator[LiveTask]:
    """The task of this reading, kept current for as long as the context lasts."""
    async with runtime.link() as link, anyio.create_task_group() as group:
        live = LiveTask(runtime, link, group, conversation, listener)
        live.begin()
        try:
            yield live
        finally:
            group.cancel_scope.cancel()
