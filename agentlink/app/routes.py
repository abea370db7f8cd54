"""The routes file: read afresh for each automatic delegation, never written here, its health told to whoever asks."""

from pathlib import Path

import anyio.to_thread

from agentlink.app.results import RouteHealth
from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import Preset
from agentlink.core.routing.router import not_configured
from agentlink.core.routing.rules import Rules, decode_rules
from agentlink.files.private import read_private

NAME = "routes.toml"
MAX_BYTES = 4 << 20
_MOST_TARGETS = 20


class RoutesFile:
    """`<home>/routes.toml`. What is broken in it stops automatic delegations and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def read(self) -> Rules:
        """The rules as they are now. Raises Failure routing_not_configured or routing_config_invalid."""
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> Rules:
        data = self._bytes()
        if data is None:
            raise not_configured(name=NAME, exists=False)
        rules = decode_rules(data, name=NAME)
        if not rules.rules:
            raise not_configured(name=NAME, exists=True)
        return rules

    def _bytes(self) -> bytes | None:
        try:
            return read_private(self.path, limit=MAX_BYTES)
        except OSError as error:
            reason = f"{NAME} cannot be read: {error}"
            raise Failure(Code.ROUTING_CONFIG_INVALID, reason, details={"file": NAME}) from error

    async def health(self, roster: tuple[Preset, ...] | None) -> RouteHealth:
        """Missing, valid or invalid; with a roster, which targets are absent or broken right now. Never raises."""
        try:
            rules = await self.read()
        except Failure as failure:
            if failure.code is Code.ROUTING_NOT_CONFIGURED:
                return RouteHealth(state="missing", rules=0)
            line = (failure.details or {}).get("line")
            return RouteHealth(state="invalid", rules=0, code=failure.code.value, message=failure.message, line=line)
        if roster is None:
            return RouteHealth(state="valid", rules=len(rules.rules))
        standing = {preset.id: preset.broken for preset in roster}
        targets = sorted({rule.preset for rule in rules.rules})
        return RouteHealth(
            state="valid",
            rules=len(rules.rules),
            absent=tuple(target for target in targets if target not in standing)[:_MOST_TARGETS],
            broken=tuple(target for target in targets if standing.get(target) is not None)[:_MOST_TARGETS],
        )
