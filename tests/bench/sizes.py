"""What a caller's context pays: bytes of the tool list and of the results, as compact JSON and as sent."""

from __future__ import annotations

import secrets
import time
from typing import Any

import msgspec

from tests.bench.context import Context
from tests.bench.delegate import PROMPT
from tests.bench.rows import Row
from tests.bench.synthetic import CWD
from tests.mcp_server.wire import RawServer, body

NAME = "bytes"


def run(context: Context) -> list[Row]:
    """Over a real server and Host; the directory's own length is taken out."""
    cwd = context.lab().host.workspace / f"w-{secrets.token_hex(4)}"
    cwd.mkdir()
    with RawServer(context.environment(context.new_home(), host=True)) as server:
        server.initialize()
        tools = server.call("tools/list")
        arguments = {"prompt": PROMPT, "cwd": str(cwd), "agentPreset": "minimal"}
        delegated = _result(server, "dsh_delegate", arguments, cwd=str(cwd))
        task = {"taskId": body(delegated)["taskId"]}
        while body(status := _result(server, "dsh_status", task, cwd=str(cwd)))["launch"].get("confirmed") is None:
            time.sleep(0.2)
    with RawServer(context.environment(context.home_with(100, held=True))) as server:
        server.initialize()
        page = _result(server, "dsh_list", {}, cwd=CWD)
    shown = body(status)
    shown.pop("finalMessage", None)
    return [
        _row("tool list", _size(tools), target=8_000),
        _row("delegate result", _size(body(delegated)), target=600),
        _row("status without final message", _size(shown), target=1_200),
        _row("list page of 50", _size(body(page)), target=10_000),
        _row("delegate result as sent: text and structured", _size(delegated)),
        _row("status as sent", _size(status)),
        _row("list page of 50 as sent", _size(page)),
    ]


def _result(server: RawServer, tool: str, arguments: dict[str, Any], *, cwd: str) -> dict[str, Any]:
    """The tool's result as it came, but for a directory of ordinary length."""
    answer = server.call("tools/call", {"name": tool, "arguments": arguments})
    return msgspec.json.decode(msgspec.json.encode(answer).replace(cwd.encode(), CWD.encode()), type=dict[str, Any])


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _row(figure: str, size: int, *, target: float | None = None) -> Row:
    return Row(bench=NAME, figure=figure, ours=size, unit="B", target=target)
