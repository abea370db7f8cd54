"""Waiting over MCP (field cases F3 and F10a): bounded, with progress that only rises, and cancelled without a trace."""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from mcp import Client

from agentlink.app import wait as wait_module
from agentlink.lab import Lab
from tests.mcp_server.eras import ask, body, both_eras, refused
from tests.mcp_server.wire import RawServer

pytestmark = pytest.mark.host

FAST_PROGRESS = [
    sys.executable,
    "-c",
    "import agentlink.app.wait as wait; wait._PROGRESS_S = 0.05\nfrom agentlink.mcp_server.stdio import serve; serve()",
]


def place(running: Lab) -> str:
    path: Path = running.host.workspace / f"w-{secrets.token_hex(4)}"
    path.mkdir()
    return str(path)


async def delegated(client: Client, running: Lab, prompt: str) -> str:
    asked = {"prompt": prompt, "cwd": place(running), "agentPreset": "minimal"}
    return str((await ask(client, "dsh_delegate", **asked))["taskId"])


async def test_f03a_a_wait_is_cut_to_the_longest_one_says_so_and_takes_its_time_as_text(
    host_env: dict[str, str], real_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_module, "MAX_WAIT_S", 0.4)
    async with both_eras(host_env) as clients:
        for client in clients:
            task = await delegated(client, real_lab, "[[slow: 30 one two]]")
            for given in (600, "600", 600.5):
                began = time.monotonic()
                waited = await ask(client, "dsh_wait", taskIds=[task], timeoutSeconds=given)
                assert time.monotonic() - began < 3
                assert (waited["timedOut"], waited["clampedTo"]) == (True, 0.4)
                assert waited["execution"] == "running"
            shorter = await ask(client, "dsh_wait", taskIds=msgspec.json.encode([task]).decode(), timeoutSeconds="0.1")
            assert shorter["timedOut"] is True
            assert "clampedTo" not in shorter
            for bad in ("soon", "", -1, True):
                error = await refused(client, "dsh_wait", taskIds=[task], timeoutSeconds=bad)
                assert (error["code"], error["details"]) == ("invalid_request", {"argument": "timeoutSeconds"})
            await ask(client, "dsh_cancel", taskId=task)
            assert (await ask(client, "dsh_wait", taskIds=[task], timeoutSeconds="30"))["execution"] == "canceled"


async def test_f03c_progress_rises_in_both_eras_and_none_follows_the_result(
    host_env: dict[str, str], real_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_module, "_PROGRESS_S", 0.05)
    async with both_eras(host_env) as clients:
        for client in clients:
            seen: list[float] = []

            async def on_progress(
                progress: float, _total: float | None, _message: str | None, seen: list[float] = seen
            ) -> None:
                seen.append(progress)

            asked = {
                "prompt": "[[slow: 0.6 one two]]",
                "cwd": place(real_lab),
                "agentPreset": "minimal",
                "waitSeconds": 20,
            }
            result = await client.call_tool("dsh_delegate", asked, progress_callback=on_progress)
            count = len(seen)
            assert body(result)["waited"]["execution"] == "turn_completed"
            assert count >= 2
            assert seen == sorted(set(seen))
            await anyio.sleep(0.2)
            assert len(seen) == count


def messages(server: RawServer) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in server.out.splitlines()]


def test_f03c_on_the_wire_no_progress_follows_the_result_and_its_values_only_rise(
    host_env: dict[str, str], real_lab: Lab
) -> None:
    with RawServer(host_env, command=FAST_PROGRESS) as server:
        server.initialize()
        numbers: dict[str, int | None] = {}
        for token in ("a", "b"):
            task = server.tool("dsh_delegate", prompt="[[slow: 0.5 x y]]", cwd=place(real_lab), agentPreset="minimal")
            arguments = {"taskIds": [task["taskId"]]}
            params = {"name": "dsh_wait", "arguments": arguments, "_meta": {"progressToken": token}}
            numbers[token] = server.send("tools/call", params)
        for token in ("a", "b"):
            server.answer(numbers[token])
        server.call("ping")
        told = messages(server)
    for token, number in numbers.items():
        progress = [
            (at, one["params"]["progress"])
            for at, one in enumerate(told)
            if one.get("method") == "notifications/progress" and one["params"]["progressToken"] == token
        ]
        (result,) = [at for at, one in enumerate(told) if one.get("id") == number]
        values = [value for _, value in progress]
        assert len(values) >= 2
        assert values == sorted(set(values))
        assert all(at < result for at, _ in progress)


def test_f10a_a_canceled_wait_gets_no_reply_the_server_answers_on_and_the_task_runs_on(
    host_env: dict[str, str], real_lab: Lab
) -> None:
    with RawServer(host_env) as server:
        server.initialize()
        task = server.tool("dsh_delegate", prompt="[[slow: 2 one two]]", cwd=place(real_lab), agentPreset="minimal")
        number = server.ask("dsh_wait", taskIds=[task["taskId"]])
        assert server.tool("dsh_wait", taskIds=[task["taskId"]], timeoutSeconds=0.2)["timedOut"] is True
        server.send("notifications/cancelled", {"requestId": number, "reason": "Esc"}, answered=False)
        assert server.call("ping") == {}
        after = server.tool("dsh_wait", taskIds=[task["taskId"]])
        assert (after["execution"], after["finalMessage"]) == ("turn_completed", "one two")
        assert server.call("ping") == {}
        replies = [one for one in messages(server) if one.get("id") == number]
        assert replies == []
        assert server.errors == ""


def test_f10a_a_cancel_that_crosses_the_result_leads_to_at_most_one_reply(
    host_env: dict[str, str], real_lab: Lab
) -> None:
    with RawServer(host_env) as server:
        server.initialize()
        task = server.tool("dsh_delegate", prompt="[[say: done]]", cwd=place(real_lab), agentPreset="minimal")["taskId"]
        server.tool("dsh_wait", taskIds=[task])
        numbers = []
        for delay in [n * 0.002 for n in range(20)]:
            number = server.ask("dsh_wait", taskIds=[task])
            time.sleep(delay)  # the result is ready after some 15 ms
            server.send("notifications/cancelled", {"requestId": number}, answered=False)
            numbers.append(number)
        assert server.call("ping") == {}
        assert server.tool("dsh_status", taskId=task)["execution"] == "turn_completed"
        counts = [sum(one.get("id") == number for one in messages(server)) for number in numbers]
        assert set(counts) <= {0, 1}
        assert server.errors == ""
