"""The launch machine as diagrams: the same four renderings for the repository and for one task's path."""

from collections.abc import Callable

from agentlink.app import chart_svg
from agentlink.core.launch.history import Recorded, stages
from agentlink.core.launch.machine import TABLE
from agentlink.core.statechart import json, markdown, mermaid
from agentlink.core.statechart.chart import Passed, Walk
from agentlink.core.statechart.table import Table

RENDERINGS: dict[str, Callable[[Table, Walk | None], str]] = {
    "mmd": mermaid.render,
    "md": markdown.render,
    "json": json.render,
    "svg": chart_svg.render,
}


def walk_of(history: tuple[Recorded, ...]) -> Walk:
    """The path that a task's launch took, ready to be marked in a chart."""
    return tuple(Passed(step.fact, step.source, step.state, step.at, step.attempt) for step in stages(history))


def launch_chart(kind: str, walk: Walk | None = None) -> str:
    """The launch machine as `mmd`, `md`, `json` or `svg`. Raises DrawingUnavailable for svg without its library."""
    return RENDERINGS[kind](TABLE, walk)
