"""The drawn chart: mermaidx takes every name, the reader sees it unchanged, and the bytes stay the same."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings

from agentlink.app import chart_svg
from agentlink.core.launch import machine
from agentlink.core.statechart.table import START, Row, State, Table, checked
from tests.core.statechart.sample_tables import NAMES, tables
from tests.core.statechart.test_chart import FAILED, SENT

XHTML = "{http://www.w3.org/1999/xhtml}"


def texts(svg: str) -> set[str]:
    """Every label as a reader sees it; lines are joined by newlines."""
    shown = set()
    for label in ElementTree.fromstring(svg).iter(f"{XHTML}p"):
        parts = [label.text or ""]
        for child in label:
            parts += ["\n" if child.tag == f"{XHTML}br" else "".join(child.itertext()), child.tail or ""]
        shown.add("".join(parts))
    return shown


def test_f24_the_drawing_shows_states_and_labels_as_they_are() -> None:
    states = ["awaiting input", "end", "state-B", "note", "class", "two\nlines", "**b**", "$$x$$", "测试 ✓", "default"]
    triggers = ["retry: 2; then stop", 'say "hi"', "#1", "<b>", "%%", "&amp;", "`x`", "1. one", "a\nb", "x|y", "- item"]
    rows = [Row(START, triggers[0], states[0])]
    rows += [Row(states[0], trigger, state) for trigger, state in zip(triggers[1:], states, strict=True)]
    table = checked(Table("odd", "Odd", tuple(map(State, states)), tuple(rows), {}))
    assert {*states, *triggers} <= texts(chart_svg.render(table))


@pytest.mark.soak
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(NAMES))
def test_any_table_is_drawn_as_a_well_formed_document(table: Table) -> None:
    root = ElementTree.fromstring(chart_svg.render(table))
    assert root.get("aria-roledescription") == "flowchart-v2"


@pytest.mark.parametrize("walk", [None, SENT, FAILED])
def test_the_launch_chart_stands_on_white_and_shows_every_state(walk: tuple[object, ...] | None) -> None:
    svg = chart_svg.render(machine.TABLE, walk)
    assert {state.name for state in machine.STATES} <= texts(svg)
    root = ElementTree.fromstring(svg)
    assert root[0].get("fill") == "#ffffff"
    assert [root[0].get(side) for side in ("x", "y", "width", "height")] == root.attrib["viewBox"].split(" ")


def text_areas(node: ElementTree.Element, x: float = 0, y: float = 0) -> Iterator[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every text, in the drawing's own coordinates."""
    if moved := re.match(r"translate\(([-\d.]+)[, ]+([-\d.]+)\)", node.get("transform", "")):
        x, y = x + float(moved[1]), y + float(moved[2])
    if node.tag.endswith("foreignObject") and "".join(node.itertext()).strip():
        yield x, y, x + float(node.get("width", "")), y + float(node.get("height", ""))
    for child in node:
        yield from text_areas(child, x, y)


@pytest.mark.parametrize("walk", [None, SENT, FAILED])
def test_no_text_of_the_launch_chart_lies_over_another(walk: tuple[object, ...] | None) -> None:
    areas = list(text_areas(ElementTree.fromstring(chart_svg.render(machine.TABLE, walk))))
    assert len(areas) >= len(machine.STATES) + 14
    for (left, top, right, bottom), other in combinations(areas, 2):
        assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


@pytest.mark.soak
def test_two_processes_draw_the_same_bytes() -> None:
    code = (
        "import sys; from agentlink.app import chart_svg; from agentlink.core.launch import machine;"
        "from agentlink.core.statechart import json, markdown;"
        "sys.stdout.reconfigure(encoding='utf-8');"
        "t = machine.TABLE; print(chart_svg.render(t), markdown.render(t), json.render(t))"
    )
    drawn = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=50,
        ).stdout
        for seed in ("1", "2")
    ]
    assert drawn[0] == drawn[1]
    assert chart_svg.render(machine.TABLE).encode() in drawn[0].replace(b"\r\n", b"\n")


def test_without_mermaidx_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    with pytest.raises(chart_svg.DrawingUnavailable, match=r"pip install 'dsh-agentlink\[dev\]'"):
        chart_svg.render(machine.TABLE)


def test_text_that_mermaidx_refuses_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_svg.mermaid, "render", lambda *_: "no such diagram")
    with pytest.raises(chart_svg.DrawingFailed) as refusal:
        chart_svg.render(machine.TABLE)
    assert refusal.value.machine == "launch"
