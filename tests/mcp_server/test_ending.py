"""F9a: the server ends with its caller, at once and cleanly, and the journal tells the truth afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from agentlink.lab import Lab
from tests.cli.program import agentlink
from tests.lab.client import is_gone, until
from tests.mcp_server.wire import SERVE, RawServer
from tests.requirements import requirement

pytestmark = pytest.mark.host


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stages(home: Path) -> list[str]:
    """Every fact in the journal, in order."""
    journal = home / "journal" / "000001.jsonl"
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    return [fact["type"] for line in lines for fact in msgspec.json.decode(line).get("facts", [])]


@contextmanager
def paused(lab: Lab) -> Iterator[None]:
    lab.host.pause()
    try:
        yield
    finally:
        lab.host.resume()


def assert_journal_is_free(env: dict[str, str], workspace: Path) -> None:
    """Another process can append at once: a delegation whose launch fails before anything is on the Host."""
    other = workspace.with_name(f"{workspace.name}-free")
    other.mkdir(exist_ok=True)
    done = agentlink("delegate", "x", "--cwd", str(other), "--preset", "nobody", "--json", env=env)
    assert done.code == "preset_not_found"


def ready(server: RawServer) -> None:
    server.initialize()
    assert server.tool("dsh_host_status")["availability"] == "connected"


def test_f09a_an_idle_server_ends_when_stdin_closes(host_env: dict[str, str], workspace: Path) -> None:
    with RawServer(host_env) as server:
        ready(server)
        assert children(server.process.pid) == []
        server.end_stdin()
        assert server.wait() == 0
        assert server.errors == ""
    assert_journal_is_free(host_env, workspace)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_f09a_an_idle_server_ends_on_a_signal_while_stdin_stays_open(
    bare_env: dict[str, str], number: signal.Signals
) -> None:
    with RawServer(bare_env) as server:
        server.initialize()
        assert server.tool("dsh_list") == {"tasks": []}
        server.process.send_signal(number)
        assert server.wait() == -number
        assert server.errors == ""


@pytest.mark.parametrize("how", ["stdin closes", "SIGTERM", "SIGINT"])
def test_f09a_a_server_with_a_call_in_flight_ends_at_once(host_env: dict[str, str], real_lab: Lab, how: str) -> None:
    with RawServer(host_env) as server:
        ready(server)
        with paused(real_lab):
            server.ask("dsh_host_status")
            server.ask("dsh_delegate", prompt="never", cwd="/")
            if how == "stdin closes":
                server.end_stdin()
                assert server.wait() == 0
            else:
                server.process.send_signal(signal.Signals[how])
                assert server.wait() == -signal.Signals[how]
        assert "Traceback" not in server.errors


@pytest.mark.parametrize("how", ["stdin closes", "SIGTERM", "SIGKILL"])
@requirement("FR-13")
def test_f09a_a_launch_in_flight_is_left_to_recovery_and_settled_truthfully(
    host_env: dict[str, str], home: Path, workspace: Path, real_lab: Lab, how: str
) -> None:
    word = f"in-flight-{os.urandom(4).hex()}"
    with RawServer(host_env) as server:
        ready(server)
        # The Host stops between the first read and the create: the create goes out and is never answered in time.
        pause_at = _pause_when_selected(server, host_env, home, workspace, real_lab, word)
        try:
            if how == "stdin closes":
                server.end_stdin()
                assert server.wait() == 0
            else:
                server.process.send_signal(signal.Signals[how])
                assert server.wait() == -signal.Signals[how]
            assert "Traceback" not in server.errors
        finally:
            real_lab.host.resume()
    assert pause_at in ("launch/requested", "launch/selected", "launch/session-created", "launch/preset-verified",
                        "launch/claimed", "launch/prompt-sent")  # fmt: skip
    task = msgspec.json.decode((home / "journal" / "000001.jsonl").read_bytes().splitlines()[0])["task"]

    def settled() -> dict[str, object] | None:
        status = agentlink("status", task, "--json", env=host_env).json
        launch = status["launch"]
        return status if launch.get("confirmed") or launch["stage"] == "launch-failed" else None

    status = until(settled, timeout_s=20)
    launch = status["launch"]
    assert isinstance(launch, dict)
    sent = real_lab.model.runs(word)
    assert sent <= 1
    assert launch["promptSent"] is (sent == 1)
    if not sent:
        assert status["failure"]["code"] == "interrupted"  # type: ignore[index]
    assert_journal_is_free(host_env, workspace)


def _pause_when_selected(
    server: RawServer, env: dict[str, str], home: Path, workspace: Path, lab: Lab, word: str
) -> str:
    """Delegates and stops the Host as soon as the journal shows the intent; the last fact then."""
    server.ask("dsh_delegate", prompt=word, cwd=str(workspace), agentPreset="minimal")
    until(lambda: True if "launch/selected" in stages(home) else None)
    lab.host.pause()
    return stages(home)[-1]


@pytest.mark.parametrize("how", ["stdin closes", "SIGTERM"])
@requirement("FR-13")
def test_f09a_a_wait_in_flight_ends_with_the_server_and_the_task_runs_on(
    host_env: dict[str, str], workspace: Path, real_lab: Lab, how: str
) -> None:
    with RawServer(host_env) as server:
        ready(server)
        given = server.tool("dsh_delegate", prompt="[[slow: 3 still here]]", cwd=str(workspace), agentPreset="minimal")
        server.ask("dsh_wait", taskIds=[given["taskId"]])
        until(lambda: True if connections(server.process.pid, real_lab.host.port) > 1 else None)
        if how == "stdin closes":
            server.end_stdin()
            assert server.wait() == 0
        else:
            server.process.send_signal(signal.Signals[how])
            assert server.wait() == -signal.Signals[how]
        assert server.errors == ""
    done = agentlink("wait", given["taskId"], "--json", env=host_env)
    assert done.json["execution"] == "turn_completed"
    assert done.json["finalMessage"] == "still here"
    assert stages(Path(host_env["AGENTLINK_HOME"]))[-1] in ("launch/prompt-sent", "launch/prompt-confirmed")


def connections(pid: int, port: int) -> int:
    """How many connections the process has to that port."""
    inodes = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists() or link.is_symlink()}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in inodes for row in rows)


def test_f09a_the_server_ends_when_its_caller_is_killed(host_env: dict[str, str], tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "pipe = subprocess.PIPE\n"
        f"server = subprocess.Popen({SERVE!r}, stdin=pipe, stdout=pipe, stderr=open(sys.argv[1], 'wb'))\n"
        'message = b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\'\n'
        "server.stdin.write(message); server.stdin.flush(); server.stdout.readline()\n"
        "print(server.pid, flush=True)\n"
        "for _ in range(200): server.stdin.write(message)\n"
        "server.stdin.flush(); time.sleep(60)\n"
    )
    errors = tmp_path / "errors"
    caller = subprocess.Popen([sys.executable, "-c", program, str(errors)], env=host_env, stdout=subprocess.PIPE)
    assert caller.stdout is not None
    with caller.stdout:
        pid = int(caller.stdout.readline())
    caller.kill()
    caller.wait(10)
    until(lambda: True if is_gone(pid) else None, timeout_s=5)
    assert b"Traceback" not in errors.read_bytes()


def test_f09a_a_caller_that_reads_no_more_ends_the_server_quietly(host_env: dict[str, str]) -> None:
    server = subprocess.Popen(
        SERVE, env=host_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None  # noqa: PT018
        server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        server.stdin.flush()
        server.stdout.readline()
        server.stdout.close()
        server.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        server.stdin.flush()
        assert server.wait(5) == 0
        assert server.stderr.read() == b""
