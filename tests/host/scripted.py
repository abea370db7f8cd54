"""A small local HTTP server that answers exactly the bytes it is told to, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

REMOTE = {"/api/events.mux": 401, "/api/remote.mux": 401}
LEGACY = {"/api/events.mux": 426, "/api/remote.mux": 404}


class Asked(msgspec.Struct, frozen=True):
    """One request as it arrived."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def rpc_id(self) -> str:
        return str(json.loads(self.body)["rpcId"])


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def http(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Any", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def reply(asked: Asked, value: Any = None, **other: Any) -> bytes:
    """A Host's own reply; `other` replaces parts of it."""
    whole = {"type": "server-response", "rpcId": asked.rpc_id, "result": {"ok": True, "value": value}}
    return http(200, json.dumps(whole | other).encode(), "content-type: application/json")


class Scripted:
    """Probes and logins are answered as a Host does; every other call by `answer`."""

    def __init__(self, probes: dict[str, int]) -> None:
        self.probes = probes
        self.answer: Answer | None = None
        self.login: bytes = http(303, b"", "location: ./", "set-cookie: dsh-auth-abc=v1.secret; HttpOnly; Path=/")
        self.asked: list[Asked] = []
        self.origin = ""

    @property
    def calls(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.verb == "POST"]

    def gives(self, make: Callable[[Asked], bytes]) -> None:
        """Every call is answered with these bytes."""

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(make(asked))

        self.answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _request(reader)) is not None:
                self.asked.append(asked)
                if asked.verb == "POST":
                    assert self.answer is not None
                    await self.answer(asked, writer)
                elif asked.path.startswith("/?token="):
                    writer.write(self.login)
                else:
                    writer.write(http(self.probes.get(asked.path, 404)))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    verb, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Asked(verb, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def scripted(probes: dict[str, int] | None = None) -> AsyncIterator[Scripted]:
    server = Scripted(REMOTE if probes is None else probes)
    running: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await server.serve(reader, writer)
        except asyncio.CancelledError:
            return
        finally:
            running.discard(task)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
    server.origin = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
