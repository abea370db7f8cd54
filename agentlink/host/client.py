"""One DSH Web Host behind the application's `Host` port, on the "remote" wire.

Every call is made once. A write whose answer is lost is never repeated here: the caller reads the Host's history.
"""

import uuid
from typing import TYPE_CHECKING, Any, Literal

import httpx
import msgspec
from anyio import Lock, to_thread

from agentlink.core.host.faults import BadReply, LoginNeeded, Refused, ReplyLost, Unreachable, Unsupported
from agentlink.core.host.values import Address, CreatedSession, ModelCatalog, Page, Preset, SessionState
from agentlink.core.ids import RequestId, SessionId
from agentlink.host.cookies import Cookie, CookieFiles, new_binding
from agentlink.host.http import Exchange, exchange, new_client
from agentlink.wire import remote
from agentlink.wire.detect import PROBE_PATHS, Wire, wire_from_probes

if TYPE_CHECKING:
    from agentlink.host.stream import LiveLink

PROBE_SESSION = "session-agentlink-probe"
"""An id that no Host has: asking for it changes nothing."""
READ_TIMEOUT_S = 10.0
WRITE_TIMEOUT_S = 15.0
LIST_TIMEOUT_S = 3.0
_API_STATUSES = frozenset({401, 403, 404, 426})
"""What an API answers to a plain GET of a stream: a Host of another generation may be behind it (field case F2)."""


class RemoteHost:
    """See `agentlink.app.ports.Host`. One object serves a whole process; its connections are few and shared."""

    def __init__(
        self,
        *,
        label: str,
        origin: str,
        cookies: CookieFiles,
        launch_token: str | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
        write_timeout_s: float = WRITE_TIMEOUT_S,
    ) -> None:
        self.label = label
        self.origin = origin
        self.wire: Wire | None = None
        self._cookies = cookies
        self._token = launch_token
        self._tells_state = False
        self._read_timeout_s = read_timeout_s
        self._write_timeout_s = write_timeout_s
        self._client: httpx.AsyncClient | None = None
        self._cookie: Cookie | None = None
        self._login = Lock()

    @property
    def binding(self) -> str | None:
        return None if self._cookie is None else self._cookie.binding

    @property
    def reports_presets(self) -> bool:
        return remote.REPORTS_PRESETS

    # -- connection

    async def connect(self) -> None:
        """Finds the wire with reads that need no credential, once per connection. Raises HostFault."""
        if self.wire is not None:
            return
        statuses = [(await self._get(path)).status for path in PROBE_PATHS]
        wire = wire_from_probes(*statuses)
        tried = ", ".join(f"{path} {status}" for path, status in zip(PROBE_PATHS, statuses, strict=True))
        if wire is None and set(statuses) <= _API_STATUSES:
            raise Unsupported(f"{self.origin} speaks no wire that this version knows ({tried})")
        if wire is None:
            raise BadReply(f"{self.origin} does not answer like a DSH Web Host ({tried})")
        if wire != "remote":
            raise Unsupported(f"{self.origin} speaks the older wire, which this version does not ({tried})")
        self.wire = wire

    async def ready(self) -> None:
        """Proves once per connection, by a read, that this Host can tell the exact state of a session."""
        if self.wire is None or not self._tells_state:
            await self._read("session/projections", {"request": {"sessionId": PROBE_SESSION}})
            self._tells_state = True

    async def login(self, token: str) -> Cookie:
        """Exchanges a printed launch token for a cookie and stores it. Raises LoginNeeded when it is refused, and
        OSError when it cannot be stored.

        The login keeps its binding when the Host still accepts the cookie of the login before.
        """
        known = await to_thread.run_sync(self._cookies.load, self.origin)
        reply = await self._get("/", params={"token": token})
        if reply.status == 401:
            raise LoginNeeded("the launch token is not accepted: a token dies with its Host process", expired=True)
        named = next(((name, value) for name, value in reply.cookies.items() if name.startswith("dsh-auth-")), None)
        if reply.status != 303 or named is None or not Cookie(self.origin, *named, "").sendable:
            raise BadReply(f"{self.origin} did not answer the login like a DSH Web Host (HTTP {reply.status})")
        binding = new_binding() if known is None or not await self._accepts(known) else known.binding
        cookie = Cookie(self.origin, named[0], named[1], binding)
        self._cookie = cookie
        await to_thread.run_sync(self._cookies.save, cookie)
        return cookie

    async def _accepts(self, cookie: Cookie) -> bool:
        reply = await self._post("session/modelCatalog", {}, cookie, rpc_id="login", timeout_s=self._read_timeout_s)
        return reply.status == 200

    async def aclose(self) -> None:
        """Closes the idle connections; nothing may be under way."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = new_client(self.origin)
        return self._client

    async def _get(self, path: str, params: dict[str, str] | None = None) -> Exchange:
        client = self._open()
        return await exchange(client, client.build_request("GET", path, params=params), timeout_s=self._read_timeout_s)

    async def _post(
        self, method: str, args: dict[str, Any], cookie: Cookie | None, *, rpc_id: str, timeout_s: float
    ) -> Exchange:
        client = self._open()
        headers = {"content-type": "application/json"}
        if cookie is not None:
            headers["cookie"] = cookie.header
        request = client.build_request(
            "POST", f"/api/{method}", content=remote.call_bytes(method, args, rpc_id=rpc_id), headers=headers
        )
        return await exchange(client, request, timeout_s=timeout_s)

    # -- calls

    async def _read(self, method: str, args: dict[str, Any]) -> tuple[msgspec.Raw, int | None]:
        """A call without effect: repeated once when its answer was lost."""
        try:
            return await self._call(method, args, timeout_s=self._read_timeout_s)
        except ReplyLost:
            return await self._call(method, args, timeout_s=self._read_timeout_s)

    async def _call(self, method: str, args: dict[str, Any], *, timeout_s: float) -> tuple[msgspec.Raw, int | None]:
        """One call: its value and the Host's clock. After an exchange that failed, its connection is closed."""
        rpc_id = str(uuid.uuid4())
        try:
            await self.connect()
            cookie = await self._current_cookie()
            reply = await self._post(method, args, cookie, rpc_id=rpc_id, timeout_s=timeout_s)
            if reply.status == 401:
                cookie = await self._renewed_cookie(cookie)
                # A 401 comes before the Host looks at the call, so sending it again cannot do anything twice.
                reply = await self._post(method, args, cookie, rpc_id=rpc_id, timeout_s=timeout_s)
        except (Unreachable, ReplyLost):
            self.wire = None
            raise
        return self._value(method, reply, rpc_id), reply.host_now_ms

    def _value(self, method: str, reply: Exchange, rpc_id: str) -> msgspec.Raw:
        match reply.status:
            case 200:
                return remote.reply_value(reply.body, rpc_id=rpc_id)
            case 401:
                self._cookie = None
                raise LoginNeeded(f"{self.origin} does not accept the stored login any more", expired=True)
            case 404:
                self.wire = None
                raise Unsupported(f"{self.origin} does not offer {method}")
            case 400 | 403 | 413 | 415 as status:
                raise Refused(f"http/{status}", f"the Host refused {method} with HTTP {status}", kind="other")
            case status:
                raise BadReply(f"{self.origin} answered {method} with HTTP {status}")

    async def _current_cookie(self) -> Cookie | None:
        if self._cookie is None:
            self._cookie = await to_thread.run_sync(self._cookies.load, self.origin)
        if self._cookie is None:
            return await self._renewed_cookie(None)
        return self._cookie

    async def _renewed_cookie(self, refused: Cookie | None) -> Cookie:
        """Another login than `refused`: one that was stored meanwhile, or one exchange of the configured token."""
        async with self._login:
            stored = await to_thread.run_sync(self._cookies.load, self.origin)
            if stored is not None and stored != refused:
                self._cookie = stored
                return stored
            token, self._token = self._token, None
            if token is not None:
                return await self._exchanged(token)
            if refused is None:
                raise LoginNeeded(f"{self.origin} asks for a login", expired=False)
            raise LoginNeeded(f"{self.origin} does not accept the stored login any more", expired=True)

    async def _exchanged(self, token: str) -> Cookie:
        try:
            return await self.login(token)
        except OSError:
            # A home that cannot be written is the journal's trouble to report; this process is logged in all the same.
            if self._cookie is None:
                raise
            return self._cookie

    # -- the port

    def link(self) -> "LiveLink":
        from agentlink.host.stream import LiveLink  # WebSockets take 30 ms to import, and most commands need none

        return LiveLink(self.origin, self._live_login)

    async def _live_login(self, refused: Cookie | None) -> Cookie:
        """The login of a live connection, or another when this one was refused."""
        if refused is not None:
            return await self._renewed_cookie(refused)
        return await self._current_cookie() or await self._renewed_cookie(None)

    async def roster(self) -> tuple[Preset, ...]:
        value, _ = await self._read("agentPresets/list", {})
        return remote.decode_roster(value)

    async def create_session(self, session: SessionId, *, cwd: str, preset: str | None) -> CreatedSession:
        request: dict[str, Any] = {"sessionId": session, "cwd": cwd}
        if preset is not None:
            request["agentPreset"] = preset
        value, _ = await self._call("session/create", {"request": request}, timeout_s=self._write_timeout_s)
        return remote.decode_created(value)

    async def session_state(self, session: str) -> SessionState | None:
        value, _ = await self._read("session/projections", {"request": {"sessionId": session}})
        return remote.decode_state(value)

    async def model_catalog(self) -> ModelCatalog:
        value, _ = await self._read("session/modelCatalog", {})
        return remote.decode_catalog(value)

    async def send_prompt(
        self, session: str, *, request: RequestId, prompt: str, mode: Literal["queue", "steer"] = "queue"
    ) -> None:
        content = [{"type": "text", "text": prompt}]
        args = {"request": {"requestId": request, "sessionId": session, "mode": mode, "content": content}}
        value, _ = await self._call("session/prompt", args, timeout_s=self._write_timeout_s)
        remote.decode_accepted(value)

    async def cancel_turn(self, session: str) -> None:
        await self._call("session/cancel", {"request": {"sessionId": session}}, timeout_s=self._write_timeout_s)

    async def remove_queued(self, session: str, item: str) -> None:
        request = {"sessionId": session, "itemId": item, "action": {"kind": "remove"}}
        await self._call("session/updateQueue", {"request": request}, timeout_s=self._write_timeout_s)

    async def interrupt_child(self, parent: str, child: str, *, mode: str) -> None:
        args = {"parentSessionId": parent, "childSessionId": child, "mode": mode}
        await self._call("subagents/interruptByParent", args, timeout_s=self._write_timeout_s)

    async def answer_offer(self, client: str, key: str, value: object) -> None:
        args = {"clientId": client, "eventId": key, "outcome": {"kind": "result", "value": value}}
        await self._call("$events/result", args, timeout_s=self._write_timeout_s)

    async def running(self) -> dict[str, bool]:
        value, _ = await self._call("session/list", {"_request": {}}, timeout_s=LIST_TIMEOUT_S)
        return remote.decode_running(value)

    async def rename(self, session: str, title: str) -> None:
        args = {"request": {"sessionId": session, "title": title}}
        await self._call("session/rename", args, timeout_s=self._write_timeout_s)

    async def page(
        self,
        session: str,
        *,
        through: int,
        before: int | None = None,
        messages: int,
        whole_turn: bool = False,
        parent: str | None = None,
    ) -> Page:
        address = remote.address_args(Address(session, parent))
        request: dict[str, Any] = {"address": address, "throughSeq": through, "maxMessages": messages}
        if before is not None:
            request["beforeSeq"] = before
        if whole_turn:
            request["turnWindow"] = {"minMessages": 1, "minTurns": 1}
        value, now = await self._read("session/page", {"request": request})
        return remote.decode_page(value, host_now_ms=now)
