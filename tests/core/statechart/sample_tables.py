"""Tables for these tests: a small one by hand, any small one by Hypothesis, and a reader of drawn charts."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise

from hypothesis import strategies as st

from agentlink.core.statechart.table import START, Row, State, Table, checked, lint

GATE = Table(
    "gate",
    "A gate",
    (State("shut", "nobody passes"), State("open", "anybody passes"), State("gone", "torn down", final=True)),
    (
        Row(START, "gate/built", "shut", note="built"),
        Row("shut", "gate/pushed", "open", "has_key", "key fits"),
        Row("shut", "gate/pushed", "shut", "no_key", "stays"),
        Row("open", "gate/pushed", "shut"),
        Row("shut", "gate/broken", "gone"),
        Row("open", "gate/broken", "gone"),
    ),
    {"has_key": "a key is there", "no_key": "no key is there"},
)

Valuation = frozenset[str]
"""The machine's own value in these tests: the names of the guards that hold."""


def guards_of(table: Table) -> Mapping[str, Callable[[Valuation], bool]]:
    """Guards that hold when the value names them."""
    return {name: lambda holding, name=name: name in holding for name in table.guards}


NAMES = st.text(max_size=8)
SEEN = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=8).map("x".__add__)
"""Names that are shown as they are: no control characters, not only spaces."""
LETTERS = st.text("abcdxyz*=._/ -", min_size=1, max_size=4)


@st.composite
def tables(draw: st.DrawFn, names: st.SearchStrategy[str] = LETTERS) -> Table:
    """A sound table of at most five states; loops, forks by guard and ends included."""
    states = draw(st.lists(names.filter(lambda name: name != START), min_size=1, max_size=5, unique=True))
    triggers = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    guards = draw(st.lists(names, max_size=2, unique=True))
    final = draw(st.sets(st.sampled_from(states), max_size=1)) if len(states) > 1 else set()
    inner = [state for state in states if state not in final]
    wanted = [Row(START, triggers[0], inner[0])]
    wanted += [Row(source, triggers[0], target) for source, target in pairwise(inner)]
    wanted += [Row(inner[-1], triggers[-1], target, guard) for target in sorted(final) for guard in [None, *guards]]
    row = st.builds(
        Row,
        st.sampled_from(inner),
        st.sampled_from(triggers),
        st.sampled_from(states),
        st.sampled_from([None, *guards]),
        names,
    )
    rows: list[Row] = []
    taken: dict[tuple[str, str], list[str | None]] = {}
    for each in [*wanted, *draw(st.lists(row, max_size=8))]:
        before = taken.setdefault((each.source, each.trigger), [])
        if None not in before and each.guard not in before:
            before.append(each.guard)
            rows.append(each)
    used = {each.guard for each in rows}
    notes = {name: draw(names) for name in guards if name in used}
    drafts = [State(name, draw(names), final=name in final) for name in states]
    reached = Table(draw(names), draw(names), tuple(drafts), tuple(rows), notes)
    lost = {defect.removeprefix("unreachable state ") for defect in lint(reached)}
    kept = tuple(state for state in drafts if state.name not in lost)
    return checked(Table(reached.name, reached.title, kept, reached.rows, notes))


Edge = tuple[str, str, str | None, str]
"""Source, trigger as drawn, guard, target."""

_NODE = re.compile(r'\s*(\w+)\("([^"]*)"\)(?::::\w+)?')
_ARROW = re.compile(r'\s*(\w+) -+>\|"([^"]*)"\| (\w+)')
_STEPS = re.compile(r"\d+(, \d+)* · ")


def decoded(text: str) -> str:
    """What a viewer shows for a label's source."""
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text)


def edges_of(mermaid: str) -> list[Edge]:
    """Every edge that the chart shows, those of a box once for each state inside."""
    names, boxes, box, edges = {"start": START}, {}, "", []
    lines = mermaid.split("\n")
    for line in lines:
        if opened := re.match(r"\s*subgraph (\w+)\[", line):
            box = opened[1]
            boxes[box] = []
        elif line.strip() == "end":
            box = ""
        elif node := _NODE.fullmatch(line):
            names[node[1]] = decoded(node[2])
            if box:
                boxes[box].append(decoded(node[2]))
    for line in lines:
        if arrow := _ARROW.fullmatch(line):
            for source in boxes.get(arrow[1]) or [names[arrow[1]]]:
                edges += [(source, trigger, guard, names[arrow[3]]) for trigger, guard in _labels(arrow[2])]
    return edges


def _labels(text: str) -> list[tuple[str, str | None]]:
    labels: list[tuple[str, str | None]] = []
    for line in text.removesuffix("<br/>any state in the box").split("<br/>"):
        if line.startswith("["):
            labels[-1] = (labels[-1][0], decoded(line[1:-1]))
        else:
            labels.append((decoded(_STEPS.sub("", line)), None))
    return labels
