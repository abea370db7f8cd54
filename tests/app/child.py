"""A delegation in a process of its own that kills itself at a chosen moment: what `kill -9` does at each line.

Run as `python -m tests.app.child MOMENT CWD PROMPT [PRESET [KEY]]`, with the home and Host in the environment. MOMENT
is `line:N` (right after the N-th journal line is flushed), `before:CALL` or `after:CALL` (a Host call), or `none`.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import open_runtime
from agentlink.core.errors import Failure, envelope
from agentlink.host.client import RemoteHost
from agentlink.journal import segment


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str) -> None:
    kind, _, which = moment.partition(":")
    if kind == "line":
        original, left = segment.append_bytes, [int(which)]

        def append_bytes(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            left[0] -= 1
            if left[0] == 0:
                die()

        segment.append_bytes = append_bytes
    elif kind in ("before", "after"):
        call: Callable[..., Any] = getattr(RemoteHost, which)

        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            if kind == "before":
                die()
            result = await call(*args, **kwargs)
            die()
            return result

        setattr(RemoteHost, which, wrapped)


async def main(moment: str, cwd: str, prompt: str, preset: str = "minimal", key: str | None = None) -> int:
    arm(moment)
    runtime = open_runtime()
    hints = os.environ.get("AGENTLINK_TEST_HINTS")
    request = DelegateRequest(
        prompt=prompt,
        cwd=cwd,
        preset=preset if hints is None else None,
        auto=hints is not None,
        hints=None if hints is None else msgspec.json.decode(hints),
        request_key=key,
    )
    try:
        answer = await delegate(runtime, request)
    except Failure as failure:
        print(msgspec.json.encode(envelope(failure)).decode())
        return 1
    finally:
        await runtime.aclose()
    print(msgspec.json.encode(answer).decode())
    return 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, *sys.argv[1:]))
