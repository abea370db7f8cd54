"""A Host whose calls are timed, so that what is left of a use case's time is known to be ours."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, NamedTuple

_CALLS = ("roster", "create_session", "session_state", "model_catalog", "send_prompt", "rename", "page", "running")


class Taken(NamedTuple):
    """Milliseconds inside calls, and their number."""

    ms: float
    number: int


class HostClock:
    """Wraps the calls of this one Host object; `take` gives what they took since the last time."""

    def __init__(self, host: Any) -> None:
        self._ms = 0.0
        self._calls = 0
        for name in _CALLS:
            setattr(host, name, self._timed(getattr(host, name)))

    def take(self) -> Taken:
        taken = Taken(self._ms, self._calls)
        self._ms, self._calls = 0.0, 0
        return taken

    def _timed(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            self._calls += 1
            try:
                return await call(*args, **kwargs)
            finally:
                self._ms += (perf_counter() - began) * 1_000

        return timed
