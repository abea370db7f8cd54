"""A machine's chart as SVG, drawn by mermaidx: a development dependency, because the drawings are committed."""

import re
from typing import Any

from agentlink.core.statechart import mermaid
from agentlink.core.statechart.chart import Walk
from agentlink.core.statechart.table import Table

_CONFIG = {
    # mermaidx measures text in DejaVu Sans. Verdana is as wide, so labels fit where DejaVu is not installed.
    "fontFamily": '"DejaVu Sans", Verdana, sans-serif',
    "themeVariables": {"fontFamily": '"DejaVu Sans", Verdana, sans-serif'},
    # Elsewhere the text is narrower than its place: keep it in the middle.
    "themeCSS": ".nodeLabel, .edgeLabel foreignObject div { width: 100%; }",
}
_SVG_TAG = re.compile(r'<svg [^>]*viewBox="(\S+) (\S+) (\S+) (\S+)"[^>]*>')


class DrawingUnavailable(Exception):
    """The program that draws is not installed."""

    def __init__(self) -> None:
        super().__init__("drawing SVG needs mermaidx: run `pip install 'dsh-agentlink[dev]'`, then export again")


class DrawingFailed(Exception):
    """mermaidx could not draw the chart; a defect of the Mermaid text."""

    def __init__(self, machine: str, reason: str) -> None:
        super().__init__(f"mermaidx cannot draw the chart of {machine}: {reason}")
        self.machine = machine
        self.reason = reason


def render(table: Table, walk: Walk | None = None) -> str:
    """The chart as SVG; equal input gives equal text. Raises DrawingUnavailable, DrawingFailed, WalkInvalid."""
    text = mermaid.render(table, walk)
    try:
        import mermaidx
    except ImportError:
        raise DrawingUnavailable from None
    drawer: Any = mermaidx
    try:
        drawn = str(drawer.render(text, config=_CONFIG).svg())
    except RuntimeError as failure:
        raise DrawingFailed(table.name, str(failure)) from failure
    return _on_white(drawn) + "\n"


def _on_white(svg: str) -> str:
    # Viewers with a dark page would show dark text on it; a style on the root is ignored by some of them.
    ground = r'\g<0><rect x="\1" y="\2" width="\3" height="\4" fill="#ffffff"/>'
    return _SVG_TAG.sub(ground, svg, count=1)
