"""Each tool in both protocol eras, against a real Host."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from agentlink.lab import Lab, write_changeable
from agentlink.mcp_server.server import make_server
from agentlink.mcp_server.tools import TOOLS
from tests.cli.program import agentlink
from tests.lab.client import HostClient, until
from tests.mcp_server.eras import ERAS, ask, both_eras, finished, opened, refused
from tests.requirements import requirement

pytestmark = pytest.mark.host

UNKNOWN_TASK = "dsh_0123456789ab"


def marker() -> str:
    return f"marker-{secrets.token_hex(6)}"


_EACH = ("at", "recordedAt", "cursor", "openWrites")
"""What differs from one task, or one moment, to the next."""


def masked(answer: Any, *values: str) -> Any:
    """The same answer without what differs from one task to the next."""
    match answer:
        case dict():
            return {name: masked(value, *values) for name, value in answer.items() if name not in _EACH}
        case list():
            return [masked(value, *values) for value in answer]
        case str() if answer.startswith(("dsh_", "session-")) or answer in values:
            return "masked"
        case _:
            return answer


@requirement("FR-01")
async def test_both_eras_list_the_same_tools(bare_env: dict[str, str]) -> None:
    async with both_eras(bare_env) as (modern, legacy):
        one, other = [(await client.list_tools()).tools for client in (modern, legacy)]
        assert [tool.model_dump() for tool in one] == [tool.model_dump() for tool in other]
        names = [tool.name for tool in one]
        assert names == [tool.name for tool in TOOLS]
        assert {"dsh_host_status", "dsh_delegate", "dsh_status", "dsh_list", "dsh_release_workspace"} <= set(names)


@requirement("NFR-03", "SI-03")
async def test_the_claim_is_called_no_sandbox_where_a_task_is_delegated(bare_env: dict[str, str]) -> None:
    async with both_eras(bare_env) as (modern, _):
        delegate = next(tool for tool in (await modern.list_tools()).tools if tool.name == "dsh_delegate")
        assert "NOT a sandbox" in (delegate.description or "")


async def test_an_unknown_tool_is_a_protocol_error_in_both_eras(bare_env: dict[str, str]) -> None:
    async with both_eras(bare_env) as clients:
        for client in clients:
            with pytest.raises(MCPError) as error:
                await client.call_tool("dsh_nothing", {})
            assert error.value.error.code == -32602


async def test_the_host_status_is_the_same_in_both_eras(host_env: dict[str, str]) -> None:
    async with both_eras(host_env) as (modern, legacy):
        status = await ask(modern, "dsh_host_status")
        assert status == await ask(legacy, "dsh_host_status")
    assert (status["availability"], status["wire"], status["login"]) == ("connected", "remote", "accepted")
    presets = {preset["id"]: preset for preset in status["presets"]}
    assert presets["standard"]["isDefault"] is True
    assert presets["broken-one"]["broken"]
    assert "broken" not in presets["minimal"]


async def test_a_task_is_delegated_followed_listed_and_released_alike_in_both_eras(
    host_env: dict[str, str], workspace: Path, real_lab: Lab
) -> None:
    stories = []
    word = marker()
    async with both_eras(host_env) as clients:
        for number, client in enumerate(clients):
            cwd = str(workspace / str(number))
            await anyio.Path(cwd).mkdir()
            given = await ask(
                client, "dsh_delegate", prompt=f"{word} [[say: ✓ 完成]]", cwd=cwd, agentPreset="minimal", title="A task"
            )
            assert given["launch"] == {"stage": "prompt-sent", "promptSent": True}
            assert given["routing"]["resolvedPreset"] == given["routing"]["requestedPreset"] == "minimal"
            assert given["routing"]["verification"] == "verified"
            status = await finished(client, given["taskId"])
            assert status["finalMessage"] == "✓ 完成"
            assert [step["stage"] for step in status["launch"]["path"]] == [
                "requested",
                "selected",
                "session-created",
                "preset-verified",
                "claimed",
                "prompt-sent",
            ]
            listed = await ask(client, "dsh_list", limit=1)
            assert listed["tasks"][0]["taskId"] == given["taskId"]
            released = await ask(client, "dsh_release_workspace", taskId=given["taskId"])
            assert released["claim"]["held"] is False
            again = await refused(client, "dsh_release_workspace", taskId=given["taskId"])
            assert again["code"] == "workspace_claim_missing"
            stories.append([masked(part, cwd) for part in (given, status, listed["tasks"][0], released)])
        tasks = [await ask(client, "dsh_list") for client in clients]
        statuses = [await ask(client, "dsh_status", taskId=tasks[0]["tasks"][0]["taskId"]) for client in clients]
    for one, other in zip(stories[0], stories[1], strict=True):
        one.pop("createdAt", None), other.pop("createdAt", None)
        assert one == other
    assert tasks[0] == tasks[1]
    assert statuses[0] == statuses[1]
    assert real_lab.model.runs(word) == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("dsh_status", {"taskId": UNKNOWN_TASK}, "task_not_found"),
        ("dsh_status", {"taskId": "dsh_1"}, "invalid_request"),
        ("dsh_status", {}, "invalid_request"),
        ("dsh_release_workspace", {"taskId": UNKNOWN_TASK}, "task_not_found"),
        ("dsh_recover", {"taskId": UNKNOWN_TASK, "abandon": True}, "task_not_found"),
        ("dsh_recover", {"taskId": UNKNOWN_TASK, "prompt": "x", "abandon": True}, "invalid_request"),
        ("dsh_recover", {"prompt": "x"}, "invalid_request"),
        ("dsh_list", {"before": UNKNOWN_TASK}, "task_not_found"),
        ("dsh_list", {"before": "x"}, "invalid_request"),
        ("dsh_list", {"limit": 0}, "invalid_request"),
        ("dsh_list", {"limit": 201}, "invalid_request"),
        ("dsh_list", {"state": "odd"}, "invalid_request"),
        ("dsh_delegate", {"prompt": "x", "cwd": "/no/such/directory"}, "cwd_not_found"),
        ("dsh_delegate", {"prompt": "x", "cwd": "relative"}, "invalid_request"),
        ("dsh_delegate", {"prompt": " \n", "cwd": "/"}, "invalid_request"),
        ("dsh_delegate", {"prompt": "x", "cwd": "/", "requestKey": "no spaces"}, "invalid_request"),
        ("dsh_delegate", {"prompt": "x", "cwd": "/", "title": " "}, "invalid_request"),
    ],
)
async def test_what_is_refused_without_the_host_is_refused_alike_and_makes_no_task(
    bare_env: dict[str, str], tool: str, arguments: dict[str, Any], code: str
) -> None:
    env = bare_env | {"AGENTLINK_HOST_URL": "http://127.0.0.1:9"}
    async with both_eras(env) as (modern, legacy):
        error = await refused(modern, tool, **arguments)
        assert error == await refused(legacy, tool, **arguments)
        unknown = code == "task_not_found"
        assert (error["code"], error["promptSent"]) == (code, None if unknown else False)
        assert error["next"]
        assert (await ask(modern, "dsh_list"))["tasks"] == []


@pytest.mark.parametrize(("preset", "code"), [("nobody", "preset_not_found"), ("broken-one", "preset_broken")])
async def test_a_preset_that_cannot_be_used_sends_nothing_and_leaves_no_session(
    host_env: dict[str, str], workspace: Path, real_lab: Lab, preset: str, code: str
) -> None:
    word = marker()
    async with both_eras(host_env) as (modern, legacy):
        errors = [
            await refused(client, "dsh_delegate", prompt=word, cwd=str(workspace), agentPreset=preset)
            for client in (modern, legacy)
        ]
        assert masked(errors[0]) == masked(errors[1])
        error = errors[0]
        assert (error["code"], error["stage"], error["promptSent"]) == (code, "selected", False)
        assert error["details"]["agentPreset"] == preset
        assert "sessionId" not in error
        if code == "preset_not_found":
            assert {"standard", "minimal", "team"} <= set(error["details"]["available"])
        else:
            assert "dsh-does-not-exist" in error["details"]["reason"]
        status = await ask(modern, "dsh_status", taskId=error["taskId"])
        assert status["launch"]["record"]["failureCode"] == status["failure"]["code"] == code
        assert status["claim"]["held"] is False
        with HostClient(real_lab.host.origin, real_lab.host.launch_url) as client:
            intended = error["details"]["intendedSessionId"]
            assert client.call("session/projections", request={"sessionId": intended}) is None
    assert real_lab.model.runs(word) == 0


async def test_a_preset_that_breaks_goes_and_comes_back_is_judged_afresh_each_time(
    host_env: dict[str, str], workspace: Path, real_lab: Lab
) -> None:
    word = marker()
    place = {"cwd": str(workspace), "agentPreset": "changeable"}
    with HostClient(real_lab.host.origin, real_lab.host.launch_url) as client:
        async with both_eras(host_env) as (modern, _):
            try:
                write_changeable(real_lab.host.home, "broken")
                until(lambda: client.roster().get("changeable", {}).get("broken"))
                assert (await refused(modern, "dsh_delegate", prompt=word, **place))["code"] == "preset_broken"
                write_changeable(real_lab.host.home, "gone")
                until(lambda: True if "changeable" not in client.roster() else None)
                assert (await refused(modern, "dsh_delegate", prompt=word, **place))["code"] == "preset_not_found"
            finally:
                write_changeable(real_lab.host.home, "good")
            until(lambda: True if "broken" not in client.roster().get("changeable", {"broken": 1}) else None)
            assert real_lab.model.runs(word) == 0
            given = await ask(modern, "dsh_delegate", prompt=word, **place)
            await finished(modern, given["taskId"])
    assert real_lab.model.runs(word) == 1


@pytest.mark.parametrize("era", ERAS)
@requirement("FR-06", "AC-14", "AC-16")
async def test_a_preset_selected_by_a_person_stops_the_launch_and_its_session_is_recovered(
    host_env: dict[str, str], workspace: Path, real_lab: Lab, era: str
) -> None:
    word = marker()
    with HostClient(real_lab.host.origin, real_lab.host.launch_url) as person:
        async with opened(host_env) as runtime:
            create = runtime.host.create_session

            async def meddled(session: Any, *, cwd: str, preset: str | None) -> Any:
                created = await create(session, cwd=cwd, preset=preset)
                person.call("agentPresets/select", agentId=created.session, agentPreset="team")
                return created

            runtime.host.create_session = meddled  # type: ignore[method-assign]
            async with Client(make_server(runtime), mode=era) as client:
                error = await refused(client, "dsh_delegate", prompt=word, cwd=str(workspace), agentPreset="minimal")
                assert (error["code"], error["promptSent"]) == ("resolved_preset_mismatch", False)
                assert error["sessionId"].startswith("session-")
                status = await ask(client, "dsh_status", taskId=error["taskId"])
                record = status["launch"]["record"]
                assert (record["requestedPreset"], record["resolvedPreset"]) == ("minimal", "team")
                assert (record["verification"], record["launchStage"]) == ("failed", "launch-failed")
                assert status["sessionId"] == error["sessionId"]
                assert real_lab.model.runs(word) == 0

                runtime.host.create_session = create  # type: ignore[method-assign]
                found = await ask(client, "dsh_recover")
                assert [(row["taskId"], row["sessionId"]) for row in found["unprompted"]] == [
                    (error["taskId"], error["sessionId"])
                ]
                again = await refused(client, "dsh_recover", taskId=error["taskId"], prompt=word)
                assert again["code"] == "resolved_preset_mismatch"  # nothing selects a preset by itself
                person.call("agentPresets/select", agentId=error["sessionId"], agentPreset="minimal")
                given = await ask(client, "dsh_recover", taskId=error["taskId"], prompt=word)
                assert (given["sessionId"], given["launch"]["promptSent"]) == (error["sessionId"], True)
                done = await finished(client, error["taskId"])
                assert done["execution"] == "turn_completed"
                attempts = {step.get("attempt", 1) for step in done["launch"]["path"]}
                assert attempts == {1, 2, 3}
                assert (await ask(client, "dsh_recover"))["unpromptedCount"] == 0
    assert real_lab.model.runs(word) == 1


PROMPTS = {
    "lines and tabs": "one\n\ttwo\n\n  three\n",
    "CRLF": "one\r\ntwo\r\n",
    "emoji and CJK": "🎉 grüße ✓ 测试 \u202e \u2028 \x7f",
    "spaces around": "  \t spaced \t  \n\n",
    "quotes and escapes": "\"'\\ \\n $HOME %s {} </x> \x00",
    "200 KB": "αβγ 0123456789\n" * 12_000,
}


@pytest.mark.parametrize("name", PROMPTS)
@requirement("FR-07", "AC-21")
async def test_the_prompt_in_the_hosts_log_is_the_callers_byte_for_byte(
    host_env: dict[str, str], workspace: Path, real_lab: Lab, name: str
) -> None:
    prompt = PROMPTS[name]
    async with both_eras(host_env) as (_, legacy):
        given = await ask(legacy, "dsh_delegate", prompt=prompt, cwd=str(workspace), agentPreset="minimal")
        await finished(legacy, given["taskId"])
    with HostClient(real_lab.host.origin, real_lab.host.launch_url) as client:
        events = [event["data"] for event in client.events(given["sessionId"]) if event["type"] == "user/message"]
    mine = [data.get("message", data) for data in events if data["source"]["kind"] == "user"]
    assert [message["content"] for message in mine] == [[{"type": "text", "text": prompt}]]


def stdio(env: Mapping[str, str]) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-m", "agentlink", "serve"], env=dict(env))


@pytest.mark.parametrize("era", ERAS)
@requirement("AC-26")
async def test_a_launch_over_stdio_is_replayed_by_another_process(
    host_env: dict[str, str], workspace: Path, real_lab: Lab, era: str
) -> None:
    word = marker()
    async with Client(stdio(host_env), mode=era) as client:
        prompt = f"{word} [[slow: 0.3 slow but sure]]"
        given = await ask(client, "dsh_delegate", prompt=prompt, cwd=str(workspace), agentPreset="minimal")
        status = await finished(client, given["taskId"])
    assert status["finalMessage"] == "slow but sure"
    elsewhere = await anyio.to_thread.run_sync(lambda: agentlink("status", given["taskId"], "--json", env=host_env))
    assert (elsewhere.status, elsewhere.json) == (0, status)
    assert real_lab.model.runs(word) == 1


async def test_a_request_key_given_again_never_starts_a_second_task(
    host_env: dict[str, str], workspace: Path, real_lab: Lab
) -> None:
    word = marker()
    call = {"prompt": word, "cwd": str(workspace), "agentPreset": "minimal", "requestKey": word}
    async with both_eras(host_env) as (modern, legacy):
        first = await ask(modern, "dsh_delegate", **call)
        again = await ask(legacy, "dsh_delegate", **call)
        assert again.pop("repeated") is True
        assert again["taskId"] == first["taskId"]
        other = await refused(legacy, "dsh_delegate", **(call | {"prompt": "another"}))
        assert (other["code"], other["promptSent"]) == ("request_key_conflict", True)
        conflict = await refused(legacy, "dsh_delegate", prompt=word, cwd=str(workspace), agentPreset="minimal")
        assert conflict["code"] == "workspace_conflict"
        assert conflict["details"]["taskId"] == first["taskId"]
        await finished(modern, first["taskId"])
    assert real_lab.model.runs(word) == 1
