"""F8: proxies meant for the internet, an almost empty environment, and no home at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentlink.lab import Lab
from tests.cli.program import agentlink
from tests.mcp_server.wire import RawServer

DEAD = "127.0.0.1:9"
PROXIES = [
    {"HTTP_PROXY": f"http://{DEAD}", "https_proxy": f"http://{DEAD}", "NO_PROXY": "localhost"},
    {"ALL_PROXY": f"socks5://{DEAD}", "NO_PROXY": "::1/128"},
    {"all_proxy": f"socks://{DEAD}", "no_proxy": "127.0.0.0/8,[::1]:80,*.local,"},
    {"ALL_PROXY": "no url at all", "no_proxy": "*"},
]


@pytest.mark.host
@pytest.mark.parametrize("proxies", PROXIES, ids=str)
def test_f08_no_proxy_stands_between_us_and_a_host_on_this_machine(
    host_env: dict[str, str], proxies: dict[str, str]
) -> None:
    with RawServer(host_env | proxies) as server:
        server.initialize()
        assert server.tool("dsh_host_status")["availability"] == "connected"
        server.end_stdin()
        assert server.wait() == 0


@pytest.mark.host
def test_f08_a_task_is_delegated_through_no_proxy(host_env: dict[str, str], workspace: Path) -> None:
    env = host_env | PROXIES[0] | PROXIES[2]
    done = agentlink("delegate", "hi", "--cwd", str(workspace), "--preset", "minimal", "--json", env=env)
    assert (done.status, done.json["launch"]["promptSent"]) == (0, True)


def test_f08_home_and_path_are_enough_with_the_defaults(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with RawServer(env, cwd=Path("/")) as server:
        server.initialize()
        status = server.tool("dsh_host_status")
        assert status["origin"] == "http://127.0.0.1:3080"
        assert server.tool("dsh_list") == {"tasks": []}
        server.end_stdin()
        assert (server.wait(), server.errors) == (0, "")
    report = agentlink("doctor", "--json", env=env).json
    sources = {check["name"]: check["found"] for check in report["checks"] if check["name"].startswith("setting ")}
    assert str(tmp_path) in sources["setting home"]
    assert all("(from built-in default)" in found for found in sources.values())


@pytest.mark.host
def test_f08_home_and_path_are_enough_for_a_whole_task(tmp_path: Path, workspace: Path, real_lab: Lab) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    assert agentlink("login", "--json", given=real_lab.host.launch_url.encode(), env=env).status == 0
    done = agentlink("delegate", "hi", "--cwd", str(workspace), "--json", env=env)
    assert done.json["routing"]["mode"] == "dsh-default"
    assert agentlink("status", done.json["taskId"], "--json", env=env).status == 0


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"AGENTLINK_HOME": "relative/place"}])
def test_f08_without_a_usable_home_the_setting_to_give_is_named(home: dict[str, str]) -> None:
    env = {"PATH": os.environ["PATH"], **home}
    with RawServer(env) as server:
        server.initialize()
        assert server.call("tools/list")["tools"]
        for tool, arguments in (
            ("dsh_host_status", {}),
            ("dsh_list", {}),
            ("dsh_delegate", {"prompt": "x", "cwd": "/"}),
            ("dsh_status", {"taskId": "dsh_0123456789ab"}),
        ):
            error = server.tool(tool, **arguments)["error"]
            assert (error["code"], error["details"]["setting"]) == ("invalid_request", "AGENTLINK_HOME")
            assert "AGENTLINK_HOME" in error["message"]
    for words in (["list"], ["doctor"]):
        plain = agentlink(*words, env=env)
        assert plain.status == 1
        assert b"AGENTLINK_HOME" in plain.err + plain.out


@pytest.mark.parametrize(
    ("variable", "value", "setting"),
    [
        ("AGENTLINK_HOST_URL", "ftp://127.0.0.1", "host"),
        ("AGENTLINK_HOST_URL", "http://127.0.0.1:3080/api", "host"),
        ("AGENTLINK_HOST_URL", "http://127.0.0.1:3080/?x=1", "host"),
        ("AGENTLINK_HOST_URL", "http://u:p@127.0.0.1:3080", "host"),
        ("AGENTLINK_HOST_URL", "http://127.0.0.1:99999", "host"),
        ("AGENTLINK_HOST_URL", "http://example.org:3080", "host"),
        ("AGENTLINK_HOST_URL", "http://127.0.0.1.example.org:3080", "host"),
        ("AGENTLINK_HOST_URL", "http://2130706433:3080", "host"),
        ("AGENTLINK_HOST_URL", "http://[::1", "host"),
        ("AGENTLINK_HOST_URL", "nonsense", "host"),
    ],
)
def test_f08_an_address_that_may_not_be_used_is_a_named_setting(
    bare_env: dict[str, str], variable: str, value: str, setting: str
) -> None:
    done = agentlink("list", "--json", env=bare_env | {variable: value})
    assert (done.status, done.code) == (1, "invalid_request")
    assert done.json["error"]["details"]["setting"] == setting
    assert "u:p" not in done.json["error"]["message"]
