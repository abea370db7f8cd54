"""The Host's end of a live connection, for a test to say what it likes; and what such tests share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection as Accept
from wsproto.events import CloseConnection, Ping, RejectConnection, Request, TextMessage

from agentlink.host.cookies import Cookie
from agentlink.host.stream import LiveLink, Pace

QUICK = Pace(first_pause_s=0.02, longest_pause_s=0.2, silent_s=1.0, ping_s=0.3)
Serve = Callable[["Door"], Awaitable[None]]


class Door:
    """The Host's end of one live connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._ws = WSConnection(ConnectionType.SERVER)
        self.events: list[Any] = []

    async def _event(self) -> Any:
        while not self.events:
            self._ws.receive_data(await self._stream.receive())
            for event in self._ws.events():
                if isinstance(event, Ping):
                    await self._stream.send(self._ws.send(event.response()))
                else:
                    self.events.append(event)
        return self.events.pop(0)

    async def accept(self, status: int = 101) -> str:
        """Answers the upgrade and gives its cookie."""
        request = await self._event()
        assert isinstance(request, Request)
        answer = (
            Accept() if status == 101 else RejectConnection(status_code=status, headers=[(b"content-length", b"0")])
        )
        await self._stream.send(self._ws.send(answer))
        return dict(request.extra_headers).get(b"cookie", b"").decode()

    async def frame(self) -> dict[str, Any]:
        """The next frame of the client."""
        event = await self._event()
        if isinstance(event, CloseConnection):
            raise anyio.EndOfStream
        assert isinstance(event, TextMessage)
        return dict(json.loads(event.data))

    async def say(self, text: str) -> None:
        await self._stream.send(self._ws.send(TextMessage(data=text)))

    async def item(self, stream: str, value: Any) -> None:
        await self.say(json.dumps({"type": "item", "streamId": stream, "value": value}, separators=(",", ":")))

    async def close(self, code: int) -> None:
        await self._stream.send(self._ws.send(CloseConnection(code=code, reason="told so")))


@asynccontextmanager
async def doors(serve: Serve) -> AsyncIterator[str]:
    """Serves each connection so; gives the origin."""

    async def connected(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await serve(Door(stream))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, connected)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


async def any_login(refused: Cookie | None) -> Cookie:
    return Cookie("http://h", "dsh-auth-a", "v1.second" if refused else "v1.first", "login-1")


def begin(cursor: int) -> dict[str, Any]:
    projections = {"asOfSeq": cursor, "values": {}}
    return {"type": "snapshot", "cursor": cursor, "records": [], "hasMore": True, "projections": projections}


def event(seq: int, **data: Any) -> dict[str, Any]:
    return {"type": "event", "event": {"type": "x", "seq": seq, "time": 0, "data": data}}


@asynccontextmanager
async def running(link: LiveLink) -> AsyncIterator[LiveLink]:
    async with anyio.create_task_group() as group:
        group.start_soon(link.run)
        yield link
        group.cancel_scope.cancel()


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not true():
            await anyio.sleep(0.01)
