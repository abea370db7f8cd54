"""Old record formats, read for ever: each older version is lifted, step by step, to the current one.

A step takes the decoded JSON of a line in version v and gives that of version v + 1. Steps are never removed, and a
fixture journal of every released format is kept with the tests. The first released format is 1; 2 only added facts.
"""

from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Mapping[int, Step] = {1: lambda line: line}
"""Version -> the step that lifts it to the next one."""


def upcast(line: dict[str, Any], *, version: int, current: int, steps: Mapping[int, Step] = STEPS) -> dict[str, Any]:
    """The line in the current format. Raises KeyError for a version that was never released."""
    for step in range(version, current):
        line = {**steps[step](line), "v": step + 1}
    return line
