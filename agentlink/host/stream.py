"""The live connection to a Host: one WebSocket per process that carries every stream (see `agentlink.app.ports.Link`).

`run` owns the connection. It connects when the first stream is wanted, stays until nobody has wanted one for a while,
and connects again, after growing pauses, when the connection broke. Two tasks serve an open connection: one reads, and
hands every frame over without waiting for anybody, because a Host ends a connection that is not drained; the other
writes, and watches for a Host that has gone silent. A stream that broke, alone or with the connection, gives its reader
one LinkLost, is opened again under a new id, and begins with a fresh Snapshot. Nothing can be resumed on this wire, so
that is also what becomes of a reader that is too slow for its buffer.
"""

import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import httpx
import msgspec
from httpx_ws import AsyncWebSocketSession, WebSocketUpgradeError
from wsproto.events import Ping, TextMessage

from agentlink.core.host.faults import BadReply, LoginNeeded
from agentlink.core.host.values import Address, Attached, EventBase, LinkLost, LinkState, LiveItem, Offer, Snapshot
from agentlink.core.redact import redact
from agentlink.host.cookies import Cookie
from agentlink.host.http import new_client
from agentlink.host.socket import BREAKS, Silent, loss_words, open_socket
from agentlink.wire import remote_mux as mux

T = TypeVar("T")

Login = Callable[[Cookie | None], Awaitable[Cookie]]
"""Gives the current login, or another than the one that was refused. Raises HostFault."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a live connection: what it may wait for, and how much it may keep."""

    connect_s: float = 10.0
    idle_s: float = 15.0
    """How long a connection stays that nobody wants."""
    ping_s: float = 4.0
    silent_s: float = 10.0
    """A Host pings every 2 s, and answers ours: one that is not heard for this long is frozen or gone."""
    lasting_s: float = 5.0
    """What broke earlier than this is paused for longer than the time before."""
    first_pause_s: float = 0.05
    longest_pause_s: float = 5.0
    frame_chars: int = 64 << 20
    unread_items: int = 4096
    unread_chars: int = 32 << 20


class LiveFeed(Generic[T]):
    """One wanted stream, and what its reader has not taken yet. See `agentlink.app.ports.Feed`."""

    def __init__(
        self,
        *,
        frame: Callable[[str], str],
        decode: Callable[[msgspec.Raw], tuple[T, ...]],
        lost: Callable[[str], T],
        pace: Pace,
        drained: Callable[[], None],
    ) -> None:
        self.frame = frame
        self.id: str | None = None
        self.due = 0.0
        """When it may be opened again."""
        self.opened_at = 0.0
        self.failures = 0
        self.held = False
        """Overflowed: it is opened again when the reader has come so far."""
        self._decode = decode
        self._lost = lost
        self._pace = pace
        self._drained = drained
        self._items: deque[tuple[T, int]] = deque()
        self._chars = 0
        self._arrived = anyio.Event()
        self._told: str | None = None
        """The code of the LinkLost that the reader has, when nothing came since."""
        self._fresh = True
        self._last_seq = -1

    async def next(self) -> T:
        # Items that are there already must not let their reader keep the event loop from the connection.
        await anyio.lowlevel.checkpoint()
        while not self._items:
            if self._arrived.is_set():
                self._arrived = anyio.Event()
            await self._arrived.wait()
        item, chars = self._items.popleft()
        self._chars -= chars
        if self.held and not self._items:
            self.held = False
            self._drained()
        return item

    def opened(self, stream: str, now: float) -> None:
        self.id, self.opened_at, self._fresh = stream, now, True

    def take(self, value: msgspec.Raw, chars: int) -> bool:
        """Keeps what a frame says; False when there is no more room. Raises BadReply for what must not come next."""
        for item in self._decode(value):
            self._check(item)
            # Beginnings are not counted: a reader could else never be given a large one together with what follows it.
            self._put(item, 0 if isinstance(item, Snapshot) else chars)
            chars = 0
        pace, unread = self._pace, len(self._items)
        return unread <= 1 or (unread <= pace.unread_items and self._chars <= pace.unread_chars)

    def _check(self, item: T) -> None:
        if isinstance(item, Snapshot | Attached) is not self._fresh:
            raise BadReply("the stream does not begin with its beginning")
        self._fresh, self._told = False, None
        if isinstance(item, Snapshot):
            self._last_seq = item.state.last_seq
        elif isinstance(item, EventBase):
            if item.seq != self._last_seq + 1:
                raise BadReply(f"event {item.seq} came after event {self._last_seq}")
            self._last_seq = item.seq

    def lose(self, reason: str, *, alone: bool = False) -> None:
        """Tells the reader, once, that what comes next is a new beginning.

        `alone` is for a stream that broke on a connection that stands: that is news to a reader that knows another
        reason, a Host that came back without the session for instance.
        """
        self.id = None
        code = reason.partition(":")[0]
        if self._told is not None and (not alone or self._told == code):
            return
        if any(isinstance(item, LinkLost) for item, _ in self._items):
            self._items.clear()  # it has not even come to the loss before; two beginnings are never kept
            self._chars = 0
        self._told = code
        self._put(self._lost(reason), 0)

    def overflow(self) -> None:
        self._items.clear()
        self._chars = 0
        self.held = True
        self.lose("too_slow: more came than this reader has room for")

    def _put(self, item: T, chars: int) -> None:
        self._items.append((item, chars))
        self._chars += chars
        self._arrived.set()


class LiveLink:
    """See `agentlink.app.ports.Link`. Clock, chance and pauses are arguments for the sake of tests."""

    def __init__(
        self,
        origin: str,
        login: Login,
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._origin = origin
        self._login = login
        self._pace = pace or Pace()
        self._clock = clock
        self._chance = chance
        self._sleep = sleep
        self._wanted: list[LiveFeed[Any]] = []
        self._open: dict[str, LiveFeed[Any]] = {}
        self._given_up: deque[str] = deque()
        self._wake = anyio.Event()
        self._opened = 0
        self._breaks = 0
        self._heard_at: float | None = None
        self._down: str | None = None
        """Why the Host is away; None while it is there, or not wanted."""
        self._state = LinkState(connected=False, since=clock(), last_frame=None, failures=0, reason="not wanted yet")

    @property
    def state(self) -> LinkState:
        return msgspec.structs.replace(self._state, last_frame=self._heard_at)

    # -- streams

    def follow(self, address: Address) -> AbstractAsyncContextManager[LiveFeed[LiveItem]]:
        """A session's events from now on."""
        return self._stream(lambda stream: mux.follow_frame(stream, address), mux.decode_live, LinkLost)

    def offers(self) -> AbstractAsyncContextManager[LiveFeed[Offer]]:
        """What the Host's agents ask a person."""
        return self._stream(mux.offers_frame, mux.decode_offer, LinkLost)

    @asynccontextmanager
    async def _stream(
        self, frame: Callable[[str], str], decode: Callable[[msgspec.Raw], tuple[T, ...]], lost: Callable[[str], T]
    ) -> AsyncIterator[LiveFeed[T]]:
        feed = LiveFeed(frame=frame, decode=decode, lost=lost, pace=self._pace, drained=self._wake_up)
        if self._down is not None:
            feed.lose(self._down)
        self._wanted.append(feed)
        self._wake_up()
        try:
            yield feed
        finally:
            self._wanted.remove(feed)
            self._give_up(feed)
            self._wake_up()

    def _wake_up(self) -> None:
        self._wake.set()

    async def _woken(self) -> None:
        await self._wake.wait()
        self._wake = anyio.Event()

    def _give_up(self, feed: LiveFeed[Any]) -> None:
        if feed.id is not None:
            del self._open[feed.id]
            self._given_up.append(feed.id)
            feed.id = None

    # -- the connection

    async def run(self) -> None:
        """Keeps the connection for as long as somebody wants a stream; ends only by cancellation."""
        try:
            async with new_client(self._origin) as client:
                while True:
                    while not self._wanted:
                        self._down = None
                        await self._woken()
                    await self._once(client)
                    if self._down is not None:
                        await self._sleep(self._pause(self._breaks))
        finally:
            self._disconnected("stopped: the live connection was closed here")

    def _pause(self, breaks: int) -> float:
        """Full jitter: many clients of a Host that comes back do not come all at once."""
        most = self._pace.first_pause_s * float(1 << min(breaks, 20))
        return min(most, self._pace.longest_pause_s) * self._chance()

    async def _once(self, client: httpx.AsyncClient) -> None:
        """One connection from its opening to its end, or the attempt."""
        try:
            refused = await self._connection(client, cookie := await self._login(None))
            if refused:
                refused = await self._connection(client, await self._login(cookie))
            if refused:
                raise LoginNeeded(f"{self._origin} does not accept the stored login any more", expired=True)
        except* BREAKS as broken:
            self._broke(loss_words(self._origin, broken))
        else:
            self._disconnected(None)

    def _broke(self, reason: str) -> None:
        state = self._state
        lasted = state.connected and self._clock() - state.since >= self._pace.lasting_s
        self._breaks = 1 if lasted else self._breaks + 1
        self._disconnected(reason, failures=0 if state.connected else state.failures + 1)

    def _disconnected(self, reason: str | None, *, failures: int = 0) -> None:
        since = self._clock() if self._state.connected else self._state.since
        shown = reason or "idle: nobody wants a stream"
        self._state = LinkState(connected=False, since=since, last_frame=None, failures=failures, reason=shown)
        self._open.clear()
        self._given_up.clear()
        self._down = reason
        if reason is not None:
            for feed in self._wanted:
                feed.lose(reason)

    async def _connection(self, client: httpx.AsyncClient, cookie: Cookie) -> bool:
        """Serves one connection; True when its login was refused."""
        limit = self._pace.frame_chars
        try:
            with anyio.fail_after(self._pace.connect_s) as opening:
                async with open_socket(client, mux.MUX_PATH, cookie, limit=limit, heard=self._heard) as socket:
                    opening.deadline = math.inf
                    self._connected()
                    async with anyio.create_task_group() as group:
                        group.start_soon(self._read, socket)
                        await self._tend(socket)
                        group.cancel_scope.cancel()
        except WebSocketUpgradeError as error:
            if error.response.status_code != 401:
                raise
            return True
        return False

    def _connected(self) -> None:
        self._down = None
        self._heard()
        self._state = LinkState(connected=True, since=self._clock(), last_frame=None, failures=0, reason=None)

    def _heard(self) -> None:
        self._heard_at = self._clock()

    async def _tend(self, socket: AsyncWebSocketSession) -> None:
        """Writes all that is to be written; ends when nobody has wanted a stream for a while."""
        pace = self._pace
        pinged = wanted = self._clock()
        while True:
            while self._given_up:
                await socket.send_text(mux.cancel_frame(self._given_up.popleft()))
            now = self._clock()
            if now >= pinged + pace.ping_s:
                await socket.send(Ping())
                pinged = now
            closed = [feed for feed in self._wanted if feed.id is None and not feed.held]
            for feed in closed:
                if feed.due <= now and feed.id is None and feed in self._wanted:
                    await self._open_stream(socket, feed, now)
            wanted = now if self._wanted else wanted
            silent = (self._heard_at or now) + pace.silent_s
            if now >= silent:
                raise Silent(f"nothing was heard of the Host for {pace.silent_s:g} s")
            if now >= wanted + pace.idle_s:
                return
            waits = [feed.due for feed in closed if feed.due > now]
            if not self._wanted:
                waits.append(wanted + pace.idle_s)
            with anyio.move_on_after(max(0.0, min(silent, pinged + pace.ping_s, *waits) - self._clock())):
                await self._woken()

    async def _open_stream(self, socket: AsyncWebSocketSession, feed: LiveFeed[Any], now: float) -> None:
        self._opened += 1
        stream = f"s{self._opened}"
        self._open[stream] = feed
        feed.opened(stream, now)
        await socket.send_text(feed.frame(stream))

    async def _read(self, socket: AsyncWebSocketSession) -> None:
        while True:
            event = await socket.receive()
            if isinstance(event, TextMessage):
                self._dispatch(event.data)

    def _dispatch(self, text: str) -> None:
        if len(text) > self._pace.frame_chars:
            feed = self._open.get(mux.stream_of_cut_frame(text[:300]) or "")
            if feed is not None:
                self._give_up(feed)
                self._fault(feed, f"bad_host_reply: a frame of more than {self._pace.frame_chars} characters")
            return
        frame = mux.decode_frame(text)
        feed = self._open.get(frame.stream) if frame is not None else None
        if frame is None or feed is None:
            return
        if isinstance(frame, mux.Ended):
            del self._open[frame.stream]
            words = redact(frame.message, limit=160)
            self._fault(feed, f"{frame.code}: {words}" if frame.code else "ended: the Host has ended the stream")
            return
        try:
            room = feed.take(frame.value, len(text))
        except BadReply as error:
            self._give_up(feed)
            self._fault(feed, f"bad_host_reply: {redact(error.message, limit=160)}")
            return
        if not room:
            self._give_up(feed)
            feed.overflow()

    def _fault(self, feed: LiveFeed[Any], reason: str) -> None:
        """This stream broke, not the connection: it is opened again after a pause of its own."""
        now = self._clock()
        feed.failures = 1 if now - feed.opened_at >= self._pace.lasting_s else feed.failures + 1
        feed.due = now + self._pause(feed.failures)
        feed.lose(reason, alone=True)
        self._wake_up()
