"""The limits: what the product's work costs without the product."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import msgspec

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

    async def look(self, session: str) -> Any:
        """What a status reads: exact state, last turn."""
        state = await self.call("session/projections", {"request": {"sessionId": session}})
        address = {"kind": "session", "sessionId": session}
        request = {"address": address, "throughSeq": state["asOfSeq"], "maxMessages": 20}
        return await self.call("session/page", {"request": request | {"turnWindow": {"minMessages": 1, "minTurns": 1}}})

    async def aclose(self) -> None:
        await self._client.aclose()


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
