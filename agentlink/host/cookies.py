"""The login cookie of each Host origin, in a private file of its own."""

import hashlib
import secrets
from pathlib import Path

import msgspec

from agentlink.files.private import ensure_private_dir, read_private, write_atomic


class Cookie(msgspec.Struct, frozen=True):
    """One login. `binding` is a random name for it, no secret: equal bindings prove the same Host (ADR 0003)."""

    origin: str
    name: str
    value: str
    binding: str

    @property
    def header(self) -> str:
        return f"{self.name}={self.value}"

    @property
    def sendable(self) -> bool:
        """Whether it can stand in a request's header at all."""
        return self.header.isascii() and self.header.isprintable()


def new_binding() -> str:
    """A fresh name for a login."""
    return f"login-{secrets.token_hex(6)}"


class CookieFiles:
    """Reads and replaces the cookies under `<home>/cookies`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, origin: str) -> Path:
        return self._directory / f"{hashlib.sha256(origin.encode()).hexdigest()[:16]}.json"

    def load(self, origin: str) -> Cookie | None:
        """The stored login of this origin. A file that cannot be read as one counts as no login."""
        try:
            data = read_private(self.path(origin))
        except OSError:
            return None  # a login again then says what is wrong with the place
        if data is None:
            return None
        try:
            cookie = msgspec.json.decode(data, type=Cookie)
        except msgspec.MsgspecError:
            return None
        return cookie if cookie.origin == origin and cookie.sendable else None

    def save(self, cookie: Cookie) -> None:
        """Replaces the login of the cookie's origin. Raises OSError."""
        ensure_private_dir(self._directory)
        write_atomic(self.path(cookie.origin), msgspec.json.encode(cookie))
