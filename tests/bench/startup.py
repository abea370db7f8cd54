"""From the start of the process to the answer of `initialize`, against a bare server of the same SDK."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.context import Context
from tests.bench.rows import Row
from tests.bench.timing import alternately, median
from tests.mcp_server.wire import SERVE, RawServer

NAME = "start"
BARE = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]


def run(context: Context) -> list[Row]:
    """An empty home and one with a large journal, in turns with the bare server."""
    large = context.journal(context.many)
    empty_env = context.environment(context.new_home())
    large_env = context.environment(large.home)
    running: list[RawServer] = []

    def start(command: Sequence[str], env: Mapping[str, str]) -> None:
        running.append(RawServer(env, command=command))
        running[-1].initialize()

    times = alternately(
        lambda: start(SERVE, empty_env),
        lambda: start(SERVE, large_env),
        lambda: start(BARE, empty_env),
        rounds=context.count(25, 1),
        after=lambda: running.pop().close(),
    )
    empty, full, bare = (median(ms) for ms in times)
    return [
        _row("empty home", empty, bare),
        _row(f"journal of {large.bytes / 1e6:,.0f} MB", full, bare),
    ]


def _row(home: str, ours: float, bare: float) -> Row:
    return Row(
        bench=NAME,
        figure=f"to initialize, {home}",
        ours=ours,
        unit="ms",
        limit=bare,
        limit_is="bare server",
        compared="difference",
        target=100,
    )
