"""Whatever stands where the Host should be, each tool says which trouble it is, and the server lives through it all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from agentlink.app.runtime import Runtime, open_runtime
from agentlink.core.host.faults import Refused
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import CookieFiles
from agentlink.lab import Lab, LabBroken, LabHost
from agentlink.mcp_server.server import make_server
from tests.host.front import Front, Mode
from tests.lab.client import until
from tests.mcp_server.eras import ERAS, ask, refused
from tests.mcp_server.wire import RawServer
from tests.requirements import requirement

pytestmark = pytest.mark.host

TROUBLES: dict[Mode, str] = {
    "closed": "host_unreachable",
    "html": "bad_host_reply",
    "noise": "bad_host_reply",
    "404": "host_unsupported",
}


@pytest.fixture
def front(real_lab: Lab) -> Iterator[Front]:
    with Front(real_lab.host.port) as door:
        yield door


@pytest.fixture
def front_env(bare_env: dict[str, str], front: Front, real_lab: Lab) -> dict[str, str]:
    return bare_env | {"AGENTLINK_HOST_URL": real_lab.host.launch_url.replace(real_lab.host.origin, front.origin)}


def test_one_server_lives_through_every_trouble_and_works_when_the_host_is_back(
    front_env: dict[str, str], front: Front, workspace: Path
) -> None:
    with RawServer(front_env) as server:
        server.initialize()
        front.become("closed")
        assert server.tool("dsh_host_status")["availability"] == "host_unreachable"
        front.become("forward")
        place = {"cwd": str(workspace), "agentPreset": "minimal"}
        task = server.tool("dsh_delegate", prompt="[[say: still here]]", **place)["taskId"]

        def done() -> dict[str, Any] | None:
            status = server.tool("dsh_status", taskId=task)
            return status if status["execution"] == "turn_completed" and status["launch"].get("confirmed") else None

        until(done)
        before = server.tool("dsh_status", taskId=task)
        other = {"cwd": str(workspace.parent), "agentPreset": "minimal", "workspaceMode": "read-only"}
        server.tool("dsh_release_workspace", taskId=task)
        for mode, code in TROUBLES.items():
            front.become(mode)
            host = server.tool("dsh_host_status")
            assert host["availability"] == host["failure"]["code"] == code
            assert "presets" not in host
            error = server.tool("dsh_delegate", prompt="x", **other)["error"]
            assert (error["code"], error["promptSent"]) == (code, False)
            assert "taskId" not in error
            status = server.tool("dsh_status", taskId=task)
            assert (status["availability"], status["execution"]) == (code, "unknown")
            assert status["failure"]["code"] == code
            assert "finalMessage" not in status
            assert status["launch"] == before["launch"]
        assert [row["taskId"] for row in server.tool("dsh_list")["tasks"]] == [task]
        front.become("forward")
        after = server.tool("dsh_status", taskId=task)
        assert after["finalMessage"] == "still here"
        assert server.tool("dsh_host_status")["availability"] == "connected"
        server.end_stdin()
        assert (server.wait(), server.errors) == (0, "")


def impatient(env: dict[str, str], front: Front) -> Runtime:
    """A runtime whose Host is given up after a moment."""
    runtime = open_runtime(env)
    cookies = CookieFiles(Path(env["AGENTLINK_HOME"]) / "cookies")
    runtime.host = RemoteHost(
        label="default", origin=front.origin, cookies=cookies, read_timeout_s=0.3, write_timeout_s=0.3
    )
    return runtime


@pytest.mark.parametrize("era", ERAS)
async def test_a_host_that_accepts_and_never_answers_is_unreachable(
    front_env: dict[str, str], front: Front, workspace: Path, era: str
) -> None:
    front.become("silent")
    runtime = impatient(front_env, front)
    try:
        async with Client(make_server(runtime), mode=era) as client:
            assert (await ask(client, "dsh_host_status"))["availability"] == "host_unreachable"
            error = await refused(client, "dsh_delegate", prompt="x", cwd=str(workspace))
            assert (error["code"], error["promptSent"]) == ("host_unreachable", False)
            assert (await ask(client, "dsh_list"))["tasks"] == []
    finally:
        await runtime.host.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("era", ERAS)
async def test_a_host_that_answers_401_to_everything_needs_a_login(
    front_env: dict[str, str], front: Front, workspace: Path, era: str
) -> None:
    front.become("401")
    runtime = open_runtime(front_env)
    try:
        async with Client(make_server(runtime), mode=era) as client:
            for _ in range(2):
                assert (await ask(client, "dsh_host_status"))["availability"] == "login_required"
                error = await refused(client, "dsh_delegate", prompt="x", cwd=str(workspace))
                assert (error["code"], error["promptSent"]) == ("login_required", False)
    finally:
        await runtime.host.aclose()  # type: ignore[attr-defined]
    assert front.exchanges == 1


OLD_DSH = os.environ.get("AGENTLINK_OLD_DSH")
WITHOUT_TITLES = "- id: session-title-llm\n  disabled: true\n"


@pytest.mark.skipif(OLD_DSH is None, reason="AGENTLINK_OLD_DSH names no dsh of deepseek-harness-runtime-bin 0.1.5rc1")
@requirement("FR-03")
async def test_a_host_whose_roster_cannot_be_read_is_neither_down_nor_without_presets(
    bare_env: dict[str, str], real_lab: Lab
) -> None:
    root = real_lab.directory / "old"
    try:
        old = LabHost.start(root, model=real_lab.model, runtime=OLD_DSH, patch=WITHOUT_TITLES, presets=())
    except LabBroken as error:
        pytest.skip(f"that dsh does not start here: {error.what}")
    with old:
        runtime = open_runtime(bare_env | {"AGENTLINK_HOST_URL": old.launch_url})
        try:
            async with Client(make_server(runtime)) as client:
                status = await ask(client, "dsh_host_status")
                # Its roster read fails, and it lacks the exact state of a session: it cannot be used, and says why.
                assert status["availability"] == status["failure"]["code"] == "host_unsupported"
                assert "session/projections" in status["failure"]["message"]
                for preset in ({}, {"agentPreset": "minimal"}):
                    error = await refused(client, "dsh_delegate", prompt="x", cwd=str(old.workspace), **preset)
                    assert (error["code"], error["promptSent"]) == ("host_unsupported", False)
                assert (await ask(client, "dsh_list"))["tasks"] == []
                with pytest.raises(Refused) as roster:
                    await runtime.host.roster()
                assert (roster.value.code, roster.value.final) == ("gateway/internal", False)
        finally:
            await runtime.host.aclose()  # type: ignore[attr-defined]
