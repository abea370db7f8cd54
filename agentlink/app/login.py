"""Logging in: the launch token is used once and forgotten; the cookie and the origin are kept."""

from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread
import tomlkit
from tomlkit.exceptions import TOMLKitError

from agentlink.app.results import Result
from agentlink.app.settings import HOST_LABEL, load_home, load_settings, remote_allowed
from agentlink.app.settings import checked_address as checked
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import HostFault
from agentlink.core.launch.decide import failure_for
from agentlink.files.private import ensure_private_dir, read_private, write_atomic
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import CookieFiles


class LoggedIn(Result, frozen=True, kw_only=True):
    """Where the login goes and where the origin was remembered."""

    origin: str
    config: str
    login: str = "accepted"


async def log_in(environment: Mapping[str, str], text: str) -> LoggedIn:
    """Exchanges the printed address. Raises Failure; then nothing that was stored before is changed."""
    home, _ = load_home(environment)
    address = checked(text, "the given address", allow_remote=remote_allowed(home))
    if address.token is None:
        raise Failure(
            Code.INVALID_REQUEST,
            "the address has no ?token=…; give the whole line that dsh web printed",
            details={"argument": "address"},
        )
    host = RemoteHost(label=HOST_LABEL, origin=address.origin, cookies=CookieFiles(home / "cookies"))
    try:
        await host.connect()
        await host.login(address.token)
        await host.model_catalog()
    except HostFault as fault:
        raise failure_for(fault) from fault
    except OSError as error:
        raise Failure(Code.JOURNAL_UNWRITABLE, f"the state home cannot be written: {error.strerror}") from error
    finally:
        await host.aclose()
    config = home / "config.toml"
    await anyio.to_thread.run_sync(_remember, config, address.origin)
    load_settings(environment)
    return LoggedIn(origin=address.origin, config=str(config))


def _remember(path: Path, origin: str) -> None:
    """Writes the origin into config.toml and keeps everything else in it, comments too."""
    try:
        document = tomlkit.parse((read_private(path) or b"").decode("utf-8"))
        hosts = document.setdefault("hosts", tomlkit.table(is_super_table=True))
        table = hosts.setdefault(HOST_LABEL, tomlkit.table())
        if table.get("origin") == origin:
            return
        table["origin"] = origin
        ensure_private_dir(path.parent)
        write_atomic(path, tomlkit.dumps(document).encode())
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise Failure(
            Code.INVALID_REQUEST, f"{path} cannot be edited: {error}", details={"setting": "config"}
        ) from None
