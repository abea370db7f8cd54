"""A loopback proxy in front of a real Host that loses, spoils or delays single answers: what networks do to calls."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

Fault = Literal["drop-reply", "bad-gateway", "late-reply", "drop-request", "hold-request", "nonsense", "other-id"]

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")
_CONNECTION = re.compile(rb"(?i)\r\nconnection:[^\r\n]*")


class FaultProxy:
    """Forwards HTTP calls to `upstream_port`; `faults` names what happens to the next call of a method, once each."""

    def __init__(self, upstream_port: int) -> None:
        self.port = 0
        self.faults: dict[str, Fault] = {}
        self.calls: list[str] = []
        self.release = anyio.Event()
        """Lets held requests and late replies go on."""
        self._upstream_port = upstream_port

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, client: SocketStream) -> None:
        async with client:
            reader = BufferedByteReceiveStream(client)
            while True:
                try:
                    head = await reader.receive_until(b"\r\n\r\n", 65536) + b"\r\n\r\n"
                    length = _LENGTH.search(head)
                    body = await reader.receive_exactly(int(length[1])) if length else b""
                    if not await self._answer(client, head, body):
                        return
                except (OSError, anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
                    return

    async def _answer(self, client: SocketStream, head: bytes, body: bytes) -> bool:
        """One call; False when the connection is closed instead of answered."""
        method = head.split(b" ", 2)[1].decode().split("?")[0].removeprefix("/api/")
        self.calls.append(method)
        fault = self.faults.pop(method, None)
        if fault == "drop-request":
            return False
        if fault == "hold-request":
            await self.release.wait()
        reply = await self._forward(head, body)
        if fault == "late-reply":
            await self.release.wait()
        if fault in ("drop-reply", "late-reply", "hold-request"):
            return False
        if fault == "bad-gateway":
            reply = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nbad"
        elif fault == "nonsense":
            reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n<html>hi</html>"
        elif fault == "other-id":
            reply = re.sub(rb'"rpcId":"[^"]*"', lambda found: b'"rpcId":"' + b"x" * (len(found[0]) - 10) + b'"', reply)
        await client.send(reply)
        return True

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        async with await anyio.connect_tcp("127.0.0.1", self._upstream_port) as upstream:
            closing = _CONNECTION.sub(b"", head).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
            await upstream.send(closing + body)
            parts = []
            with_end = True
            while with_end:
                try:
                    parts.append(await upstream.receive())
                except anyio.EndOfStream:
                    with_end = False
        return _dechunked(b"".join(parts))


def _dechunked(reply: bytes) -> bytes:
    """The reply with a length instead of chunks, so that the connection can be kept."""
    head, _, rest = reply.partition(b"\r\n\r\n")
    body = rest
    if b"transfer-encoding: chunked" in head.lower():
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            count = int(size, 16)
            if count == 0:
                break
            body, rest = body + rest[:count], rest[count + 2 :]
    kept = re.sub(rb"(?i)\r\n(transfer-encoding|content-length|connection|keep-alive):[^\r\n]*", b"", head)
    return kept + b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def fault_proxy(upstream_port: int) -> AsyncIterator[FaultProxy]:
    """A running proxy on a free loopback port."""
    proxy = FaultProxy(upstream_port)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        proxy.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        group.start_soon(listener.serve, proxy.serve)
        yield proxy
        group.cancel_scope.cancel()
