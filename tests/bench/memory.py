"""Resident memory of a server that was asked for its tools and one list and then waits."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from tests.bench.context import Context
from tests.bench.rows import Row
from tests.bench.startup import BARE
from tests.bench.timing import median
from tests.mcp_server.wire import SERVE, RawServer

NAME = "memory"
_MIB = 1 << 20


def run(context: Context) -> list[Row]:
    """An empty home, a large journal, and the bare server."""
    repeats = context.count(5, 1)
    empty_env = context.environment(context.new_home())
    large_env = context.environment(context.journal(context.many).home)
    empty = median([idle_mib(SERVE, empty_env, list_tasks=True) for _ in range(repeats)])
    large = median([idle_mib(SERVE, large_env, list_tasks=True) for _ in range(repeats)])
    bare = median([idle_mib(BARE, empty_env, list_tasks=False) for _ in range(repeats)])
    return [
        Row(
            bench=NAME, figure="idle, empty home", ours=empty, unit="MiB", limit=bare, limit_is="bare server", target=80
        ),
        Row(
            bench=NAME,
            figure=f"idle, {context.many:,} tasks",
            ours=large,
            unit="MiB",
            limit=empty,
            limit_is="empty home",
            compared="difference",
            target=40,
        ),
    ]


def idle_mib(command: Sequence[str], env: Mapping[str, str], *, list_tasks: bool) -> float:
    """Starts the server, asks it as a caller does first, and reads its resident memory."""
    with RawServer(env, command=command) as server:
        server.initialize()
        server.call("tools/list")
        if list_tasks:
            server.tool("dsh_list")
        shown = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(server.process.pid)], capture_output=True, text=True, check=True
        )
        return int(shown.stdout) * 1024 / _MIB
