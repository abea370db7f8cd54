"""What a drawing of a machine shows: states, arrows, boxes, and the path that one walk took through them.

Every rendering that draws starts here. No arrow of the table is left out; what is drawn as one is drawn so on purpose:
- an arrow that leaves three or more states alike (same trigger, guard and target) is drawn once, from a box around
  them; a step of the walk that took one of those arrows is drawn beside it, on its own;
- the arrows of a state to itself share one loop, because drawing programs lay several loops over each other.
"""

from collections.abc import Iterable

import msgspec

from agentlink.core.statechart.table import START, Row, Table

_BOX_FROM = 3
"""As many arrows alike are drawn as one."""


class Passed(msgspec.Struct, frozen=True):
    """One step that a walk took: the trigger, where from and to, when, in which attempt."""

    trigger: str
    source: str
    target: str
    at: str | None = None
    attempt: int | None = None


Walk = tuple[Passed, ...]


class WalkInvalid(ValueError):
    """The walk is no path through this table."""


class Label(msgspec.Struct, frozen=True):
    """One line on an arrow: the trigger, its guard, and the numbers of the steps that passed it."""

    trigger: str
    guard: str | None = None
    steps: tuple[int, ...] = ()


class Arrow(msgspec.Struct, frozen=True):
    """One drawn arrow; several sources mean that it leaves the box around them."""

    sources: tuple[str, ...]
    target: str
    labels: tuple[Label, ...]

    @property
    def passed(self) -> bool:
        return any(label.steps for label in self.labels)

    @property
    def loop(self) -> bool:
        return self.sources == (self.target,)


class Chart(msgspec.Struct, frozen=True):
    """A table made ready to draw; without a walk, nothing is visited and there is no current state."""

    table: Table
    arrows: tuple[Arrow, ...]
    boxes: tuple[tuple[str, ...], ...]
    walk: Walk = ()
    visited: frozenset[str] = frozenset()
    current: str | None = None


def chart(table: Table, walk: Walk | None = None) -> Chart:
    """The drawing of a table, with the path of the walk marked. Raises WalkInvalid."""
    steps = _steps(table, walk or ())
    boxes, boxed = _boxes(table.rows)
    arrows: list[Arrow] = []
    loops: dict[str, int] = {}
    for index, row in enumerate(table.rows):
        label = Label(row.trigger, row.guard, steps.get(index, ()))
        sources = boxed.get(index)
        if sources is not None:
            if row.source == sources[0]:
                arrows.append(Arrow(sources, row.target, (Label(row.trigger, row.guard),)))
            if label.steps:
                arrows.append(Arrow((row.source,), row.target, (label,)))
        elif row.source == row.target and row.source in loops:
            loop = arrows[loops[row.source]]
            arrows[loops[row.source]] = Arrow(loop.sources, loop.target, (*loop.labels, label))
        else:
            if row.source == row.target:
                loops[row.source] = len(arrows)
            arrows.append(Arrow((row.source,), row.target, (label,)))
    if not walk:
        return Chart(table, tuple(arrows), boxes)
    visited = frozenset(state for step in walk for state in (step.source, step.target))
    return Chart(table, tuple(arrows), boxes, walk, visited, walk[-1].target)


def short_names(table: Table) -> dict[str, str]:
    """Trigger -> what a chart calls it: `launch/claimed` is `claimed` in the chart of `launch`."""
    return {row.trigger: row.trigger.removeprefix(f"{table.name}/") or row.trigger for row in table.rows}


def _steps(table: Table, walk: Walk) -> dict[int, tuple[int, ...]]:
    """Row index -> the numbers of the steps that took it, counted from 1."""
    # Two guards of one trigger may lead to the same state: which one held is not recorded, the first stands for both.
    rows: dict[tuple[str, str, str], int] = {}
    for index, row in enumerate(table.rows):
        rows.setdefault((row.source, row.trigger, row.target), index)
    steps: dict[int, tuple[int, ...]] = {}
    for number, passed in enumerate(walk, 1):
        found = rows.get((passed.source, passed.trigger, passed.target))
        if found is None:
            raise WalkInvalid(
                f"step {number}: {table.name} has no arrow {passed.source} --{passed.trigger}--> {passed.target}"
            )
        if number > 1 and walk[number - 2].target != passed.source:
            raise WalkInvalid(f"step {number} leaves {passed.source}, but step {number - 1} led to another state")
        steps[found] = (*steps.get(found, ()), number)
    return steps


def _boxes(rows: Iterable[Row]) -> tuple[tuple[tuple[str, ...], ...], dict[int, tuple[str, ...]]]:
    """The boxes, which never overlap, and row index -> the box whose arrow stands for that row."""
    alike: dict[tuple[str, str | None, str], list[int]] = {}
    sources = []
    for index, row in enumerate(rows):
        alike.setdefault((row.trigger, row.guard, row.target), []).append(index)
        sources.append(row.source)
    boxes: list[tuple[str, ...]] = []
    boxed: dict[int, tuple[str, ...]] = {}
    for (_, _, target), indexes in sorted(alike.items(), key=lambda item: (-len(item[1]), item[1])):
        members = tuple(sources[index] for index in indexes)
        # The start is no state, and an arrow from a box into itself cannot be drawn.
        if len(members) < _BOX_FROM or target in members or START in members:
            continue
        same = next((box for box in boxes if set(box) == set(members)), None)
        if same is None:
            if any(set(box) & set(members) for box in boxes):
                continue
            same = members
            boxes.append(members)
        boxed.update(dict.fromkeys(indexes, same))
    return tuple(boxes), boxed
