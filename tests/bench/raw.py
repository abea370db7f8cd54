"""The limits: what the product's work costs without the product."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from httpx_ws import AsyncWebSocketSession, aconnect_ws

from agentlink.files.private import FILE_MODE
from agentlink.host.cookies import Cookie
from agentlink.host.http import new_client
from agentlink.journal.locks import JOURNAL_TIMEOUT_S, make_lock


class RawHost:
    """The Host's calls with the product's own client settings; nothing is checked or written down."""

    def __init__(self, cookie: Cookie) -> None:
        self._client = new_client(cookie.origin)
        self._headers = {"content-type": "application/json", "cookie": cookie.header}

    async def call(self, method: str, args: dict[str, Any]) -> Any:
        body = {"type": "client-request", "rpcId": str(uuid.uuid4()), "method": method, "payload": {"args": args}}
        reply = await self._client.post(f"/api/{method}", content=msgspec.json.encode(body), headers=self._headers)
        answer = msgspec.json.decode(reply.content)
        if not answer["result"]["ok"]:
            raise RuntimeError(f"{method}: {answer['result']}")
        return answer["result"].get("value")

    async def create(self, *, cwd: str) -> str:
        session = f"session-{uuid.uuid4()}"
        await self.call("session/create", {"request": {"sessionId": session, "cwd": cwd, "agentPreset": "minimal"}})
        return session

    async def prompt(self, session: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        request = {"requestId": str(uuid.uuid4()), "sessionId": session, "mode": "queue", "content": content}
        await self.call("session/prompt", {"request": request})

    async def launch(self, *, cwd: str, prompt: str) -> str:
        """What a delegation carries: create, model check, exact state, prompt."""
        session = await self.create(cwd=cwd)
        await self.call("session/modelCatalog", {})
        await self.call("session/projections", {"request": {"sessionId": session}})
        await self.prompt(session, prompt)
        return session

    async def look(self, session: str, *, parent: str | None = None) -> Any:
        """What a status reads: exact state, last turn."""
        state = await self.call("session/projections", {"request": {"sessionId": session}})
        request = {"address": session_address(session, parent), "throughSeq": state["asOfSeq"], "maxMessages": 20}
        return await self.call("session/page", {"request": request | {"turnWindow": {"minMessages": 1, "minTurns": 1}}})

    async def aclose(self) -> None:
        await self._client.aclose()

    async def page(
        self, session: str, *, through: int, before: int | None = None, messages: int = 200, parent: str | None = None
    ) -> Any:
        """A page of the history that ends there."""
        request = {"address": session_address(session, parent), "throughSeq": through, "maxMessages": messages}
        return await self.call("session/page", {"request": request | ({} if before is None else {"beforeSeq": before})})


def session_address(session: str, parent: str | None = None) -> dict[str, str]:
    """How calls about a history name a session."""
    if parent is None:
        return {"kind": "session", "sessionId": session}
    return {"kind": "subagent", "parentSessionId": parent, "childSessionId": session, "mode": "unknown"}


Told = Callable[[dict[str, Any], float], None]
"""Told each value of a stream, and the milliseconds of the wall clock at which it was there."""


class RawFollower:
    """Sessions followed over one WebSocket, by the library alone: nothing is kept, checked or opened again."""

    def __init__(self, socket: AsyncWebSocketSession) -> None:
        self._socket = socket
        self._told: dict[str, Told] = {}

    async def follow(self, session: str, told: Told) -> None:
        stream = f"r{len(self._told)}"
        self._told[stream] = told
        turn = {"turnWindow": {"minMessages": 1, "minTurns": 1}, "assistantStream": True}
        request = {"address": session_address(session), "maxMessages": 20} | turn
        payload = {"args": {"request": request}}
        frame = {"type": "open", "streamId": stream, "endpoint": "session/follow", "payload": payload}
        await self._socket.send_text(msgspec.json.encode(frame).decode())

    async def read(self) -> None:
        while True:
            text = await self._socket.receive_text()
            at = time.time() * 1_000
            frame = msgspec.json.decode(text)
            if frame["type"] == "item":
                self._told[frame["streamId"]](frame["value"], at)


@asynccontextmanager
async def raw_follower(cookie: Cookie) -> AsyncIterator[RawFollower]:
    """A follower that reads for as long as the context lasts."""
    headers = {"cookie": cookie.header}
    socket: AsyncWebSocketSession
    async with (
        new_client(cookie.origin) as client,
        aconnect_ws("/api/remote.mux", client, max_message_size_bytes=1 << 18, headers=headers) as socket,
        anyio.create_task_group() as group,
    ):
        follower = RawFollower(socket)
        group.start_soon(follower.read)
        yield follower
        group.cancel_scope.cancel()


class RawAppends:
    """The cheapest durable append with the product's kind of lock: lock, open, write, flush, close, unlock."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "raw.jsonl"
        self._lock = make_lock(directory / "raw.lock", timeout_s=JOURNAL_TIMEOUT_S)

    def append(self, data: bytes) -> None:
        with self._lock:
            fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
            try:
                os.write(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
