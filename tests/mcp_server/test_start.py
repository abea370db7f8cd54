"""F15: the server answers at once with the Host down and whatever the journal's size, and works when the Host comes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentlink.lab import Lab
from tests.bench import synthetic
from tests.cli.program import agentlink
from tests.lab.client import until
from tests.mcp_server.wire import RawServer


def _starts_and_works_later(env: dict[str, str], lab: Lab, workspace: Path, *, known: str | None) -> dict[str, float]:
    took: dict[str, float] = {}
    down = env | {"AGENTLINK_HOST_URL": lab.host.launch_url}
    assert agentlink("doctor", "--json", env=down).json["checks"]
    lab.host.terminate()
    try:
        began = time.perf_counter()
        with RawServer(down) as server:
            server.initialize()
            took["initialize"] = time.perf_counter() - began
            names = {tool["name"] for tool in server.call("tools/list")["tools"]}
            took["tools/list"] = time.perf_counter() - began
            assert "dsh_delegate" in names
            failure = server.tool("dsh_delegate", prompt="x", cwd=str(workspace), agentPreset="minimal")["error"]
            assert failure["code"] == "host_unreachable"
            assert "dsh web" in failure["next"]
            if known is not None:
                assert server.tool("dsh_status", taskId=known)["taskId"] == known
                took["status of an old task"] = time.perf_counter() - began
            lab.host.restart()
            # The login of before holds although the printed address is another one now.
            assert server.tool("dsh_host_status")["availability"] == "connected"
            answer = server.tool("dsh_delegate", prompt="x", cwd=str(workspace), agentPreset="minimal")
            assert answer["launch"]["promptSent"] is True
    finally:
        if not _answers(lab):
            lab.host.restart()
    return took


def _answers(lab: Lab) -> bool:
    import httpx

    try:
        return httpx.get(lab.host.origin, trust_env=False).status_code == 401
    except httpx.TransportError:
        return False


@pytest.mark.host
def test_f15_a_server_starts_with_the_host_down_and_works_when_it_is_up(
    host_env: dict[str, str], real_lab: Lab, workspace: Path
) -> None:
    _starts_and_works_later(host_env, real_lab, workspace, known=None)


@pytest.mark.host
def test_a_server_settles_what_earlier_processes_left_without_being_asked(
    host_env: dict[str, str], home: Path, workspace: Path
) -> None:
    child = [sys.executable, "-m", "tests.app.child", "line:3", str(workspace), "left behind"]
    left = subprocess.run(child, env={**host_env, "PYTHONPATH": str(Path.cwd())}, check=False)
    assert left.returncode == -9
    journal = home / "journal" / "000001.jsonl"
    assert b"launch/failed" not in journal.read_bytes()
    with RawServer(host_env) as server:
        server.initialize()
        until(lambda: True if b'"launch/failed","code":"interrupted"' in journal.read_bytes() else None, timeout_s=20)


def test_f15_a_journal_that_cannot_be_read_is_an_error_and_never_no_tasks(bare_env: dict[str, str], home: Path) -> None:
    (home / "journal").mkdir(parents=True)
    (home / "journal" / "000001.jsonl").write_bytes(b"this is no journal\n")
    with RawServer(bare_env) as server:
        server.initialize()
        assert server.tool("dsh_list")["error"]["code"] == "journal_corrupt"


@pytest.mark.host
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_f15_a_server_starts_at_once_on_a_journal_of_100000_launches(
    host_env: dict[str, str], home: Path, real_lab: Lab, workspace: Path
) -> None:
    written = synthetic.write_journal(home, tasks=100_000)
    assert written.bytes > 50 << 20
    took = _starts_and_works_later(host_env, real_lab, workspace, known=str(synthetic.numbered_task(5)))
    print({name: f"{seconds:.2f} s" for name, seconds in took.items()}, f"{written.bytes >> 20} MB")
