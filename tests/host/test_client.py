"""The Host adapter against a server that misbehaves: each fault is told apart, and each wait is bounded."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentlink.core.host.faults import BadReply, HostFault, LoginNeeded, Refused, ReplyLost, Unreachable, Unsupported
from agentlink.core.ids import RequestId, SessionId
from agentlink.host import http as host_http
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import Cookie, CookieFiles
from tests.host.scripted import LEGACY, Asked, http, reply, scripted

SESSION = SessionId("session-1")


@asynccontextmanager
async def host_of(
    server_origin: str, home: Path, *, token: str | None = None, logged_in: bool = True, timeout_s: float = 0.5
) -> AsyncIterator[RemoteHost]:
    cookies = CookieFiles(home / "cookies")
    if logged_in:
        cookies.save(Cookie(server_origin, "dsh-auth-abc", "v1.stored", "login-1"))
    host = RemoteHost(
        label="default",
        origin=server_origin,
        cookies=cookies,
        launch_token=token,
        read_timeout_s=timeout_s,
        write_timeout_s=timeout_s,
    )
    try:
        yield host
    finally:
        await host.aclose()


CALLS: dict[str, Callable[[RemoteHost], Any]] = {
    "roster": lambda host: host.roster(),
    "create": lambda host: host.create_session(SESSION, cwd="/w", preset="minimal"),
    "state": lambda host: host.session_state("session-1"),
    "catalog": lambda host: host.model_catalog(),
    "prompt": lambda host: host.send_prompt("session-1", request=RequestId("r"), prompt="x"),
    "page": lambda host: host.page("session-1", through=1, messages=1),
}
WRITES = ("create", "prompt")
every_call = pytest.mark.parametrize("call", CALLS)


async def fault_of(host: RemoteHost, call: str) -> HostFault:
    with pytest.raises(HostFault) as raised:
        await CALLS[call](host)
    return raised.value


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


@every_call
async def test_a_closed_port_is_unreachable_and_nothing_was_sent(home: Path, call: str) -> None:
    async with host_of(closed_port(), home) as host:
        fault = await fault_of(host, call)
        assert (type(fault), fault.sent) == (Unreachable, False)


NO_REPLY: dict[str, Callable[[Asked], bytes]] = {
    "HTML": lambda _: http(200, b"<!doctype html><p>hi", "content-type: text/html"),
    "empty": lambda _: http(200, b""),
    "half a JSON": lambda _: http(200, b'{"type":"server-resp'),
    "another call's": lambda asked: reply(asked, {}, rpcId="other"),
    "another type": lambda asked: reply(asked, {}, type="event"),
    "no result": lambda asked: http(200, json.dumps({"type": "server-response", "rpcId": asked.rpc_id}).encode()),
    "a list": lambda _: http(200, b"[]"),
    "deep": lambda _: http(200, b"[" * 100_000),
    "no UTF-8": lambda _: http(200, b'{"type":"\xff"}'),
    "not ok without an error": lambda asked: reply(asked, result={"ok": False}),
    "no value": lambda asked: reply(asked, result={"ok": True}),
    "a wrong value": lambda asked: reply(asked, 5),
    "noise": lambda _: bytes(range(255, 120, -1)) + b"\r\n\r\n",
    "noise with line ends": lambda _: b"\x00\r\n\r\n\r\n",
    "a huge number": lambda asked: reply(asked, 10**400),
    "a server error": lambda _: http(500),
    "bad gateway": lambda _: http(502, b"<html>"),
    "no content": lambda _: b"HTTP/1.1 204 Any\r\n\r\n",
    "too early": lambda _: http(425),
}


@every_call
@pytest.mark.parametrize("name", NO_REPLY)
async def test_what_is_no_host_reply_is_a_bad_reply_and_is_asked_for_once(home: Path, call: str, name: str) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        server.gives(NO_REPLY[name])
        fault = await fault_of(host, call)
        assert (type(fault), fault.sent) == (BadReply, True)
        assert len(server.calls) == 1


@every_call
@pytest.mark.parametrize("how", ["closed", "half a head", "half a body", "reset"])
async def test_an_answer_that_breaks_off_is_lost_and_only_reads_are_repeated(home: Path, call: str, how: str) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        parts = {"half a head": b"HTTP/1.1 200 OK\r\ncont", "half a body": http(200, b"x" * 50)[:-20]}
        writer.write(parts.get(how, b""))
        if how == "reset":
            writer.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
        writer.close()

    async with scripted() as server, host_of(server.origin, home) as host:
        server.answer = answer
        fault = await fault_of(host, call)
        assert (type(fault), fault.sent) == (ReplyLost, True)
        assert len(server.calls) == (1 if call in WRITES else 2)


@every_call
async def test_a_host_that_never_answers_is_given_up(home: Path, call: str) -> None:
    async def answer(_: Asked, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with scripted() as server, host_of(server.origin, home, timeout_s=0.1) as host:
        server.answer = answer
        with anyio.fail_after(5):
            fault = await fault_of(host, call)
        assert (type(fault), fault.sent) == (ReplyLost, True)
        assert len(server.calls) == (1 if call in WRITES else 2)


async def test_a_port_that_accepts_and_never_answers_is_given_up(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with host_of(origin, home, timeout_s=0.1) as host:
            with anyio.fail_after(5):
                assert isinstance(await fault_of(host, "prompt"), ReplyLost)


@pytest.mark.parametrize("call", ["state", "prompt"])
async def test_an_answer_that_trickles_is_bounded_in_time(home: Path, call: str) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with scripted() as server, host_of(server.origin, home, timeout_s=0.2) as host:
        server.answer = answer
        with anyio.fail_after(5):
            assert isinstance(await fault_of(host, call), ReplyLost)


@pytest.mark.parametrize("announced", [True, False])
async def test_an_answer_that_is_too_large_is_not_read_to_its_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    monkeypatch.setattr(host_http, "MAX_REPLY_BYTES", 1 << 20)
    written = 0

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        size = b"content-length: 1000000000000" if announced else b"transfer-encoding: chunked"
        writer.write(b"HTTP/1.1 200 OK\r\n" + size + b"\r\n\r\n")
        piece = b"x" * 65536
        while written < 1 << 30:
            writer.write(piece if announced else b"10000\r\n" + piece + b"\r\n")
            await writer.drain()
            written += len(piece)

    async with scripted() as server, host_of(server.origin, home, timeout_s=10) as host:
        server.answer = answer
        assert isinstance(await fault_of(host, "state"), BadReply)
    assert written < 64 << 20


async def test_a_head_without_end_is_bounded(home: Path) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(10_000):
            writer.write(b"x-%d: %s\r\n" % (number, b"y" * 1000))
            await writer.drain()

    async with scripted() as server, host_of(server.origin, home, timeout_s=5) as host:
        server.answer = answer
        assert isinstance(await fault_of(host, "prompt"), BadReply | ReplyLost)


@every_call
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(home: Path, call: str, status: int) -> None:
    async with scripted() as elsewhere, scripted() as server, host_of(server.origin, home) as host:
        server.gives(lambda _: http(status, b"", f"location: {elsewhere.origin}/api/session/prompt"))
        assert isinstance(await fault_of(host, call), BadReply)
        assert elsewhere.asked == []


@every_call
@pytest.mark.parametrize(
    ("code", "kind", "final"),
    [
        ("agent-preset/not-found", "preset_not_found", True),
        ("agent-preset/invalid", "preset_broken", True),
        ("session/not-found", "session_not_found", True),
        ("session/conflict", "other", True),
        ("gateway/internal", "unproven", False),
        ("something/new", "other", True),
    ],
)
async def test_the_hosts_own_refusal_keeps_its_code(home: Path, call: str, code: str, kind: str, final: bool) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        error = {"code": code, "message": "no", "details": {"available": ["a"]}}
        server.gives(lambda asked: reply(asked, result={"ok": False, "error": error}))
        fault = await fault_of(host, call)
        assert isinstance(fault, Refused)
        assert (fault.code, fault.kind, fault.final, fault.details) == (code, kind, final, {"available": ["a"]})
        assert len(server.calls) == 1


@pytest.mark.parametrize("status", [400, 403, 413, 415])
async def test_an_http_refusal_is_a_refusal(home: Path, status: int) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        server.gives(lambda _: http(status))
        fault = await fault_of(host, "prompt")
        assert isinstance(fault, Refused)
        assert fault.code == f"http/{status}"


@every_call
async def test_a_missing_endpoint_is_unsupported_and_the_wire_is_found_anew(home: Path, call: str) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        server.gives(lambda _: http(404, b"not found"))
        assert isinstance(await fault_of(host, call), Unsupported)
        assert host.wire is None


@pytest.mark.parametrize(
    ("probes", "fault"),
    [
        (LEGACY, Unsupported),
        ({}, Unsupported),
        ({"/api/events.mux": 401}, Unsupported),
        ({"/api/events.mux": 200, "/api/remote.mux": 200}, BadReply),
        ({"/api/events.mux": 500, "/api/remote.mux": 500}, BadReply),
        ({"/api/events.mux": 301, "/api/remote.mux": 301}, BadReply),
    ],
)
async def test_a_wire_that_is_not_ours_is_told_by_reads_alone(
    home: Path, probes: dict[str, int], fault: type[HostFault]
) -> None:
    async with scripted(probes) as server, host_of(server.origin, home, token="t") as host:
        for call in CALLS:
            assert type(await fault_of(host, call)) is fault
        assert host.wire is None
        assert {asked.verb for asked in server.asked} == {"GET"}
        assert not any("token" in asked.path or "cookie" in asked.headers for asked in server.asked)


async def test_a_host_that_changes_its_wire_is_looked_at_again(home: Path) -> None:
    async with scripted(LEGACY) as server, host_of(server.origin, home) as host:
        assert isinstance(await fault_of(host, "catalog"), Unsupported)
        server.probes = {"/api/events.mux": 401, "/api/remote.mux": 401}
        server.gives(lambda asked: reply(asked, {"default": None, "routableProviders": []}))
        assert (await host.model_catalog()).routable == ()


async def test_without_a_login_nothing_is_called(home: Path) -> None:
    async with scripted() as server, host_of(server.origin, home, logged_in=False) as host:
        fault = await fault_of(host, "prompt")
        assert isinstance(fault, LoginNeeded)
        assert (fault.expired, fault.sent) == (False, False)
        assert server.calls == []


@every_call
async def test_a_refused_cookie_is_an_expired_login(home: Path, call: str) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        server.gives(lambda _: http(401, b"unauthorized"))
        fault = await fault_of(host, call)
        assert isinstance(fault, LoginNeeded)
        assert (fault.expired, fault.sent) == (True, False)
        assert len(server.calls) == 1


async def test_a_refused_cookie_is_renewed_once_with_the_configured_token(home: Path) -> None:
    async with scripted() as server, host_of(server.origin, home, token="t1") as host:
        catalog = {"default": None, "routableProviders": ["p"]}
        server.gives(
            lambda asked: reply(asked, catalog) if "v1.secret" in asked.headers["cookie"] else http(401, b"no")
        )
        assert (await host.model_catalog()).routable == ("p",)
        exchanges = [asked.path for asked in server.asked if "token" in asked.path]
        assert exchanges == ["/?token=t1"]


@every_call
async def test_a_host_that_refuses_even_its_fresh_cookie_ends_the_matter(home: Path, call: str) -> None:
    async with scripted() as server, host_of(server.origin, home, token="t1") as host:
        server.gives(lambda _: http(401, b"no"))
        for _ in range(3):
            assert isinstance(await fault_of(host, call), LoginNeeded)
        assert sum("token" in asked.path for asked in server.asked) == 1


@pytest.mark.parametrize(
    "login",
    [
        http(200, b"<html>welcome"),
        http(303, b"", "location: ./"),
        http(303, b"", "location: ./", "set-cookie: session=1"),
        http(303, b"", "location: ./", "set-cookie: dsh-auth-a=\xe9"),
        http(404),
        http(500),
    ],
)
async def test_a_login_that_is_not_answered_like_a_host_is_a_bad_reply(home: Path, login: bytes) -> None:
    async with scripted() as server, host_of(server.origin, home, logged_in=False, token="t") as host:
        server.login = login
        assert isinstance(await fault_of(host, "catalog"), BadReply)
        assert not (home / "cookies").exists()


async def test_one_cookie_name_on_two_paths_is_no_trouble(home: Path) -> None:
    async with scripted() as server, host_of(server.origin, home, logged_in=False, token="t") as host:
        cookies = [f"set-cookie: dsh-auth-a=v1.{path}; Path=/{path}" for path in ("", "api")]
        server.login = http(303, b"", *cookies)
        server.gives(lambda asked: reply(asked, {"default": None, "routableProviders": []}))
        await host.model_catalog()


async def test_a_home_that_cannot_keep_the_cookie_leaves_this_process_logged_in(home: Path) -> None:
    await anyio.Path(home).write_text("a file where the home should be")
    async with scripted() as server, host_of(server.origin, home, logged_in=False, token="t") as host:
        server.gives(lambda asked: reply(asked, {"default": None, "routableProviders": []}))
        await host.model_catalog()
        await host.model_catalog()
        assert sum("token" in asked.path for asked in server.asked) == 1


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_f08_a_loopback_host_is_never_called_through_a_proxy(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async with scripted() as proxy, scripted() as server:
        monkeypatch.setenv(variable, proxy.origin)
        monkeypatch.setenv("NO_PROXY", "::1/128")
        async with host_of(server.origin, home) as host:
            server.gives(lambda asked: reply(asked, {"default": None, "routableProviders": []}))
            await host.model_catalog()
        assert proxy.asked == []
        assert len(server.calls) == 1


DATES = [
    "Mon, 30 Nov 2026 20:00:00 GMT",
    None,
    "",
    "yesterday",
    "Mon, 01 Jan 0001 00:00:00 -0000",
    "Mon, 31 Dec 9999 23:59:59 -1200",
    "Mon, 99 Foo 99999 00:00:00 GMT",
]


@pytest.mark.parametrize("date", DATES)
async def test_the_hosts_clock_is_read_when_it_can_be(home: Path, date: str | None) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        headers = [] if date is None else [f"date: {date}"]
        page = {"records": [], "hasMore": False}
        server.gives(
            lambda asked: http(
                200,
                json.dumps(
                    {"type": "server-response", "rpcId": asked.rpc_id, "result": {"ok": True, "value": page}}
                ).encode(),
                *headers,
            )
        )
        now = (await host.page("s", through=0, messages=1)).host_now_ms
        assert now == (1796068800000 if date and "2026" in date else now)


async def test_a_call_names_itself_and_carries_its_arguments_unchanged(home: Path) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        server.gives(lambda asked: reply(asked, {"accepted": True}))
        text = "a\r\n\tb ✓ \u2028 \x00 "
        await host.send_prompt("session-1", request=RequestId("r.1.0"), prompt=text)
        (call,) = server.calls
        sent = json.loads(call.body)
        assert (call.path, sent["method"], sent["type"]) == ("/api/session/prompt", "session/prompt", "client-request")
        assert sent["payload"]["args"]["request"] == {
            "requestId": "r.1.0",
            "sessionId": "session-1",
            "mode": "queue",
            "content": [{"type": "text", "text": text}],
        }
        assert call.headers["cookie"] == "dsh-auth-abc=v1.stored"


async def test_each_call_has_an_id_of_its_own(home: Path) -> None:
    async with scripted() as server, host_of(server.origin, home) as host:
        server.gives(lambda asked: reply(asked, {"default": None, "routableProviders": []}))
        for _ in range(3):
            await host.model_catalog()
        assert len({call.rpc_id for call in server.calls}) == 3


async def test_calls_wait_for_a_connection_and_none_is_lost(home: Path) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.01)
        writer.write(reply(asked, {"default": None, "routableProviders": []}))

    async with scripted() as server, host_of(server.origin, home, timeout_s=10) as host:
        server.answer = answer
        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(host.model_catalog)
        assert len(server.calls) == 60
