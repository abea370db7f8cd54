"""A machine as Mermaid text that any standard viewer draws; a walk's path is numbered and coloured.

What is odd here, and why:
- It is a `flowchart`, not a `stateDiagram-v2`: only there can one arrow be styled, which is how a walk is shown, and
  there alone can an arrow be made longer, which keeps the text of a state's loop clear of the arrows that leave it.
- Names never become syntax. States have made-up ids, and every character that Mermaid, Markdown or HTML could read
  as its own is written as a code (`#59;`), which viewers turn back into the character after parsing.
"""

import re
from collections.abc import Iterable

from agentlink.core.statechart.chart import Arrow, Chart, Label, Walk, chart, short_names
from agentlink.core.statechart.table import START, Table

_HEAD = """\
config:
  flowchart:
    nodeSpacing: 60
    rankSpacing: 40
    wrappingWidth: 400
---
flowchart TB
"""
_DOT = "classDef dot fill:#555555,stroke:#555555,color:#555555"
_STOP = "classDef stop fill:none,stroke:#555555,stroke-width:2px"
_BOX = "fill:none,stroke:#999999,stroke-dasharray:4 4"
_WALK_STYLES = (
    "classDef other fill:#f5f5f5,stroke:#bbbbbb,color:#666666",
    "classDef visited fill:#d7f0dd,stroke:#2e7d32,color:#12391a",
    "classDef current fill:#ffe8b3,stroke:#b36b00,stroke-width:3px,color:#4d2e00",
    "classDef path fill:#ffffff,stroke:#bbbbbb,color:#333333,text-align:left",
)
_PASSED = "stroke:#2e7d32,stroke-width:3px,color:#12391a"
_NOT_PASSED = "stroke:#bbbbbb,color:#666666"

_PLAIN = re.compile(r"[A-Za-z0-9 ]|(?<=[A-Za-z0-9])[-_/.:](?=[A-Za-z0-9])")
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d{1,3})?)\d*(?:Z|\+00:00)", re.ASCII)


def render(table: Table, walk: Walk | None = None) -> str:
    """The chart of a table as Mermaid text, with the walk's path marked. Raises WalkInvalid."""
    drawn = chart(table, walk)
    ids = _ids(table)
    arrows = list(_arrows(drawn, ids))
    lines = [*_nodes(drawn, ids), *arrows]
    if drawn.walk:
        lines += [f'path["{_path(drawn)}"]:::path', *_WALK_STYLES]
        passed = [index for index, arrow in enumerate(drawn.arrows) if arrow.passed]
        others = [index for index in range(len(arrows)) if index not in passed]
        # Not `linkStyle default`: an arrow's head takes the first colour it is given, and would stay grey.
        for numbers, style in ((passed, _PASSED), (others, _NOT_PASSED)):
            lines += [f"linkStyle {','.join(map(str, numbers))} {style}"] if numbers else []
    body = "".join(f"  {line}\n" for line in lines)
    return f"---\ntitle: {_title(table.title)}\n{_HEAD}{body}"


def shown(text: str) -> str:
    """The text written so that a reader sees it unchanged in a quoted Mermaid label."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "<br/>".join(_line(line) for line in lines)


def _line(text: str) -> str:
    parts = []
    for index, char in enumerate(text):
        if _PLAIN.match(text, index) or (not char.isascii() and char.isalpha()):
            parts.append(char)
        else:
            parts.append(f"#{_drawable(ord(char))};")
    # A label without any text would be drawn as the state's made-up id.
    return "".join(parts) if text.strip(" ") else "#160;" * max(1, len(text))


def _drawable(code: int) -> int:
    """The character itself, or the picture of one that no document can hold."""
    if code < 0x20:
        return 0x2400 + code
    if code == 0x7F:
        return 0x2421
    if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE:
        return 0xFFFD
    return code


def _title(text: str) -> str:
    # Viewers read a title as HTML, and codes do not work there: look-alikes stand for its three marks.
    flat = " ".join(text.split()).translate(str.maketrans("<>&", "‹›+"))
    safe = "".join(chr(_drawable(ord(char))) for char in flat)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ids(table: Table) -> dict[str, str]:
    ids = {START: "start"}
    for number, state in enumerate(table.states):
        slug = re.sub(r"[^A-Za-z0-9]+", "_", state.name).strip("_")
        ids[state.name] = f"s{number}_{slug}" if slug else f"s{number}"
    return ids


def _nodes(drawn: Chart, ids: dict[str, str]) -> Iterable[str]:
    yield 'start(("#160;")):::dot'
    yield _DOT
    inside = {name for box in drawn.boxes for name in box}
    for number, box in enumerate(drawn.boxes):
        yield f'subgraph box{number}["#160;"]'
        yield from (f"  {_node(drawn, ids, name)}" for name in box)
        yield "end"
        yield f"style box{number} {_BOX}"
    yield from (_node(drawn, ids, state.name) for state in drawn.table.states if state.name not in inside)
    if any(state.final for state in drawn.table.states):
        yield 'stop((("#160;"))):::stop'
        yield _STOP


def _node(drawn: Chart, ids: dict[str, str], name: str) -> str:
    style = ""
    if drawn.walk:
        style = ":::current" if name == drawn.current else ":::visited" if name in drawn.visited else ":::other"
    return f'{ids[name]}("{shown(name)}"){style}'


def _arrows(drawn: Chart, ids: dict[str, str]) -> Iterable[str]:
    short = short_names(drawn.table)
    looped = {arrow.target for arrow in drawn.arrows if arrow.loop}
    place = {START: -1, **{state.name: number for number, state in enumerate(drawn.table.states)}}
    for arrow in drawn.arrows:
        boxed = len(arrow.sources) > 1
        source = f"box{drawn.boxes.index(arrow.sources)}" if boxed else ids[arrow.sources[0]]
        # A loop's text hangs near its state; the longer arrow keeps its own text below that one.
        down = not boxed and place[arrow.sources[0]] < place[arrow.target]
        line = "---->" if down and arrow.sources[0] in looped else "-->"
        yield f'{source} {line}|"{_text(arrow, short)}"| {ids[arrow.target]}'
    # Arrows are styled by number: those to the end mark come last, so that the numbers stay those of the chart.
    yield from (f"{ids[state.name]} --> stop" for state in drawn.table.states if state.final)


def _text(arrow: Arrow, short: dict[str, str]) -> str:
    parts = [_label(label, short) for label in arrow.labels]
    return "<br/>".join([*parts, "any state in the box"] if len(arrow.sources) > 1 else parts)


def _label(label: Label, short: dict[str, str]) -> str:
    numbers = ", ".join(map(str, label.steps))
    name = shown(short[label.trigger])
    guard = "" if label.guard is None else f"<br/>[{shown(label.guard)}]"
    return f"{numbers} · {name}{guard}" if numbers else f"{name}{guard}"


def _path(drawn: Chart) -> str:
    """What the box beside the chart lists: each step and when, under its attempt and day."""
    short = short_names(drawn.table)
    several = len({passed.attempt for passed in drawn.walk}) > 1
    lines, last = [], ""
    for number, passed in enumerate(drawn.walk, 1):
        day, clock = _when(passed.at or "")
        heads = [f"attempt {passed.attempt}"] if several and passed.attempt is not None else []
        head = ", ".join([*heads, f"{day} UTC"] if day else heads)
        if head and head != last:
            lines.append(head)
        last = head or last
        lines.append(f"{number} · {shown(short[passed.trigger])}" + (f", {clock}" if clock else ""))
    return "<br/>".join(lines)


def _when(at: str) -> tuple[str, str]:
    """Day and time of day; a time in another form is shown whole."""
    found = _CLOCK.fullmatch(at)
    return (found[1], found[2]) if found else ("", shown(at) if at else "")
