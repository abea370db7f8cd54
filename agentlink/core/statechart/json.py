"""A machine as JSON, for programs.

    {"name", "title", "start",
     "states":      [{"name", "note", "final"}],
     "transitions": [{"from", "fact", "to", "guard", "note"}],
     "guards":      {name: condition in words},
     "walk":        [{"step", "from", "fact", "to", "at", "attempt"}]}

`start` names the state before the first fact: it stands in `from` and is not among the states. States and transitions
keep the table's order, which has a meaning: of two transitions from one state on one fact, the first whose guard holds
is taken. `guard`, `at` and `attempt` are null where there is none; `walk` is there only when a walk was given.
"""

from typing import Any

import msgspec

from agentlink.core.statechart.chart import Walk, chart
from agentlink.core.statechart.table import START, Table


def render(table: Table, walk: Walk | None = None) -> str:
    """The table as JSON text; equal tables give equal text. Raises WalkInvalid."""
    shape: dict[str, Any] = {
        "name": table.name,
        "title": table.title,
        "start": START,
        "states": [{"name": state.name, "note": state.note, "final": state.final} for state in table.states],
        "transitions": [
            {"from": row.source, "fact": row.trigger, "to": row.target, "guard": row.guard, "note": row.note}
            for row in table.rows
        ],
        "guards": dict(sorted(table.guards.items())),
    }
    if walk is not None:
        shape["walk"] = [
            {
                "step": number,
                "from": passed.source,
                "fact": passed.trigger,
                "to": passed.target,
                "at": passed.at,
                "attempt": passed.attempt,
            }
            for number, passed in enumerate(chart(table, walk).walk, 1)
        ]
    return msgspec.json.format(msgspec.json.encode(shape), indent=2).decode() + "\n"
