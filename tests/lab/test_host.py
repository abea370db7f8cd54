from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
import pytest

from agentlink.lab import Lab, LabBroken, LabHost, LabModel, LabNotInstalled, lab, write_changeable
from agentlink.lab.host import Places, find_runtime, host_environment
from tests.lab.client import HostClient, HostRefused, is_gone, until


def test_keys_proxies_and_host_settings_are_not_inherited(tmp_path: Path) -> None:
    mine = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "x",
        "https_proxy": "x",
        "DSH_WEB_URL": "x",
        "NODE_OPTIONS": "x",
    }
    env = host_environment(Places(tmp_path), inherited=mine, model_url="http://127.0.0.1:1/v1")
    assert set(env) == {
        "PATH",
        "LC_ALL",
        "HOME",
        "TMPDIR",
        "DSH_HOME",
        "DSH_TELEMETRY_MODE",
        "DEEPSEEK_BASE_URL",
        "DEEPSEEK_API_KEY",
    }


def test_a_missing_runtime_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabNotInstalled, match=r"pip install 'dsh-agentlink\[lab\]'"):
        find_runtime()


def test_a_host_that_ends_at_once_is_reported_with_its_words(tmp_path: Path, model: LabModel) -> None:
    runtime = tmp_path / "dsh"
    runtime.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    runtime.chmod(0o755)
    with pytest.raises(LabBroken, match="no such luck"):
        LabHost.start(tmp_path / "lab", model=model, runtime=str(runtime))


def test_extra_patches_come_before_the_flags_of_the_app(tmp_path: Path, model: LabModel) -> None:
    runtime = tmp_path / "dsh"
    runtime.write_text('#!/bin/sh\necho "$@" > args\necho "dsh web: http://127.0.0.1:9/?token=t"\nsleep 60\n')
    runtime.chmod(0o755)
    with LabHost.start(tmp_path / "lab", model=model, runtime=str(runtime), patch="[]") as host:
        words = (host.workspace / "args").read_text().split()
        assert words == ["web", "--patch", words[2], "--no-open", "--port", "0"]
        assert Path(words[2]).read_text() == "[]"
        assert (host.port, host.origin) == (9, "http://127.0.0.1:9")
        pid = host.pid
    assert is_gone(pid)


@pytest.mark.host
def test_a_prompt_is_answered_by_the_scripted_model_and_run_once(running: Lab, client: HostClient) -> None:
    assert client.login_status == 303
    session = client.run("once-7341 please\n[[say: grüße 世界 🎉]]")
    assert client.answers(session) == ["grüße 世界 🎉"]
    assert running.model.runs("once-7341") == 1
    assert client.answers(client.run("without a script")) == ["Done: without a script"]


@pytest.mark.host
@pytest.mark.parametrize("preset", ["standard", "minimal"])
def test_a_tool_is_called_and_the_turn_goes_on(running: Lab, client: HostClient, preset: str) -> None:
    marker = f"tool-{preset}-5512"
    prompt = marker + ' [[tool: bash {"command":"echo hi","description":"d"}]] [[say: finished]]'
    session = client.run(prompt, preset=preset)
    kinds = [event["type"] for event in client.events(session)]
    assert kinds.count("tool/call") == kinds.count("tool/result") == 1
    assert client.answers(session)[-1] == "finished"
    assert running.model.runs(marker) == 1


@pytest.mark.host
def test_a_follow_up_has_a_script_of_its_own(client: HostClient) -> None:
    session = client.run("[[say: one]]")
    client.prompt(session, "and then")
    client.wait_for_turn(session, turns=2)
    assert client.answers(session) == ["one", "Done: and then"]


@pytest.mark.host
def test_authored_presets_are_listed_and_the_broken_one_is_refused(client: HostClient) -> None:
    roster = client.roster()
    assert {"standard", "minimal", "team", "broken-one"} <= set(roster)
    assert "broken" not in roster["team"]
    assert "dsh-does-not-exist" in roster["broken-one"]["broken"]
    assert client.answers(client.run("[[say: as a team]]", preset="team")) == ["as a team"]
    with pytest.raises(HostRefused) as broken:
        client.create("broken-one")
    assert broken.value.code == "agent-preset/invalid"
    with pytest.raises(HostRefused) as unknown:
        client.create("nobody")
    assert unknown.value.code == "agent-preset/not-found"


@pytest.mark.soak
@pytest.mark.host
def test_a_preset_changes_under_a_running_host(running: Lab, client: HostClient) -> None:
    home = running.host.home
    try:
        write_changeable(home, "broken")
        until(lambda: client.roster().get("changeable", {}).get("broken"))
        write_changeable(home, "gone")
        until(lambda: True if "changeable" not in client.roster() else None)
        write_changeable(home, "renamed")
        until(lambda: True if client.roster().get("changeable", {}).get("name") == "Changed" else None)
        assert "broken" not in client.roster()["changeable"]
    finally:
        write_changeable(home, "good")


@pytest.mark.host
def test_a_model_error_ends_the_turn_and_a_passing_one_does_not(client: HostClient) -> None:
    session = client.create()
    client.prompt(session, "[[error: 400]]")
    assert client.wait_for_turn(session)["kind"] == "error"
    assert client.answers(client.run("[[error: 503]] [[say: recovered]]")) == ["recovered"]


@pytest.mark.host
def test_the_token_limit_ends_the_turn_as_such(client: HostClient) -> None:
    session = client.create()
    client.prompt(session, "[[max-tokens]]")
    assert client.wait_for_turn(session)["kind"] == "max-tokens"


@pytest.mark.host
def test_a_hanging_turn_is_cancelled_and_the_session_goes_on(running: Lab, client: HostClient) -> None:
    session = client.create()
    client.prompt(session, "[[hang]] stuck-9911")
    until(lambda: running.model.runs("stuck-9911") or None)
    client.call("session/cancel", request={"sessionId": session})
    assert client.wait_for_turn(session)["kind"] == "aborted"
    client.prompt(session, "go on")
    client.wait_for_turn(session, turns=2)
    assert client.answers(session)[-1] == "Done: go on"


@pytest.mark.host
def test_a_slow_answer_takes_its_time(client: HostClient) -> None:
    session = client.run("[[slow: 1.5 eins zwei drei]]")
    assert client.answers(session) == ["eins zwei drei"]
    times = {event["type"]: event["time"] for event in client.events(session)}
    assert times["turn/end"] - times["turn/start"] >= 1400


@pytest.mark.soak
@pytest.mark.host
def test_a_host_is_paused_killed_and_restarted_on_its_port_with_its_sessions() -> None:
    said: list[str] = []
    with lab(on_progress=said.append) as fresh:
        host = fresh.host
        assert said[0] == "starting the Host…"
        with HostClient(host.origin, host.launch_url) as client:
            session = client.run("[[say: kept]]")
            first = (host.origin, host.pid)

            host.pause()
            with pytest.raises(httpx.ReadTimeout):
                client.http.get("/", timeout=0.3)
            host.resume()
            assert client.answers(session) == ["kept"]

            host.restart()
            assert host.origin == first[0]
            assert is_gone(first[1])
            assert client.answers(session) == ["kept"]  # the cookie outlives the restart

            host.kill()
            with pytest.raises(LabBroken):
                os.kill(host.pid, 0)
            host.restart()
            assert client.answers(session) == ["kept"]
    assert not fresh.directory.exists()
