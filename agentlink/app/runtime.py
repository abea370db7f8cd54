"""Builds everything once: settings, journal, Host. What is broken is reported by the call that needs it."""

import hashlib
import hmac
import os
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio

from agentlink.app.ports import Host, Link, Store
from agentlink.app.routes import NAME as ROUTES_NAME
from agentlink.app.routes import RoutesFile
from agentlink.app.settings import HOST_LABEL, Settings, load_settings
from agentlink.app.to_the_end import ToTheEnd
from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import LinkState
from agentlink.core.ids import SessionId, TaskId, make_task_id
from agentlink.files.private import create_private, ensure_private_dir, read_private
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import CookieFiles
from agentlink.journal.store import FileStore


def utc_now() -> str:
    """Now, as journal lines write it: UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_task_id() -> TaskId:
    return make_task_id(secrets.token_bytes(6))


def new_session_id() -> SessionId:
    return SessionId(f"session-{uuid.uuid4()}")


NO_ROUTES = os.devnull + "/routes.toml"
"""A place where there can be no file: a runtime that was given no routes has none."""


class Clock:
    """The monotonic clock that proofs of absence are timed with; tests bring one that jumps."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class Runtime:
    """What every use case works with. Tests replace store, host, ids or clock."""

    def __init__(
        self,
        *,
        store: Store,
        host: Host,
        secret: Callable[[], bytes],
        task_ids: Callable[[], TaskId] = new_task_id,
        session_ids: Callable[[], SessionId] = new_session_id,
        clock: Clock | None = None,
        routes: RoutesFile | None = None,
    ) -> None:
        self.store = store
        self.host = host
        self.new_task_id = task_ids
        self.new_session_id = session_ids
        self.clock = clock or Clock()
        self.routes = routes or RoutesFile(Path(NO_ROUTES))
        self.to_the_end = ToTheEnd()
        self._secret = secret
        self._link: Link | None = None

    @asynccontextmanager
    async def link(self) -> AsyncIterator[Link]:
        """The live connection to the Host: the process's one, or one for this call where nothing runs behind calls."""
        background = self.to_the_end.group
        if background is not None:
            if self._link is None:
                self._link = self.host.link()
                background.start_soon(self._link.run)
            yield self._link
            return
        link = self.host.link()
        async with anyio.create_task_group() as group:
            group.start_soon(link.run)
            try:
                yield link
            finally:
                group.cancel_scope.cancel()

    @property
    def link_state(self) -> LinkState | None:
        """How the process's live connection stands; None when none was ever wanted."""
        return None if self._link is None else self._link.state

    async def aclose(self) -> None:
        """Closes the Host's connections; no call may be under way."""
        await self.host.aclose()

    def key_digest(self, key: str) -> str:
        """What stands for a request key in the journal."""
        return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()

    def input_digest(self, parts: tuple[str | None, ...]) -> str:
        """Stands for a whole request: keyed with the home's secret, so that no guess at a prompt can be checked."""
        text = "\0".join("" if part is None else f"{len(part)}:{part}" for part in parts)
        return hmac.new(self._secret(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


def open_runtime(environment: Mapping[str, str] | None = None) -> Runtime:
    """The runtime of this environment. Raises Failure invalid_request for a broken setting; touches no Host."""
    settings = load_settings(os.environ if environment is None else environment)
    return Runtime(
        store=FileStore(settings.home, clock=utc_now),
        host=open_host(settings),
        secret=lambda: home_secret(settings.home),
        routes=RoutesFile(settings.home / ROUTES_NAME),
    )


def open_host(settings: Settings) -> RemoteHost:
    """The Host of these settings, not yet connected."""
    return RemoteHost(
        label=HOST_LABEL,
        origin=settings.address.origin,
        cookies=CookieFiles(settings.home / "cookies"),
        launch_token=settings.address.token,
    )


def home_secret(home: Path) -> bytes:
    """The home's own random key, made at first use. Raises Failure journal_unwritable."""
    path = home / "secret"
    try:
        found = read_private(path)
        if found is None:
            ensure_private_dir(home)
            create_private(path, secrets.token_bytes(32))
            found = read_private(path)
    except OSError as error:
        raise Failure(Code.JOURNAL_UNWRITABLE, f"the state home cannot be used: {error}") from error
    if found is None or len(found) < 32:
        raise Failure(Code.JOURNAL_UNWRITABLE, f"{path} is damaged; move it away to get a new one")
    return found
