"""One bounded HTTP exchange with a Host, its failures told apart by whether the call can have arrived."""

from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy

import anyio
import httpx
import msgspec

from agentlink.core.host.faults import BadReply, ReplyLost, Unreachable
from agentlink.core.redact import redact

CONNECT_TIMEOUT_S = 3.0
KEEP_ALIVE_S = 2.5
"""Well under the Host's own 5 s, so that no call leaves on a connection the Host is just closing."""
TURN_TIMEOUT_S = 8.0
"""How long a call waits for one of the connections: less than for an answer, so that a call that never left says so."""
CONNECTIONS = 4
"""Few, and all of them kept: a busy Host takes new ones slowly, and is no faster with more of them."""
MAX_REPLY_BYTES = 64 << 20
_CUT_OFF = ("Server disconnected", "peer closed connection")
"""How httpx words an answer that ended too early; everything else of its kind is no HTTP at all."""


class Exchange(msgspec.Struct, frozen=True):
    """An answer: HTTP status, body, and the Host's clock in milliseconds (rounded down to its second)."""

    status: int
    body: bytes
    host_now_ms: int | None
    cookies: dict[str, str]


def new_client(origin: str) -> httpx.AsyncClient:
    """A client for one origin: direct (no proxy from the environment), no redirects, few connections."""
    return httpx.AsyncClient(
        base_url=origin,
        trust_env=False,
        follow_redirects=False,
        # The login's cookie goes where we put it and nowhere else: a client that remembered it would send it with the
        # probes that tell the wire by what an unknown caller is answered.
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S, pool=TURN_TIMEOUT_S),
        limits=httpx.Limits(
            max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S
        ),
        headers={"accept-encoding": "identity", "user-agent": "agentlink"},
    )


async def exchange(client: httpx.AsyncClient, request: httpx.Request, *, timeout_s: float) -> Exchange:
    """Sends the request once. Raises Unreachable (never left), ReplyLost (outcome unknown) or BadReply (no HTTP, or
    too large)."""
    try:
        with anyio.fail_after(timeout_s):
            response = await client.send(request, stream=True)
            try:
                body = await _bounded_body(response)
            finally:
                await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise Unreachable(f"no connection to {client.base_url}: {_reason(error)}") from error
    except TimeoutError:
        raise ReplyLost(f"no answer from {client.base_url} within {timeout_s:g} s") from None
    except httpx.RemoteProtocolError as error:
        if str(error).startswith(_CUT_OFF):
            raise ReplyLost(f"the connection to {client.base_url} broke: {_reason(error)}") from error
        raise BadReply(f"{client.base_url} does not answer in HTTP: {_reason(error)}") from error
    except (httpx.TransportError, httpx.StreamError) as error:
        raise ReplyLost(f"the connection to {client.base_url} broke: {_reason(error)}") from error
    return Exchange(response.status_code, body, _host_clock(response), _cookies(response))


def _cookies(response: httpx.Response) -> dict[str, str]:
    # Not dict(response.cookies): that raises when one name is set for two paths.
    return {cookie.name: cookie.value or "" for cookie in response.cookies.jar}


async def _bounded_body(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise BadReply(f"the answer is larger than {MAX_REPLY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _reason(error: Exception) -> str:
    return redact(str(error) or type(error).__name__, limit=160)


def _host_clock(response: httpx.Response) -> int | None:
    text = response.headers.get("date")
    if text is None:
        return None
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
