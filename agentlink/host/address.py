"""Host addresses as people and Hosts write them."""

import ipaddress
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec

MAX_ADDRESS_CHARACTERS = 4096
DEFAULT_ORIGIN = "http://127.0.0.1:3080"


class AddressInvalid(ValueError):
    """The text is no Host address; the message says what is wrong with it and never repeats a token."""


class Address(msgspec.Struct, frozen=True):
    """An origin, and the launch token when the text was a printed launch address."""

    origin: str
    token: str | None = None
    loopback: bool = True


def parse_address(text: str) -> Address:
    """The address in `http://host:port` or `http://host:port/?token=…`. Raises AddressInvalid.

    The whole line that the Host printed, `dsh web: http://…`, is taken too.

    The spelling of the host is kept: the Host binds its cookie to the exact `host:port` text (dsh-wire section 2).
    """
    text = text.strip().removeprefix("dsh web:").strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise AddressInvalid("the Host address cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AddressInvalid("a Host address looks like http://127.0.0.1:3080")
    if parts.username is not None or parts.password is not None:
        raise AddressInvalid("a Host address holds no user name or password")
    if parts.path not in ("", "/") or parts.fragment:
        raise AddressInvalid("a Host address has no path")
    query = parse_qs(parts.query, keep_blank_values=True)
    if set(query) - {"token"}:
        raise AddressInvalid("a Host address has no query except the printed ?token=…")
    token = query.get("token", [None])[0]
    if token == "":
        raise AddressInvalid("the launch address has an empty token")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    origin = f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")
    if len(text) > MAX_ADDRESS_CHARACTERS or not origin.isascii():
        raise AddressInvalid("a Host address is short and written in ASCII")
    try:
        httpx.URL(origin)
    except httpx.InvalidURL:
        raise AddressInvalid("the Host address cannot be read") from None
    return Address(origin, token, is_loopback(parts.hostname))


def is_loopback(host: str) -> bool:
    """Whether this host name or address is this machine's own loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
