"""The server in this process, spoken to in both protocol eras; answers as parsed JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from mcp import Client
from mcp.types import CallToolResult, TextContent

from agentlink.app.runtime import Runtime, open_runtime
from agentlink.mcp_server.server import make_server

ERAS = ("auto", "legacy")


@asynccontextmanager
async def opened(env: Mapping[str, str]) -> AsyncIterator[Runtime]:
    """A runtime of this environment whose connections are closed at the end."""
    runtime = open_runtime(env)
    try:
        yield runtime
    finally:
        await runtime.host.aclose()  # type: ignore[attr-defined]


@asynccontextmanager
async def both_eras(env: Mapping[str, str]) -> AsyncIterator[tuple[Client, Client]]:
    """A client of the modern era and one of the handshake era, over one runtime."""
    async with (
        opened(env) as runtime,
        Client(make_server(runtime)) as modern,
        Client(make_server(runtime), mode="legacy") as legacy,
    ):
        yield modern, legacy


def body(result: CallToolResult) -> dict[str, Any]:
    """The result's JSON; text and structured data must say the same."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    decoded = msgspec.json.decode(content.text, type=dict[str, Any])
    assert decoded == result.structured_content
    assert result.is_error is ("error" in decoded)
    return decoded


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    return body(await client.call_tool(tool, arguments))


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error that the tool answers."""
    found = await ask(client, tool, **arguments)
    return dict(found["error"])


async def finished(client: Client, task: str, *, timeout_s: float = 20) -> dict[str, Any]:
    """The status once the task's turn has ended and its launch is settled."""
    with anyio.fail_after(timeout_s):
        while True:
            status = await ask(client, "dsh_status", taskId=task)
            settled = status["launch"].get("confirmed") or status["launch"]["stage"] == "launch-failed"
            if settled and status["execution"] not in ("not_started", "queued", "running", "unknown"):
                return status
            await anyio.sleep(0.05)
