"""One WebSocket to a Host: its login, its bounds, and how its end is told in words."""

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import httpx
from httpx_ws import (
    AsyncWebSocketSession,
    HTTPXWSException,
    WebSocketDisconnect,
    WebSocketUpgradeError,
    aconnect_ws,
)
from wsproto.connection import Connection, ConnectionType
from wsproto.events import Event, Message, Pong
from wsproto.utilities import ProtocolError

from agentlink.core.host.faults import HostFault, LoginNeeded, Unreachable, Unsupported
from agentlink.core.redact import redact
from agentlink.host.cookies import Cookie

_READ_BYTES = 1 << 18


class Silent(Exception):
    """Nothing was heard of the Host for too long."""


BREAKS = (HostFault, HTTPXWSException, httpx.HTTPError, ProtocolError, OSError, Silent)
"""What ends a connection, or the attempt to make one."""


def open_socket(
    client: httpx.AsyncClient, path: str, cookie: Cookie, *, limit: int, heard: Callable[[], None]
) -> AbstractAsyncContextManager[AsyncWebSocketSession]:
    """A connection that calls `heard` for whatever arrives. Of a message of more than `limit` characters only the
    beginning is given, a little more than the limit."""

    class Session(AsyncWebSocketSession):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.connection = _Bounded(limit, heard)

    # What the library calls the largest message is only how much it reads at once; a message has no bound at all.
    # Its own pings end a connection whose answer waits behind a large message, so the link looks at all that arrives.
    return aconnect_ws(
        path,
        client,
        max_message_size_bytes=_READ_BYTES,
        keepalive_ping_interval_seconds=None,
        session_class=Session,
        headers={"cookie": cookie.header},
    )


class _Bounded(Connection):
    def __init__(self, limit: int, heard: Callable[[], None]) -> None:
        self._limit = limit
        self._heard = heard
        self._size = 0
        super().__init__(ConnectionType.CLIENT)

    def receive_data(self, data: bytes | None) -> None:
        self._heard()
        super().receive_data(data)

    def events(self) -> Generator[Event, None, None]:
        for event in super().events():
            if isinstance(event, Pong):
                continue  # httpx-ws fails with KeyError on one that answers no ping of its own
            if not isinstance(event, Message):
                yield event
                continue
            before, self._size = self._size, self._size + len(event.data)
            if before <= self._limit:
                yield event if self._size <= self._limit else replace(event, message_finished=True)
            if event.message_finished:
                self._size = 0


def loss_words(origin: str, error: BaseException) -> str:
    """Why there is no connection: the code that a failed call would have, and a sentence."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case LoginNeeded():
            return f"login_required: {error.message}"
        case Unsupported():
            return f"host_unsupported: {error.message}"
        case Unreachable():
            return f"host_unreachable: {error.message}"
        case HostFault():
            return f"bad_host_reply: {error.message}"
        case WebSocketUpgradeError():
            status = error.response.status_code
            code = "host_unsupported" if status == 404 else "bad_host_reply"
            return f"{code}: {origin} offers no live connection (HTTP {status})"
        case WebSocketDisconnect():
            return f"host_unreachable: {origin} closed the live connection ({error.code} {_short(error.reason)})"
        case Silent():
            return f"host_unreachable: {error}"
        case _:
            return f"host_unreachable: no live connection to {origin}: {_short(str(error) or type(error).__name__)}"


def _short(text: str) -> str:
    return redact(text, limit=160)
