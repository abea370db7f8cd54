"""A machine as a Markdown page: its chart, then states, transitions and guards as tables, for people and git hosts."""

import re
from collections.abc import Iterable, Sequence

from agentlink.core.statechart import mermaid
from agentlink.core.statechart.chart import Walk
from agentlink.core.statechart.table import START, Row, Table

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _/.:-]*")
_SYNTAX = re.compile(r"[\\`*_\[\]<>&|#~!$]")
_BREAK = re.compile(r"\r\n|\r|\n")


def render(table: Table, walk: Walk | None = None) -> str:
    """The reference page of a table; with a walk, the path it took is marked and listed. Raises WalkInvalid."""
    chart = mermaid.render(table, walk)
    parts = [f"# {_BREAK.sub(' ', _text(table.title)).strip()}\n", f"```mermaid\n{chart}```\n"]
    if walk:
        parts += ["## Path\n", _table(("step", "at", "attempt", "from", "fact", "to"), _path(walk))]
    parts += ["## States\n", _table(("state", "what is true in it", "final"), _states(table))]
    header = ("from", "fact", "to", "only when", "meaning")
    parts += ["## Transitions\n", _table(header, (_transition(table, row) for row in table.rows))]
    if table.guards:
        guards = ((_name(name), _text(words)) for name, words in sorted(table.guards.items()))
        parts += ["## Guards\n", _table(("guard", "holds when"), guards)]
    return "\n".join(parts)


def _states(table: Table) -> Iterable[Sequence[str]]:
    return ((_name(state.name), _text(state.note), "yes" if state.final else "") for state in table.states)


def _transition(table: Table, row: Row) -> Sequence[str]:
    source = "start" if row.source == START else _name(row.source)
    guard = "" if row.guard is None else _text(table.guards[row.guard])
    return source, _name(row.trigger), _name(row.target), guard, _text(row.note)


def _path(walk: Walk) -> Iterable[Sequence[str]]:
    for number, passed in enumerate(walk, 1):
        source = "start" if passed.source == START else _name(passed.source)
        attempt = "" if passed.attempt is None else str(passed.attempt)
        yield str(number), _text(passed.at or ""), attempt, source, _name(passed.trigger), _name(passed.target)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _name(text: str) -> str:
    """A name in code type; one that code type cannot hold in a table cell is escaped instead."""
    return f"`{text}`" if _NAME.fullmatch(text) and text == text.strip() else _text(text)


def _text(text: str) -> str:
    # As character references: a backslash before a pipe means different things inside and outside a table.
    return _BREAK.sub("<br>", _SYNTAX.sub(lambda found: f"&#{ord(found[0])};", text))
