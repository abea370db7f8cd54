"""F1: a launch token is shown once; what a Host does not accept is a login problem, and nothing secret is written."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import msgspec
import pytest

from agentlink.app.runtime import open_host
from agentlink.app.settings import load_settings
from agentlink.core.host.faults import LoginNeeded
from agentlink.host.cookies import Cookie, CookieFiles
from agentlink.lab import Lab
from tests.cli.program import agentlink
from tests.host.front import Front
from tests.mcp_server.wire import RawServer

pytestmark = pytest.mark.host


def token(lab: Lab) -> str:
    return parse_qs(urlsplit(lab.host.launch_url).query)["token"][0]


@pytest.fixture
def front(real_lab: Lab) -> Iterator[Front]:
    with Front(real_lab.host.port) as door:
        yield door


@pytest.fixture
def front_env(bare_env: dict[str, str], front: Front, real_lab: Lab) -> dict[str, str]:
    return bare_env | {"AGENTLINK_HOST_URL": f"{front.origin}/?token={token(real_lab)}"}


def cookie_file(home: Path) -> Path:
    (found,) = (home / "cookies").iterdir()
    return found


def test_f01_a_launch_address_is_exchanged_once_and_the_cookie_is_private(
    front_env: dict[str, str], front: Front, home: Path, workspace: Path
) -> None:
    for _ in range(2):
        with RawServer(front_env) as server:
            server.initialize()
            status = server.tool("dsh_host_status")
            assert (status["availability"], status["login"]) == ("connected", "accepted")
            assert status["origin"] == front.origin
            given = server.tool("dsh_delegate", prompt="hi", cwd=str(workspace), agentPreset="minimal")
            assert given.get("launch", {}).get("promptSent") or given["error"]["code"] == "workspace_conflict"
    assert front.exchanges == 1
    assert stat.S_IMODE(cookie_file(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == stat.S_IMODE(cookie_file(home).parent.stat().st_mode) == 0o700


def test_f01_login_keeps_the_cookie_and_forgets_the_token(
    bare_env: dict[str, str], front: Front, real_lab: Lab, home: Path, workspace: Path
) -> None:
    done = agentlink("login", "--json", given=f"{front.origin}/?token={token(real_lab)}\n".encode(), env=bare_env)
    assert (done.status, done.json["origin"]) == (0, front.origin)
    done = agentlink("delegate", "hi", "--cwd", str(workspace), "--preset", "minimal", "--json", env=bare_env)
    assert done.status == 0
    assert front.exchanges == 1
    assert front.origin in (home / "config.toml").read_text()
    assert token(real_lab) not in (home / "config.toml").read_text()


@pytest.mark.parametrize("wrong", ["x", "a" * 200, "%00", "%F0%9F%8E%89"])
def test_f01_a_wrong_token_needs_a_login_and_is_shown_once(
    bare_env: dict[str, str], front: Front, home: Path, workspace: Path, wrong: str
) -> None:
    env = bare_env | {"AGENTLINK_HOST_URL": f"{front.origin}/?token={wrong}"}
    with RawServer(env) as server:
        server.initialize()
        for _ in range(3):
            status = server.tool("dsh_host_status")
            assert status["availability"] == status["failure"]["code"] == "login_required"
            error = server.tool("dsh_delegate", prompt="x", cwd=str(workspace))["error"]
            assert (error["code"], error["promptSent"]) == ("login_required", False)
        assert server.tool("dsh_list") == {"tasks": []}
        assert "Traceback" not in server.errors
    assert front.exchanges == 1
    assert not (home / "cookies").exists()
    done = agentlink("login", f"{front.origin}/?token={wrong}", "--json", env=bare_env)
    assert (done.status, done.code) == (1, "login_required")
    assert not (home / "config.toml").exists()


@pytest.mark.parametrize("how", ["deleted", "expired", "foreign", "garbage", "unprintable"])
def test_f01_a_cookie_that_is_gone_or_not_accepted_needs_a_login(
    bare_env: dict[str, str], front: Front, real_lab: Lab, home: Path, workspace: Path, how: str
) -> None:
    env = bare_env | {"AGENTLINK_HOST_URL": front.origin}
    assert agentlink("login", f"{front.origin}/?token={token(real_lab)}", "--json", env=bare_env).status == 0
    path = cookie_file(home)
    cookie = msgspec.json.decode(path.read_bytes(), type=Cookie)
    spoilt = {
        "expired": msgspec.structs.replace(cookie, value=cookie.value[:-4] + "AAAA"),
        "foreign": msgspec.structs.replace(cookie, name="dsh-auth-0123456789ab"),
        "unprintable": msgspec.structs.replace(cookie, value="v1.✓\r\nx: y"),
    }
    if how == "deleted":
        path.unlink()
    elif how in spoilt:
        path.write_bytes(msgspec.json.encode(spoilt[how]))
    else:
        path.write_bytes(b"{")
    with RawServer(env) as server:
        server.initialize()
        for _ in range(2):
            status = server.tool("dsh_host_status")
            assert (status["availability"], status["failure"]["code"]) == ("login_required", "login_required")
            error = server.tool("dsh_delegate", prompt="x", cwd=str(workspace))["error"]
            assert (error["code"], error["promptSent"]) == ("login_required", False)
        assert agentlink("login", f"{front.origin}/?token={token(real_lab)}", "--json", env=bare_env).status == 0
        # A login made meanwhile by another process is taken up without a restart.
        assert server.tool("dsh_host_status")["availability"] == "connected"
    assert front.exchanges == 2


def test_f01_a_dead_token_beside_a_dead_cookie_is_tried_once(
    bare_env: dict[str, str], front: Front, real_lab: Lab, home: Path
) -> None:
    assert agentlink("login", f"{front.origin}/?token={token(real_lab)}", "--json", env=bare_env).status == 0
    path = cookie_file(home)
    cookie = msgspec.json.decode(path.read_bytes(), type=Cookie)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(cookie, value="v1.dead")))
    front.seen = b""
    with RawServer(bare_env | {"AGENTLINK_HOST_URL": f"{front.origin}/?token=dead"}) as server:
        server.initialize()
        for _ in range(4):
            assert server.tool("dsh_host_status")["login"] in ("required", "expired")
    assert front.exchanges == 1
    assert front.seen.count(b"POST ") <= 8


async def test_f01_the_login_that_many_calls_need_at_once_is_made_once(front_env: dict[str, str], front: Front) -> None:
    host = open_host(load_settings(front_env))
    try:
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(host.model_catalog)
    finally:
        await host.aclose()
    assert front.exchanges == 1


async def test_f01_a_login_again_keeps_its_binding_while_the_old_cookie_lives(
    front_env: dict[str, str], front: Front, real_lab: Lab, home: Path
) -> None:
    host = open_host(load_settings(front_env))
    try:
        await host.model_catalog()
        first = host.binding
        await host.login(token(real_lab))
        assert host.binding == first
        files = CookieFiles(home / "cookies")
        cookie = files.load(front.origin)
        assert cookie is not None
        files.save(msgspec.structs.replace(cookie, value="v1.dead"))
        await host.login(token(real_lab))
        assert host.binding != first
        with pytest.raises(LoginNeeded):
            await host.login("dead")
        assert host.binding != first
    finally:
        await host.aclose()


def test_f01_neither_token_nor_cookie_is_written_anywhere(
    front_env: dict[str, str], front: Front, real_lab: Lab, home: Path, workspace: Path
) -> None:
    written = b""
    with RawServer(front_env | {"PYTHONDEVMODE": "1"}) as server:
        server.initialize()
        server.tool("dsh_host_status")
        given = server.tool("dsh_delegate", prompt="hi", cwd=str(workspace), agentPreset="minimal")
        server.tool("dsh_status", taskId=given["taskId"])
        front.become("closed")
        server.tool("dsh_host_status")
        front.become("noise")
        server.tool("dsh_host_status")
        front.become("forward")
        server.end_stdin()
        server.wait()
        written += server.out + server.errors.encode()
    for words in (
        ["login", "--json"],
        ["login"],
        ["doctor"],
        ["doctor", "--json"],
        ["status", given["taskId"]],
        ["journal", "show"],
        ["delegate", "x", "--cwd", str(workspace)],
    ):
        address = front_env["AGENTLINK_HOST_URL"].encode()
        done = agentlink(*words, env=front_env, given=address if words[0] == "login" else b"")
        written += done.out + done.err
    broken = agentlink("login", "--json", given=f"{front.origin}/x?token={token(real_lab)}".encode(), env=front_env)
    written += broken.out + broken.err
    secrets = [token(real_lab).encode()]
    secrets.append(msgspec.json.decode(cookie_file(home).read_bytes(), type=Cookie).value.encode())
    files = [path for path in home.rglob("*") if path.is_file() and "cookies" not in path.parts]
    assert {path.name for path in files} >= {"config.toml", "000001.jsonl", "head"}
    for text in [written, *(path.read_bytes() for path in files)]:
        assert not any(secret in text for secret in secrets)
