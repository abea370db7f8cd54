"""F26: readers that stop, terminals that cannot show every character, and Ctrl+C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from agentlink.lab import Lab
from tests.cli.program import PROGRAM, agentlink, start
from tests.lab.client import until

pytestmark = [pytest.mark.host, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


@pytest.fixture(scope="module")
def full_home(real_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a few failed launches, which no test here adds to."""
    home = tmp_path_factory.mktemp("full") / "state"
    env = {**os.environ, "AGENTLINK_HOME": str(home), "AGENTLINK_HOST_URL": real_lab.host.launch_url}
    for number in range(3):
        place = ["--cwd", str(real_lab.host.workspace), "--preset", f"none-{number}"]
        assert agentlink("delegate", "x", *place, "--json", env=env).code == "preset_not_found"
    return home


@pytest.fixture
def full_env(host_env: dict[str, str], full_home: Path) -> dict[str, str]:
    return host_env | {"AGENTLINK_HOME": str(full_home)}


def shell(line: str, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", line, "bash", *words], env=env, capture_output=True, timeout=30, check=False)


def piped(words: list[str], *, env: dict[str, str], both: bool) -> tuple[int, bytes]:
    """The command's status and whatever reached its stderr, its stdout's reader having gone before the first byte."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [*PROGRAM, *words],
            env=env,
            stdout=gone,
            stderr=gone if both else subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    return done.returncode, done.stderr or b""


@pytest.mark.parametrize("redirect", ["", pytest.param("2>&1", marks=pytest.mark.soak)])
@pytest.mark.parametrize("words", [["journal", "show"], ["list"], ["statechart", "export"]], ids=" ".join)
def test_f26_a_reader_that_takes_one_line_sees_no_traceback(
    full_env: dict[str, str], words: list[str], redirect: str
) -> None:
    done = shell(f'"$@" {redirect} | head -1', *PROGRAM, *words, env=full_env)
    assert done.stderr == b""
    assert b"Traceback" not in done.stdout
    assert done.stdout.count(b"\n") <= 1


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "words",
    [
        ["journal", "show"],
        ["list"],
        ["list", "--json"],
        ["status", "dsh_0123456789ab", "--json"],
        ["status", "dsh_0123456789ab"],
        ["status", "--json"],
        ["status"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_f26_a_reader_that_has_gone_is_no_traceback_and_no_failure_of_a_task(
    full_env: dict[str, str], full_home: Path, words: list[str], both: bool
) -> None:
    before = (full_home / "journal" / "000001.jsonl").read_bytes()
    status, errors = piped(words, env=full_env, both=both)
    assert b"Traceback" not in errors
    assert b"Exception ignored" not in errors
    assert status in (0, 1, 2, 141)
    assert (full_home / "journal" / "000001.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=str,
)
def test_f26_any_text_is_shown_in_any_terminal(
    host_env: dict[str, str], workspace: Path, tmp_path: Path, locale: dict[str, str]
) -> None:
    env = host_env | locale
    prompt = tmp_path / "prompt"
    prompt.write_text("[[say: ✓ 测试 \u202e]]", encoding="utf-8")
    place = ["--cwd", str(workspace), "--preset", "minimal"]
    done = agentlink("delegate", "--prompt-file", str(prompt), *place, "--wait", env=env)
    assert done.status == 0
    (row,) = agentlink("list", "--json", env=env).json["tasks"]
    plain = agentlink("status", row["taskId"], env=env)
    assert plain.status == 0
    assert b"turn_completed" in plain.out
    document = agentlink("status", row["taskId"], "--json", env=env)
    assert json.loads(document.out.decode("utf-8"))["finalMessage"] == "✓ 测试 \u202e"
    assert agentlink("status", "✓ 测试", env=env).status == 1


def test_f26_json_output_passes_a_json_checker(full_env: dict[str, str]) -> None:
    for words in (["list"], ["journal", "show"], ["doctor"], ["status", "nothing"], ["nothing"]):
        line = f'"$@" --json | "{sys.executable}" -m json.tool'
        assert shell(line, *PROGRAM, *words, env=full_env).returncode == 0


def tasks(env: dict[str, str]) -> list[dict[str, object]]:
    return list(agentlink("list", "--json", env=env).json["tasks"])


def ended(env: dict[str, str], task: str) -> dict[str, object]:
    def look() -> dict[str, object] | None:
        status = agentlink("status", task, "--json", env=env).json
        settled = status["launch"].get("confirmed") or status["launch"]["stage"] == "launch-failed"
        return status if settled and status["execution"] not in ("queued", "running", "unknown") else None

    return until(look, timeout_s=20)


def test_f26_ctrl_c_ends_the_wait_and_not_the_task(host_env: dict[str, str], workspace: Path, real_lab: Lab) -> None:
    word = f"ctrl-c-{os.urandom(4).hex()}"
    words = ["delegate", f"{word} [[slow: 2 to the end]]", "--cwd", str(workspace), "--preset", "minimal", "--wait"]
    with start(words, env=host_env) as process:
        until(lambda: real_lab.model.runs(word) or None)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    (row,) = tasks(host_env)
    status = ended(host_env, str(row["taskId"]))
    assert (status["execution"], status["finalMessage"]) == ("turn_completed", "to the end")
    assert real_lab.model.runs(word) == 1


def test_f26_ctrl_c_during_the_launch_lets_it_reach_its_final_fact(
    host_env: dict[str, str], home: Path, workspace: Path, real_lab: Lab
) -> None:
    word = f"ctrl-c-{os.urandom(4).hex()}"
    journal = home / "journal" / "000001.jsonl"
    agentlink("doctor", "--json", env=host_env)  # logged in
    words = ["delegate", word, "--cwd", str(workspace), "--preset", "minimal", "--json"]

    def selected() -> bool | None:
        return True if journal.exists() and b"launch/selected" in journal.read_bytes() else None

    with start(words, env=host_env) as process:
        until(selected)
        real_lab.host.pause()
        try:
            process.send_signal(signal.SIGINT)
        finally:
            real_lab.host.resume()
        out, err = process.communicate(timeout=20)
    assert b"Traceback" not in err
    assert process.returncode == 130 or (process.returncode, msgspec.json.decode(out)["launch"]["stage"]) == (
        0,
        "prompt-sent",
    )
    # The journal ends with the launch's own fact before anybody settles anything.
    facts = [fact["type"] for line in journal.read_bytes().splitlines() for fact in msgspec.json.decode(line)["facts"]]
    assert facts[-1] in ("launch/prompt-sent", "launch/failed", "launch/prompt-confirmed")
    status = ended(host_env, str(tasks(host_env)[0]["taskId"]))
    launch = status["launch"]
    assert isinstance(launch, dict)
    assert real_lab.model.runs(word) == int(launch["promptSent"])


def test_f26_ctrl_c_before_anything_is_made_leaves_no_session(
    host_env: dict[str, str], workspace: Path, real_lab: Lab
) -> None:
    word = f"ctrl-c-{os.urandom(4).hex()}"
    agentlink("doctor", "--json", env=host_env)
    real_lab.host.pause()
    try:
        with start(["delegate", word, "--cwd", str(workspace), "--json"], env=host_env) as process:
            # The first read waits at the paused Host; its connection is the sign that the command has got there.
            until(lambda: True if _connected(process.pid, real_lab.host.port) else None)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=10)
    finally:
        real_lab.host.resume()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert tasks(host_env) == []
    assert real_lab.model.runs(word) == 0


def _connected(pid: int, port: int) -> bool:
    """Whether the process has a connection to that port (Linux)."""
    remote = f"0100007F:{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[2] == remote}
    try:
        return any(os.readlink(fd) in inodes for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
