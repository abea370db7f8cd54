"""Just enough of the modern wire for the lab's own tests; the product's client is another matter."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx

T = TypeVar("T")


class HostRefused(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]


def until(look: Callable[[], T | None], *, timeout_s: float = 15) -> T:
    """Look again and again until there is something to see; there is no event to wait for."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(0.02)
    raise TimeoutError(f"nothing within {timeout_s} s")


class HostClient:
    def __init__(self, origin: str, launch_url: str) -> None:
        self.http = httpx.Client(base_url=origin, trust_env=False, timeout=10)
        self.login_status = self.http.get(launch_url).status_code

    def __enter__(self) -> HostClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def call(self, method: str, **args: Any) -> Any:
        envelope = {
            "type": "client-request",
            "rpcId": str(uuid.uuid4()),
            "method": method,
            "payload": {"args": args},
        }
        result = self.http.post(f"/api/{method}", json=envelope).json()["result"]
        if not result["ok"]:
            raise HostRefused(result["error"])
        return result.get("value")

    def roster(self) -> dict[str, dict[str, Any]]:
        return {preset["id"]: preset for preset in self.call("agentPresets/list")["presets"]}

    def create(self, preset: str = "minimal") -> str:
        return str(self.call("session/create", request={"agentPreset": preset})["sessionId"])

    def prompt(self, session: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        request = {"requestId": str(uuid.uuid4()), "sessionId": session, "mode": "queue", "content": content}
        self.call("session/prompt", request=request)

    def events(self, session: str) -> list[dict[str, Any]]:
        end = self.call("session/projections", request={"sessionId": session})["asOfSeq"]
        address = {"kind": "session", "sessionId": session}
        request = {"address": address, "throughSeq": end, "maxMessages": 500}
        return [record["event"] for record in self.call("session/page", request=request)["records"]]

    def turn_ends(self, session: str) -> list[dict[str, Any]]:
        return [event["data"]["reason"] for event in self.events(session) if event["type"] == "turn/end"]

    def wait_for_turn(self, session: str, *, turns: int = 1, timeout_s: float = 20) -> dict[str, Any]:
        """The reason of the end of that turn."""

        def ended() -> dict[str, Any] | None:
            reasons = self.turn_ends(session)
            return reasons[turns - 1] if len(reasons) >= turns else None

        return until(ended, timeout_s=timeout_s)

    def answers(self, session: str) -> list[str]:
        """The text of each assistant message."""
        messages = [e["data"]["message"] for e in self.events(session) if e["type"] == "assistant/message"]
        return ["".join(p["text"] for p in m["content"] if p["type"] == "text") for m in messages]

    def run(self, text: str, *, preset: str = "minimal") -> str:
        """A new session that has finished its first turn."""
        session = self.create(preset)
        self.prompt(session, text)
        assert self.wait_for_turn(session)["kind"] == "completed"
        return session


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that its new parent has not collected has."""
    stat = Path("/proc", str(pid), "stat")
    if Path("/proc/self/stat").exists():
        try:
            return stat.read_bytes().rpartition(b")")[2].split()[0] == b"Z"
        except OSError:
            return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
