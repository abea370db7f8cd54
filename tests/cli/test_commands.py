"""Every command: one JSON document on stdout, exit statuses that tell the cases apart, and prompts byte for byte."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlink.cli.main import run
from agentlink.lab import Lab
from tests.cli.program import Finished, agentlink
from tests.lab.client import HostClient

ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = "dsh_0123456789ab"


def delegated(env: dict[str, str], cwd: Path, *words: str, prompt: str = "hi", given: bytes = b"") -> Finished:
    return agentlink(
        "delegate", prompt, "--cwd", str(cwd), "--preset", "minimal", "--json", *words, env=env, given=given
    )


# -- without a Host


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["list"], 0, None),
        (["list", "--limit", "0"], 1, "invalid_request"),
        (["list", "--limit", "201"], 1, "invalid_request"),
        (["list", "--limit", "x"], 2, "invalid_request"),
        (["list", "--state", "odd"], 2, "invalid_request"),
        (["list", "--before", UNKNOWN], 1, "task_not_found"),
        (["list", "--before", "x"], 1, "invalid_request"),
        (["list", "extra"], 2, "invalid_request"),
        (["status", UNKNOWN], 1, "task_not_found"),
        (["status", "x"], 1, "invalid_request"),
        (["status"], 2, "invalid_request"),
        (["release", UNKNOWN], 1, "task_not_found"),
        (["release", "--forc", UNKNOWN], 2, "invalid_request"),
        (["recover"], 0, None),
        (["recover", UNKNOWN, "--abandon"], 1, "task_not_found"),
        (["doctor"], 1, None),
        (["journal", "verify"], 0, None),
        (["journal", "show"], 0, None),
        (["journal", "show", "--task", UNKNOWN], 0, None),
        (["journal", "show", "--task", "x"], 1, "invalid_request"),
        (["journal", "show", "--last", "0"], 2, "invalid_request"),
        (["journal", "nothing"], 2, "invalid_request"),
        (["journal"], 2, "invalid_request"),
        (["statechart", "export"], 0, None),
        (["statechart", "export", "--check"], 2, "invalid_request"),
        (["statechart", "export", "--format", "png"], 2, "invalid_request"),
        (["statechart", "export", "--task", UNKNOWN], 1, "task_not_found"),
        (["statechart", "export", "--out", "/proc/nowhere/at/all"], 1, "invalid_request"),
        (["login"], 1, "invalid_request"),
        (["login", "http://127.0.0.1:9/"], 1, "invalid_request"),
        (["login", "nonsense"], 1, "invalid_request"),
        (["login", "http://example.org/?token=t"], 1, "invalid_request"),
        (["login", "http://127.0.0.1:9/?token=t"], 1, "host_unreachable"),
        (["delegate"], 2, "invalid_request"),
        (["delegate", "x"], 2, "invalid_request"),
        (["delegate", "x", "--cwd", "/", "--prompt-file", "/x"], 2, "invalid_request"),
        (["delegate", "x", "--cwd", "/", "--workspace-mode", "odd"], 2, "invalid_request"),
        (["delegate", "x", "--cwd", "/", "--model", "m"], 2, "invalid_request"),
        (["delegate", "x", "--cwd", "/no/such/place"], 1, "cwd_not_found"),
        (["delegate", "--prompt-file", "/no/such/file", "--cwd", "/"], 1, "invalid_request"),
        (["delegate", "", "--cwd", "/"], 1, "invalid_request"),
        (["delegate", "x", "--cwd", "/"], 1, "host_unreachable"),
        (["delegate", "x", "--cwd", "/", "--wait"], 1, "host_unreachable"),
        (["nothing"], 2, "invalid_request"),
        ([], 2, "invalid_request"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_json_is_one_document_on_stdout_and_the_status_tells_the_case(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    words: list[str],
    status: int,
    code: str | None,
) -> None:
    # In this process, for speed; a process closes its sockets by ending.
    monkeypatch.setenv("AGENTLINK_HOME", str(home))
    monkeypatch.setenv("AGENTLINK_HOST_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    done = Finished(run([*words, "--json"], serve=lambda: None), *capfdbinary.readouterr())
    document = done.json
    assert done.out.count(b"\n") == 1
    assert done.err == b""
    assert (done.status, document.get("error", {}).get("code")) == (status, code)
    if code is not None:
        # Of a task that is not known, nothing is known either.
        assert document["error"]["promptSent"] is (None if code == "task_not_found" else False)
        assert document["error"]["next"]


@pytest.mark.parametrize("words", [["list", "--limit", "0"], ["status", UNKNOWN], ["delegate", "x", "--cwd", "/"]])
def test_for_people_a_failure_is_on_stderr_with_its_code(bare_env: dict[str, str], words: list[str]) -> None:
    done = agentlink(*words, env=bare_env | {"AGENTLINK_HOST_URL": "http://127.0.0.1:9"})
    assert (done.status, done.out) == (1, b"")
    assert b"error: " in done.err
    assert b"next: " in done.err


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["delegate", "--help"], ["journal", "--help"]])
def test_help_and_version_need_no_home(tmp_path: Path, words: list[str]) -> None:
    done = agentlink(*words, env={"PATH": "/bin", "AGENTLINK_HOME": "relative"})
    assert (done.status, done.err) == (0, b"")
    assert done.out


def test_a_directory_that_is_gone_is_no_traceback(bare_env: dict[str, str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    words = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh"]
    for rest, code in ((["list"], None), (["delegate", "x", "--cwd", "."], "invalid_request")):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            [*words, sys.executable, "-P", "-m", "agentlink", *rest, "--json"],
            cwd=gone,
            env=bare_env,
            capture_output=True,
            check=False,
        )
        found = Finished(done.returncode, done.stdout, done.stderr)
        assert found.json.get("error", {}).get("code") == code


def test_a_home_that_is_a_file_is_named(bare_env: dict[str, str], home: Path) -> None:
    home.write_text("")
    for words in (["list"], ["journal", "verify"], ["delegate", "x", "--cwd", "/", "--request-key", "k"]):
        done = agentlink(*words, "--json", env=bare_env | {"AGENTLINK_HOST_URL": "http://127.0.0.1:9"})
        assert done.status == 1
        assert done.code in ("journal_unwritable", "invalid_request")
        assert str(home) in done.out.decode()


# -- doctor


def checks(done: Finished) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in done.json["checks"]}


def test_doctor_with_nothing_configured_says_where_each_setting_came_from(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/bin:/usr/bin"}
    done = agentlink("doctor", "--json", env=env)
    found = checks(done)
    assert found["setting host"]["found"] == "http://127.0.0.1:3080 (from built-in default)"
    assert (found["home"]["verdict"], found["journal"]["verdict"]) == ("ok", "ok")
    assert list(tmp_path.iterdir()) == []  # it changes nothing
    assert done.status == (1 if found["Host"]["verdict"] == "failed" else 0)


@pytest.mark.host
def test_doctor_with_everything_in_order(host_env: dict[str, str], real_lab: Lab) -> None:
    done = agentlink("doctor", "--json", env=host_env)
    found = checks(done)
    assert (done.status, done.json["verdict"]) == (0, "warning")  # one preset of the lab is broken
    assert (found["Host"]["verdict"], found["wire"]["found"], found["login"]["found"]) == ("ok", "remote", "accepted")
    assert "broken-one" in found["presets"]["found"]
    assert found["setting host"]["found"] == f"{real_lab.host.origin} (from environment AGENTLINK_HOST_URL)"


def test_doctor_with_the_host_down_says_how_to_start_it(bare_env: dict[str, str]) -> None:
    done = agentlink("doctor", "--json", env=bare_env | {"AGENTLINK_HOST_URL": "http://127.0.0.1:9"})
    host = checks(done)["Host"]
    assert (done.status, host["verdict"]) == (1, "failed")
    assert "host_unreachable" in host["found"]
    assert "dsh web" in host["next"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"[hosts.default\n", "line 1"),
        (b"[hosts.default]\norigin = 5\n", "origin"),
        (b"[hosts.default]\norigni = 'http://127.0.0.1:1'\n", "origni"),
        (b"host = 'x'\n", "host"),
        (b"[hosts.default]\norigin = 'http://127.0.0.1:1/api'\n", "no path"),
        (b"[hosts.default]\norigin = 'http://example.org'\n", "allow_remote"),
        (b"\xff\xfe[\x00", ""),
    ],
)
def test_doctor_names_the_file_and_the_problem_of_a_broken_config(
    bare_env: dict[str, str], home: Path, text: bytes, names: str
) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_bytes(text)
    done = agentlink("doctor", "--json", env=bare_env)
    settings = checks(done)["settings"]
    assert (done.status, settings["verdict"]) == (1, "failed")
    assert str(home / "config.toml") in settings["found"]
    assert names in settings["found"]
    for words in (["list"], ["delegate", "x", "--cwd", "/"], ["status", UNKNOWN]):
        other = agentlink(*words, "--json", env=bare_env)
        assert (other.status, other.code) == (1, "invalid_request")
    assert (home / "config.toml").read_bytes() == text


@pytest.mark.host
def test_a_damaged_journal_is_named_and_stops_writing_not_reading(
    host_env: dict[str, str], home: Path, workspace: Path
) -> None:
    mine, other = workspace / "mine", workspace / "other"
    mine.mkdir()
    other.mkdir()
    first = delegated(host_env, mine).json["taskId"]
    journal = home / "journal" / "000001.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"launch", b"laumch", 1)]))
    verify = agentlink("journal", "verify", "--json", env=host_env)
    assert (verify.status, verify.json["code"], verify.json["lines"]) == (1, "journal_corrupt", len(lines) - 1)
    doctor = agentlink("doctor", "--json", env=host_env)
    assert (doctor.status, checks(doctor)["journal"]["verdict"]) == (1, "failed")
    refused = delegated(host_env, other)
    assert (refused.status, refused.code) == (1, "journal_corrupt")
    listed = agentlink("list", "--json", env=host_env)
    assert [row["taskId"] for row in listed.json["tasks"]] == [first]
    assert listed.json["warnings"]
    assert agentlink("status", UNKNOWN, "--json", env=host_env).code == "journal_corrupt"


@pytest.mark.host
def test_doctor_warns_of_a_home_that_others_may_read(host_env: dict[str, str], home: Path) -> None:
    agentlink("doctor", "--json", env=host_env)
    home.chmod(0o755)
    done = agentlink("doctor", "--json", env=host_env)
    assert checks(done)["home"]["verdict"] == "warning"
    assert "chmod 700" in checks(done)["home"]["next"]


# -- login


@pytest.mark.host
@pytest.mark.parametrize("words", [[], ["-"]])
def test_login_takes_the_address_from_stdin(
    host_env: dict[str, str], home: Path, real_lab: Lab, words: list[str]
) -> None:
    env = {name: value for name, value in host_env.items() if name != "AGENTLINK_HOST_URL"}
    address = f"  {real_lab.host.launch_url}\r\n".encode()
    done = agentlink("login", *words, "--json", given=address, env=env)
    assert (done.status, done.json["origin"]) == (0, real_lab.host.origin)
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600
    assert agentlink("doctor", env=env).status == 0


@pytest.mark.host
def test_login_keeps_what_the_config_holds(host_env: dict[str, str], home: Path, real_lab: Lab) -> None:
    home.mkdir(mode=0o700)
    mine = "# mine\n[hosts.default]   # the one\nallow_remote = false\norigin = 'http://127.0.0.1:1' # old\n"
    (home / "config.toml").write_text(mine)
    assert agentlink("login", real_lab.host.launch_url, "--json", env=host_env).status == 0
    text = (home / "config.toml").read_text()
    assert "# mine\n[hosts.default]   # the one\nallow_remote = false\n" in text
    assert real_lab.host.origin in text


@pytest.mark.host
def test_login_refuses_a_config_that_it_cannot_read_and_leaves_it(
    host_env: dict[str, str], home: Path, real_lab: Lab
) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[hosts\n")
    done = agentlink("login", real_lab.host.launch_url, "--json", env=host_env)
    assert (done.status, done.code) == (1, "invalid_request")
    assert (home / "config.toml").read_text() == "[hosts\n"


# -- delegate


@pytest.mark.host
@pytest.mark.parametrize("source", ["argument", "file", "stdin", "stdin named as a file"])
def test_the_prompt_arrives_byte_for_byte_from_everywhere(
    host_env: dict[str, str], workspace: Path, real_lab: Lab, tmp_path: Path, source: str
) -> None:
    prompt = "  first\r\n\tsecond ✓ 测试 🎉  \n\n"
    file = tmp_path / "prompt"
    file.write_bytes(prompt.encode())
    words, given = {
        "argument": ([prompt], b""),
        "file": (["--prompt-file", str(file)], b""),
        "stdin": (["-"], prompt.encode()),
        "stdin named as a file": (["--prompt-file", "-"], prompt.encode()),
    }[source]
    done = agentlink("delegate", *words, "--cwd", str(workspace), "--json", "--wait", env=host_env, given=given)
    assert (done.status, done.json["execution"]) == (0, "turn_completed")
    with HostClient(real_lab.host.origin, real_lab.host.launch_url) as client:
        events = [event["data"] for event in client.events(done.json["sessionId"]) if event["type"] == "user/message"]
    mine = [data.get("message", data) for data in events if data["source"]["kind"] == "user"]
    assert [message["content"] for message in mine] == [[{"type": "text", "text": prompt}]]


@pytest.mark.parametrize("source", ["argument", "file", "stdin"])
def test_a_prompt_that_is_no_utf8_is_refused(bare_env: dict[str, str], tmp_path: Path, source: str) -> None:
    raw = b"caf\xe9"
    file = tmp_path / "prompt"
    file.write_bytes(raw)
    words, given = {
        "argument": ([os.fsdecode(raw)], b""),
        "file": (["--prompt-file", str(file)], b""),
        "stdin": (["-"], raw),
    }[source]
    done = agentlink("delegate", *words, "--cwd", "/", "--json", env=bare_env, given=given)
    assert (done.status, done.code) == (1, "invalid_request")
    assert done.json["error"]["details"]["argument"] == "prompt"


@pytest.mark.host
def test_a_relative_directory_starts_where_the_command_was_given(host_env: dict[str, str], workspace: Path) -> None:
    (workspace / "below").mkdir()
    done = agentlink("delegate", "x", "--cwd", "below", "--preset", "nobody", "--json", env=host_env, cwd=workspace)
    assert done.code == "preset_not_found"
    (row,) = agentlink("list", "--json", env=host_env).json["tasks"]
    assert row["cwd"] == str(workspace / "below")


@pytest.mark.host
def test_release_and_status_for_people_and_as_json(host_env: dict[str, str], workspace: Path) -> None:
    done = agentlink(
        "delegate", "[[say: ✓ 测试]]", "--cwd", str(workspace), "--preset", "minimal", "--wait", env=host_env
    )
    assert (done.status, done.out) == (0, "✓ 测试\n".encode())
    assert b"task dsh_" in done.err
    (row,) = agentlink("list", "--json", env=host_env).json["tasks"]
    assert (row["stage"], row["preset"], row["claimHeld"], row.get("unfinished")) == (
        "prompt-sent",
        "minimal",
        True,
        None,
    )
    status = agentlink("status", row["taskId"], env=host_env)
    assert "✓ 测试".encode() in status.out
    assert b"\x1b" not in status.out
    released = agentlink("release", row["taskId"], "--json", env=host_env)
    assert (released.status, released.json["claim"]["held"]) == (0, False)
    again = agentlink("release", row["taskId"], "--json", env=host_env)
    assert (again.status, again.code, again.json["error"]["promptSent"]) == (1, "workspace_claim_missing", True)


@pytest.mark.host
def test_a_busy_task_is_released_only_by_force(host_env: dict[str, str], workspace: Path) -> None:
    task = delegated(host_env, workspace, prompt="[[hang]]").json["taskId"]
    busy = agentlink("release", task, "--json", env=host_env)
    assert (busy.status, busy.code) == (1, "task_busy")
    assert agentlink("release", task, "--force", "--json", env=host_env).status == 0


# -- lists, journal, charts


@pytest.mark.host
def test_list_pages_through_every_task_once_newest_first(host_env: dict[str, str], workspace: Path) -> None:
    for number in range(5):
        agentlink("delegate", "x", "--cwd", str(workspace), "--preset", f"nobody-{number}", "--json", env=host_env)
    seen: list[str] = []
    before: list[str] = []
    for _ in range(3):
        page = agentlink("list", "--limit", "2", *before, "--json", env=host_env).json
        seen += [row["preset"] for row in page["tasks"]]
        before = ["--before", page["next"]] if "next" in page else []
    assert seen == [f"nobody-{number}" for number in (4, 3, 2, 1, 0)]
    assert before == []
    for state, count in (("failed", 5), ("sent", 0), ("unfinished", 0), ("claimed", 0)):
        page = agentlink("list", "--state", state, "--json", env=host_env).json
        assert len(page["tasks"]) == count
    people = agentlink("list", "--limit", "2", env=host_env)
    assert people.out.count(b"preset_not_found") == 2
    assert b"--before" in people.out


@pytest.mark.host
def test_journal_and_chart_show_the_path_of_a_task(host_env: dict[str, str], home: Path, workspace: Path) -> None:
    task = delegated(host_env, workspace).json["taskId"]
    file = (home / "journal" / "000001.jsonl").read_bytes().splitlines()
    show = agentlink("journal", "show", "--task", task, env=host_env)
    assert show.out.splitlines() == file
    assert [line["task"] for line in agentlink("journal", "show", "--json", env=host_env).json["lines"]] == [task] * 6
    assert agentlink("journal", "show", "--last", "2", env=host_env).out.splitlines() == file[-2:]
    verify = agentlink("journal", "verify", "--json", env=host_env)
    assert (verify.status, verify.json["lines"], verify.json["tasks"]) == (0, len(file), 1)
    plain = agentlink("statechart", "export", env=host_env).out
    assert plain == (ROOT / "statecharts" / "launch.mmd").read_bytes()
    marked = agentlink("statechart", "export", "--task", task, env=host_env).out
    assert marked != plain
    assert marked == agentlink("statechart", "export", "--task", task, env=host_env).out


def test_the_exported_charts_are_those_in_the_repository_and_a_stale_one_is_found(
    bare_env: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "charts"
    done = agentlink("statechart", "export", "--out", str(out), "--json", env=bare_env)
    assert done.status == 0
    for name in done.json["files"]:
        assert (out / name).read_bytes() == (ROOT / "statecharts" / name).read_bytes()
    (out / "launch.md").write_text("old")
    (out / "launch.json").unlink()
    for kind, changed in (("mmd", []), ("md", ["launch.md"]), ("json", ["launch.json"])):
        words = ["statechart", "export", "--check", "--format", kind, "--out", str(out), "--json"]
        check = agentlink(*words, env=bare_env)
        assert (check.status, check.json["changed"]) == (len(changed), changed)
    assert (out / "launch.md").read_text() == "old"
    assert not (out / "launch.json").exists()


# -- waiting


@pytest.mark.host
@pytest.mark.parametrize(
    ("prompt", "preset", "status", "execution", "final"),
    [
        ("[[slow: 1.2 slow but sure]]", "minimal", 0, "turn_completed", "slow but sure"),
        ("[[error: 400]]", "minimal", 3, "failed", None),
        ("[[max-tokens: half]]", "minimal", 3, "turn_incomplete", "half"),
        (
            '[[tool: ask_user_question {"questions":[{"id":"q1","question":"Which?","header":"H","options":'
            '[{"label":"A","description":"a"},{"label":"B","description":"b"}],"multiSelect":false}]}]]',
            "standard",
            3,
            "awaiting_input",
            None,
        ),
    ],
    ids=["slow", "error", "max-tokens", "question"],
)
def test_wait_ends_with_the_turn_or_when_a_person_is_needed(
    host_env: dict[str, str], workspace: Path, prompt: str, preset: str, status: int, execution: str, final: str | None
) -> None:
    done = agentlink("delegate", prompt, "--cwd", str(workspace), "--preset", preset, "--wait", "--json", env=host_env)
    assert (done.status, done.json["execution"], done.json.get("finalMessage")) == (status, execution, final)
    assert done.json["launch"]["promptSent"] is True
