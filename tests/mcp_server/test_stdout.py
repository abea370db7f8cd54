"""F7: nothing but protocol on stdout, whatever the environment is and whoever prints."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.cli.program import agentlink
from tests.lab.client import until
from tests.mcp_server.wire import RawServer

NOISE = """
import atexit, builtins, os, sys, threading, warnings

print("✓ noise at import" if sys.stdout.encoding == "utf-8" else "noise at import")
warnings.warn("a warning at import")
atexit.register(lambda: print("noise at exit", flush=True))

class Loud:
    '''Prints at every import, those during serving included, to sys.stdout and to descriptor 1.'''
    def find_spec(self, name, path=None, target=None):
        if "agentlink.mcp_server.server" in sys.modules:
            print("importing", name, end="\\r\\n")
            print("importing", name, flush=True)
            os.write(1, b"\\xff\\xfe raw\\r\\n")
        return None

sys.meta_path.insert(0, Loud())
"""
LOUD_CWD = """
import logging
logging.basicConfig(level=logging.DEBUG)
"""


@pytest.fixture
def noisy_env(host_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NOISE + LOUD_CWD, encoding="utf-8")
    return host_env | {
        "LC_ALL": "C",
        "LANG": "C",
        "PYTHONIOENCODING": "latin-1",
        "PYTHONWARNINGS": "default",
        "PYTHONDEVMODE": "1",
        "PYTHONPATH": str(site),
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }


def assert_only_protocol(out: bytes) -> None:
    assert out.endswith(b"\n")
    assert b"\r" not in out
    for line in out[:-1].split(b"\n"):
        message = json.loads(line.decode("utf-8"))
        assert message["jsonrpc"] == "2.0"


@pytest.mark.host
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_f07_stdout_carries_protocol_alone_while_everything_prints(
    noisy_env: dict[str, str], workspace: Path, unbuffered: str
) -> None:
    # Unbuffered output of sitecustomize itself comes before any line of ours; only its later noise is ours to divert.
    if unbuffered:
        site = Path(noisy_env["PYTHONPATH"], "sitecustomize.py")
        site.write_text("\n".join(line for line in site.read_text().splitlines() if "at import" not in line))
    with RawServer(noisy_env | {"PYTHONUNBUFFERED": unbuffered}) as server:
        assert server.initialize()["serverInfo"]["name"] == "agentlink"
        assert server.call("tools/list")["tools"]
        prompt = "[[say: ✓ 完成\r\n\u2028end]]"
        given = server.tool("dsh_delegate", prompt=prompt, cwd=str(workspace), agentPreset="minimal")

        def end() -> dict[str, object] | None:
            status = server.tool("dsh_status", taskId=given["taskId"])
            return status if status.get("finalMessage") else None

        assert "✓ 完成" in str(until(end)["finalMessage"])
        server.end_stdin()
        assert server.wait() == 0
        assert_only_protocol(server.out)
        assert "✓ 完成".encode() in server.out
        assert "importing" in server.errors
        assert "noise at exit" in server.errors


def test_f07_noise_before_the_server_starts_goes_to_stderr(noisy_env: dict[str, str]) -> None:
    with RawServer(noisy_env) as server:
        server.initialize()
        server.end_stdin()
        assert server.wait() == 0
        assert_only_protocol(server.out)
        assert "noise at import" in server.errors


def test_f07_a_server_that_is_never_spoken_to_says_nothing(noisy_env: dict[str, str]) -> None:
    with RawServer(noisy_env) as server:
        server.end_stdin()
        assert server.wait() == 0
        assert server.out == b""


def test_f07_lines_that_are_no_messages_are_answered_in_protocol_or_passed_over(bare_env: dict[str, str]) -> None:
    with RawServer(bare_env) as server:
        server.initialize()
        assert server.process.stdin is not None
        for junk in (b"\n", b"hello\n", b"{\n", b"\xff\xfe\n", b"[]\n", b'{"jsonrpc":"2.0"}\n', b"null\r\n"):
            server.process.stdin.write(junk)
        server.process.stdin.flush()
        assert server.tool("dsh_list") == {"tasks": []}
        server.end_stdin()
        assert server.wait() == 0
        assert_only_protocol(server.out)


def test_f07_the_json_of_the_command_line_is_alone_on_stdout_too(noisy_env: dict[str, str], tmp_path: Path) -> None:
    # sitecustomize's own print is the person's own doing here; only what Agentlink adds is under test.
    Path(noisy_env["PYTHONPATH"], "sitecustomize.py").write_text(LOUD_CWD)
    done = agentlink("list", "--json", env=noisy_env)
    assert (done.status, msgspec.json.decode(done.out)) == (0, {"tasks": []})
