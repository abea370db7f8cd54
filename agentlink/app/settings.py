"""Where Agentlink's settings come from, in one place, so that `doctor` can say the origin of each."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from agentlink.core.errors import Code, Failure
from agentlink.host.address import DEFAULT_ORIGIN, Address, AddressInvalid, parse_address

HOME_VARIABLE = "AGENTLINK_HOME"
HOST_VARIABLE = "AGENTLINK_HOST_URL"
HOST_LABEL = "default"


class Setting(msgspec.Struct, frozen=True):
    """A value and where it came from."""

    value: str
    source: str


class Settings(msgspec.Struct, frozen=True):
    """Everything that is configured. The launch token, if the address holds one, stays inside `address`."""

    home: Path
    home_source: str
    address: Address
    address_source: str

    def shown(self) -> dict[str, Setting]:
        """The settings without any secret, for people."""
        return {
            "home": Setting(str(self.home), self.home_source),
            "host": Setting(self.address.origin, self.address_source),
        }


class _HostTable(msgspec.Struct, forbid_unknown_fields=True):
    origin: str | None = None
    allow_remote: bool = False


class _Config(msgspec.Struct, forbid_unknown_fields=True):
    hosts: dict[str, _HostTable] = {}


def load_settings(environment: Mapping[str, str]) -> Settings:
    """The settings of this environment. Raises Failure invalid_request, naming the setting to correct."""
    home, home_source = load_home(environment)
    config = _config(home / "config.toml")
    table = config.hosts.get(HOST_LABEL, _HostTable())
    text, source = DEFAULT_ORIGIN, "built-in default"
    if table.origin is not None:
        text, source = table.origin, str(home / "config.toml")
    if environment.get(HOST_VARIABLE):
        text, source = environment[HOST_VARIABLE], f"environment {HOST_VARIABLE}"
    return Settings(home, home_source, checked_address(text, source, allow_remote=table.allow_remote), source)


def checked_address(text: str, source: str, *, allow_remote: bool) -> Address:
    """A Host address that may be used. Raises Failure invalid_request."""
    try:
        address = parse_address(text)
    except AddressInvalid as error:
        raise _invalid(f"{source}: {error}", "host") from None
    if not address.loopback and not allow_remote:
        raise _invalid(
            f"{source}: {address.origin} is not on this machine; allow it with allow_remote = true "
            f"under [hosts.{HOST_LABEL}] in config.toml",
            "host",
        )
    return address


def remote_allowed(home: Path) -> bool:
    """Whether config.toml allows a Host that is not on this machine. Raises Failure invalid_request."""
    return _config(home / "config.toml").hosts.get(HOST_LABEL, _HostTable()).allow_remote


def load_home(environment: Mapping[str, str]) -> tuple[Path, str]:
    """The state home and where that setting came from. Raises Failure invalid_request."""
    text = environment.get(HOME_VARIABLE)
    if text:
        try:
            home = Path(text).expanduser()
        except RuntimeError:
            raise _invalid(f"{HOME_VARIABLE}: no home directory is known for {text!r}", HOME_VARIABLE) from None
        if not home.is_absolute():
            raise _invalid(f"{HOME_VARIABLE} must be an absolute path, got {text!r}", HOME_VARIABLE)
        return home, f"environment {HOME_VARIABLE}"
    if os.name == "posix" and not environment.get("HOME") and not environment.get("XDG_STATE_HOME"):
        raise _invalid(f"neither HOME nor {HOME_VARIABLE} is set: set {HOME_VARIABLE} to a directory", HOME_VARIABLE)
    return platformdirs.user_state_path("agentlink", appauthor=False), "built-in default"


def _config(path: Path) -> _Config:
    try:
        with path.open("rb") as file:
            return msgspec.convert(tomllib.loads(file.read().decode("utf-8-sig")), _Config)
    except FileNotFoundError:
        return _Config()
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        raise _invalid(f"{path}: {error}", "config.toml") from None


def _invalid(message: str, setting: str) -> Failure:
    return Failure(
        Code.INVALID_REQUEST, message, details={"setting": setting}, next_step="Correct that setting, then call again."
    )
