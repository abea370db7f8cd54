"""Times of ours and of the limit, taken in turns so that whatever else the machine does weighs on both."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from time import perf_counter

__all__ = ["alternately", "alternately_awaited", "at_percent", "median", "p95"]


def at_percent(values: Sequence[float], percent: float) -> float:
    """The value that so many of 100 do not exceed: 0 gives the least, 100 the greatest."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def p95(values: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return at_percent(values, 95)


def alternately(
    *works: Callable[[], object], rounds: int, warm: int = 1, after: Callable[[], object] | None = None
) -> list[list[float]]:
    """The milliseconds of each work in every round; each second round goes backwards. Warm rounds are not counted.

    `after` runs behind each work and is not timed.
    """
    times: list[list[float]] = [[] for _ in works]
    for turn in range(-warm, rounds):
        for index in _order(len(works), turn):
            began = perf_counter()
            works[index]()
            ms = (perf_counter() - began) * 1_000
            if after is not None:
                after()
            if turn >= 0:
                times[index].append(ms)
    return times


async def alternately_awaited(
    *works: Callable[[], Awaitable[object]],
    rounds: int,
    warm: int = 3,
    after: Callable[[], Awaitable[object]] | None = None,
) -> list[list[float]]:
    """The same for works that are awaited."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(-warm, rounds):
        for index in _order(len(works), turn):
            began = perf_counter()
            await works[index]()
            ms = (perf_counter() - began) * 1_000
            if after is not None:
                await after()
            if turn >= 0:
                times[index].append(ms)
    return times


def _order(count: int, turn: int) -> Sequence[int]:
    return range(count) if turn % 2 else range(count - 1, -1, -1)
