"""The tools for a running task, in both protocol eras and over real stdio, for chosen and for routed tasks (FR-13)."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from mcp import Client

from agentlink.lab import Lab
from tests.app.supervised import asking, escalating, tool, with_child
from tests.mcp_server.eras import ask, both_eras, refused
from tests.mcp_server.wire import RawServer
from tests.requirements import requirement

pytestmark = pytest.mark.host

RULES = """
version = 1
[[rule]]
id = "implementation"
preset = "standard"
match = { kind = "implementation" }
"""
CHOSEN = {"agentPreset": "standard"}
ROUTED = {"routing": {"mode": "auto", "hints": {"kind": "implementation"}}}
ANSWERS = [
    {"id": "q3", "custom": "text"},
    {"id": "q1", "custom": "later"},
    {"id": "q2", "selected": ["A", "C"], "custom": "also D"},
]
UNKNOWN = "dsh_0123456789ab"


class Caller:
    """One caller's tasks: how they are delegated, and where."""

    def __init__(self, client: Client, running: Lab, how: dict[str, Any]) -> None:
        self.client = client
        self._lab = running
        self._how = how

    async def task(self, prompt: str, **more: Any) -> dict[str, Any]:
        place = self._lab.host.workspace / f"w-{secrets.token_hex(4)}"
        place.mkdir()
        delegated = await self.ask("dsh_delegate", prompt=prompt, cwd=str(place), **self._how, **more)
        mode = "automatic" if "routing" in self._how else "manual"
        assert (delegated["routing"]["mode"], delegated["routing"]["resolvedPreset"]) == (mode, "standard")
        return delegated

    async def ask(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await ask(self.client, name, **arguments)

    async def refused(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await refused(self.client, name, **arguments)

    async def wait(self, task: str) -> dict[str, Any]:
        return await self.ask("dsh_wait", taskIds=[task], timeoutSeconds=20)

    async def at(self, task: str, execution: str) -> dict[str, Any]:
        with anyio.fail_after(20):
            while (status := await self.ask("dsh_status", taskId=task))["execution"] != execution:
                await anyio.sleep(0.05)
        return status


async def questions(caller: Caller) -> None:
    delegated = await caller.task(asking(), waitSeconds=20)
    task, waited = delegated["taskId"], delegated["waited"]
    assert (waited["execution"], waited["taskId"]) == ("awaiting_input", task)
    (pending,) = waited["pending"]
    assert [one["id"] for one in pending["questions"]] == ["q1", "q2", "q3"]
    call = {"taskId": task, "requestId": pending["requestId"]}
    bad = await caller.refused("dsh_answer_question", **call, answers=ANSWERS[:2])
    assert (bad["code"], bad["details"]["questionId"], bad["promptSent"]) == ("bad_answer", "q2", False)
    assert (await caller.ask("dsh_status", taskId=task))["pending"] == [pending]
    # Some callers send arrays as text (F12).
    answer = await caller.ask("dsh_answer_question", **call, answers=msgspec.json.encode(ANSWERS).decode())
    assert answer["delivery"] == "in_history"
    assert (await caller.wait(task))["finalMessage"] == "fin"
    told = await caller.ask("dsh_tail", taskId=task)
    (result,) = [event for event in told["events"] if event["kind"] == "tool_ended"]
    assert [one["id"] for one in msgspec.json.decode(result["text"])["answers"]] == ["q1", "q2", "q3"]
    gone = await caller.refused("dsh_answer_question", **call, answers=ANSWERS)
    assert (gone["code"], gone["details"]["settledAs"]) == ("not_pending", "answered")


async def approvals(caller: Caller) -> None:
    for outcome, settled in (("allow_once", "allowed-once"), ("reject", "rejected")):
        task = (await caller.task(escalating()))["taskId"]
        waited = await caller.wait(task)
        assert waited["execution"] == "awaiting_approval"
        (pending,) = waited["pending"]
        assert (pending["tool"], pending["kind"]) == ("bash", "approval")
        call = {"taskId": task, "requestId": pending["requestId"], "outcome": outcome}
        assert (await caller.ask("dsh_resolve_approval", **call))["outcome"] == settled
        assert (await caller.wait(task))["finalMessage"] == "fin"
        gone = await caller.refused("dsh_resolve_approval", **call)
        assert (gone["code"], gone["details"]["settledAs"]) == ("not_pending", settled)


async def steering_and_stopping(caller: Caller) -> None:
    task = (await caller.task(tool("bash", command="sleep 0.6", description="d") + "[[slow: 30 a b c]]"))["taskId"]
    before = await caller.at(task, "running")
    steer = await caller.ask("dsh_followup", taskId=task, prompt="[[slow: 30 steered]]", mode="steer")
    queued = [
        await caller.ask(
            "dsh_followup",
            taskId=task,
            prompt=f"[[say: queued {n}]]",
            mode="queue",
            sinceCursor=before["cursor"],
            requestKey=f"k{n}",
        )
        for n in (1, 2)
    ]
    assert [one["requestId"] for one in (steer, *queued)] == [f"{task}.1.{n}" for n in (1, 2, 3)]
    canceled = await caller.ask("dsh_cancel", taskId=task)
    assert (canceled["turnCanceled"], canceled["execution"]) == (True, "canceled")
    assert {one["requestId"] for one in queued} <= set(canceled["parked"])
    stale = await caller.refused("dsh_followup", taskId=task, prompt="no", mode="queue", sinceCursor=before["cursor"])
    assert (stale["code"], stale["promptSent"]) == ("stale_view", False)
    assert "turnCanceled" not in await caller.ask("dsh_cancel", taskId=task)
    emptied = await caller.ask("dsh_cancel", taskId=task, scope="queue")
    assert emptied["queue"]["removed"] == len(canceled["parked"])
    await caller.ask("dsh_followup", taskId=task, prompt="[[say: on]]", mode="queue")
    assert (await caller.at(task, "turn_completed"))["finalMessage"] == "on"


async def subagents(caller: Caller) -> None:
    task = (await caller.task(with_child("[[slow: 0.8 child one two]]")))["taskId"]
    status = await caller.at(task, "children_running")
    assert len(status["childrenRunning"]) == 1
    assert "finalMessage" not in status
    waited = await caller.wait(task)
    assert waited["execution"] == "turn_completed"
    assert waited["finalMessage"].startswith("Done: Background subagent")


FLOWS: list[Callable[[Caller], Awaitable[None]]] = [questions, approvals, steering_and_stopping, subagents]


@requirement("FR-13")
@pytest.mark.parametrize("how", [CHOSEN, ROUTED], ids=["chosen", "routed"])
async def test_a_task_is_watched_answered_steered_and_stopped_in_both_eras(
    host_env: dict[str, str], real_lab: Lab, home: Path, how: dict[str, Any]
) -> None:
    home.mkdir(parents=True)
    (home / "routes.toml").write_text(RULES)
    async with both_eras(host_env) as clients, anyio.create_task_group() as group:
        for client in clients:
            for flow in FLOWS:
                group.start_soon(flow, Caller(client, real_lab, how))


def test_a_task_is_supervised_over_real_stdio_with_one_live_connection_for_all_calls(
    host_env: dict[str, str], real_lab: Lab
) -> None:
    def delegated(server: RawServer, prompt: str) -> str:
        place = real_lab.host.workspace / f"w-{secrets.token_hex(4)}"
        place.mkdir()
        return str(server.tool("dsh_delegate", prompt=prompt, cwd=str(place), agentPreset="standard")["taskId"])

    with RawServer(host_env) as server:
        server.initialize()
        task = delegated(server, asking())
        waited = server.tool("dsh_wait", taskIds=[task], timeoutSeconds="20")
        assert waited["execution"] == "awaiting_input"
        request = waited["pending"][0]["requestId"]
        server.tool("dsh_answer_question", taskId=task, requestId=request, answers=ANSWERS)
        assert server.tool("dsh_wait", taskIds=[task])["finalMessage"] == "fin"
        task = delegated(server, escalating())
        request = server.tool("dsh_wait", taskIds=[task])["pending"][0]["requestId"]
        resolved = server.tool("dsh_resolve_approval", taskId=task, requestId=request, outcome="reject")
        assert resolved["outcome"] == "rejected"
        server.tool("dsh_followup", taskId=task, prompt="[[slow: 20 more]]", mode="queue")
        both = [server.ask("dsh_wait", taskIds=[task]), server.ask("dsh_cancel", taskId=task, scope="all")]
        assert server.answer(both[1])["result"]["structuredContent"]["execution"] in ("canceled", "turn_completed")
        server.end_stdin()
        assert server.wait() == 0
        assert server.errors == ""


async def test_a_person_is_asked_before_an_approval_and_destructive_tools_say_so(bare_env: dict[str, str]) -> None:
    async with both_eras(bare_env) as clients:
        for client in clients:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            approval = tools["dsh_resolve_approval"]
            assert approval.annotations is not None
            assert approval.annotations.destructive_hint is True
            assert not approval.annotations.idempotent_hint
            assert not approval.annotations.read_only_hint
            assert approval.meta == {"anthropic/requiresUserInteraction": True}
            assert [name for name, one in tools.items() if one.meta] == ["dsh_resolve_approval"]
            for name in ("dsh_wait", "dsh_tail", "dsh_status", "dsh_list"):
                annotations = tools[name].annotations
                assert annotations is not None
                assert annotations.read_only_hint is True


@requirement("SI-01")
async def test_tools_act_on_tasks_of_this_journal_only_and_take_no_session(
    host_env: dict[str, str], real_lab: Lab
) -> None:
    calls: dict[str, dict[str, Any]] = {
        "dsh_status": {},
        "dsh_tail": {},
        "dsh_followup": {"prompt": "x", "mode": "queue"},
        "dsh_answer_question": {"requestId": "r", "answers": []},
        "dsh_resolve_approval": {"requestId": "r", "outcome": "reject"},
        "dsh_cancel": {},
        "dsh_release_workspace": {},
    }
    async with both_eras(host_env) as (modern, legacy):
        listed = {one.name: one.input_schema for one in (await modern.list_tools()).tools}
        assert not any("session" in name.lower() for name in _arguments(listed) if name != "sessionLost")
        session = (await Caller(modern, real_lab, CHOSEN).task("[[say: ours]]"))["sessionId"]
        for client in (modern, legacy):
            for name, arguments in calls.items():
                unknown = await refused(client, name, taskId=UNKNOWN, **arguments)
                assert unknown["code"] == "task_not_found", name
                extra = await refused(client, name, taskId=UNKNOWN, sessionId=session, **arguments)
                assert (extra["code"], extra["details"]) == ("invalid_request", {"argument": "sessionId"})
                foreign = await refused(client, name, taskId=session, **arguments)
                assert (foreign["code"], foreign["details"]) == ("invalid_request", {"argument": "taskId"})
            assert (await refused(client, "dsh_wait", taskIds=[UNKNOWN]))["code"] == "task_not_found"


def _arguments(schemas: dict[str, dict[str, Any]]) -> set[str]:
    return {name for schema in schemas.values() for name in schema.get("properties", {})}
