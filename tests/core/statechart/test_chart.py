"""What is drawn: no arrow is lost, boxes and loops are made on purpose, a walk is marked."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentlink.core.launch import machine
from agentlink.core.statechart import json, markdown, mermaid
from agentlink.core.statechart.chart import Chart, Passed, Walk, WalkInvalid, chart, short_names
from agentlink.core.statechart.table import START, Row, State, Table
from tests.core.statechart.sample_tables import GATE, NAMES, tables


def launch_walk(*steps: str) -> Walk:
    """A walk of the launch: `fact>state` each."""
    walk, source = [], START
    for second, step in enumerate(steps):
        trigger, _, target = step.partition(">")
        walk.append(Passed(f"launch/{trigger}", source, target, f"2026-01-01T12:00:{second:02d}.120Z", 1))
        source = target
    return tuple(walk)


SENT = launch_walk(
    "requested>requested",
    "selected>selected",
    "session-created>session-created",
    "preset-verified>preset-verified",
    "claimed>claimed",
    "prompt-sent>prompt-sent",
    "prompt-confirmed>prompt-sent",
)
FAILED = launch_walk("requested>requested", "selected>selected", "failed>launch-failed")


def drawn_rows(drawn: Chart) -> set[tuple[str, str, str | None, str]]:
    return {
        (source, label.trigger, label.guard, arrow.target)
        for arrow in drawn.arrows
        for source in arrow.sources
        for label in arrow.labels
    }


@given(tables(NAMES))
def test_every_row_of_any_table_is_drawn_and_no_other(table: Table) -> None:
    rows = [(row.source, row.trigger, row.guard, row.target) for row in table.rows]
    drawn = chart(table)
    assert drawn_rows(drawn) == set(rows)
    assert sum(len(arrow.sources) * len(arrow.labels) for arrow in drawn.arrows) == len(rows)
    inside = [state for box in drawn.boxes for state in box]
    assert len(inside) == len(set(inside))


def test_the_launch_failures_leave_one_box() -> None:
    drawn = chart(machine.TABLE)
    in_flight = tuple(state.name for state in machine.STATES[:6])
    assert drawn.boxes == (in_flight,)
    failing = [arrow.sources for arrow in drawn.arrows if arrow.labels[0].trigger == "launch/failed"]
    assert failing == [in_flight, ("prompt-sent",)]


def test_the_loops_of_a_state_are_one_arrow() -> None:
    loops = [arrow for arrow in chart(machine.TABLE).arrows if arrow.loop and arrow.target == "launch-failed"]
    assert [[label.trigger for label in arrow.labels] for arrow in loops] == [
        ["launch/session-lost", "launch/abandoned"]
    ]


def star(rows: tuple[Row, ...]) -> Table:
    states = tuple(State(name) for name in ("a", "b", "c", "d", "end"))
    return Table("star", "Star", states, (*(Row(START, f"to-{name}", name) for name in "abcd"), *rows), {})


def test_two_arrows_from_the_same_states_share_a_box() -> None:
    stops, fails = (tuple(Row(name, trigger, "end") for name in "abc") for trigger in ("stop", "fail"))
    drawn = chart(star((*stops, *fails)))
    assert drawn.boxes == (("a", "b", "c"),)
    assert [arrow.sources for arrow in drawn.arrows[4:]] == [("a", "b", "c"), ("a", "b", "c")]


def test_boxes_that_would_overlap_are_not_drawn_and_the_larger_one_stays() -> None:
    stops = tuple(Row(name, "stop", "end") for name in "abc")
    fails = tuple(Row(name, "fail", "end") for name in "abcd")
    drawn = chart(star((*stops, *fails)))
    assert drawn.boxes == (("a", "b", "c", "d"),)
    assert drawn_rows(drawn) == {(row.source, row.trigger, None, row.target) for row in drawn.table.rows}


def test_two_states_the_start_or_the_target_itself_are_never_boxed() -> None:
    two = tuple(Row(name, "stop", "end") for name in "ab")
    into_itself = tuple(Row(name, "again", "c") for name in "abc")
    from_start = (Row(START, "skip", "end"), *(Row(name, "skip", "end") for name in "ab"))
    for rows in (two, into_itself, from_start):
        assert chart(star(rows)).boxes == ()


def test_a_walk_marks_arrows_in_order_states_and_the_current_one() -> None:
    drawn = chart(machine.TABLE, SENT)
    marked = {label.trigger: label.steps for arrow in drawn.arrows for label in arrow.labels if label.steps}
    assert marked == {passed.trigger: (number,) for number, passed in enumerate(SENT, 1)}
    assert drawn.current == "prompt-sent"
    assert drawn.visited == {START, *(state.name for state in machine.STATES)} - {"roster-read", "launch-failed"}


def test_a_step_out_of_a_box_is_drawn_beside_it() -> None:
    drawn = chart(machine.TABLE, FAILED)
    failing = [arrow for arrow in drawn.arrows if arrow.labels[0].trigger == "launch/failed"]
    assert [(len(arrow.sources), arrow.sources[0], arrow.labels[0].steps) for arrow in failing] == [
        (6, "requested", ()),
        (1, "selected", (3,)),
        (1, "prompt-sent", ()),
    ]


def test_an_arrow_passed_twice_carries_both_numbers() -> None:
    walk = launch_walk("requested>requested", "failed>launch-failed", "requested>requested", "failed>launch-failed")
    steps = [label.steps for arrow in chart(machine.TABLE, walk).arrows for label in arrow.labels if label.steps]
    assert steps == [(1,), (2, 4), (3,)]


@pytest.mark.parametrize("render", [chart, mermaid.render, markdown.render, json.render])
def test_a_walk_that_is_no_path_of_the_table_is_refused(render: object) -> None:
    assert callable(render)
    with pytest.raises(WalkInvalid, match="step 2: launch has no arrow requested --launch/claimed--> claimed"):
        render(machine.TABLE, launch_walk("requested>requested", "claimed>claimed"))
    with pytest.raises(WalkInvalid, match="step 2 leaves selected"):
        render(machine.TABLE, (SENT[0], SENT[2]))


def test_an_empty_walk_marks_nothing() -> None:
    assert chart(machine.TABLE, ()) == chart(machine.TABLE)
    assert mermaid.render(machine.TABLE, ()) == mermaid.render(machine.TABLE)


def test_short_names_drop_only_the_name_of_the_machine() -> None:
    rows = (*GATE.rows, Row("open", "door/pushed", "shut"), Row("open", "gate/", "shut"))
    short = short_names(replace(GATE, rows=rows))
    assert short["gate/pushed"] == "pushed"
    assert short["door/pushed"] == "door/pushed"
    assert short["gate/"] == "gate/"


@given(tables(NAMES), st.booleans())
def test_json_gives_the_table_back(table: Table, marked: bool) -> None:
    walk = (Passed(table.rows[0].trigger, START, table.rows[0].target, attempt=1),) if marked else None
    text = json.render(table, walk)
    assert text.endswith("}\n")
    shape = msgspec.json.decode(text)
    states = tuple(State(**state) for state in shape["states"])
    rows = tuple(Row(row["from"], row["fact"], row["to"], row["guard"], row["note"]) for row in shape["transitions"])
    assert Table(shape["name"], shape["title"], states, rows, shape["guards"]) == table
    assert shape["start"] == START
    assert list(shape["guards"]) == sorted(table.guards)
    assert ("walk" in shape) == marked
    if walk is not None:
        step = {"step": 1, "from": START, "fact": walk[0].trigger, "to": walk[0].target, "at": None, "attempt": 1}
        assert shape["walk"] == [step]


def test_markdown_lists_every_state_row_and_guard() -> None:
    lines = markdown.render(machine.TABLE, FAILED).split("\n")
    assert lines[0] == "# Launch of one delegated task"
    chart_text = mermaid.render(machine.TABLE, FAILED)
    assert "\n".join(lines[2 : lines.index("```", 3)]) == "```mermaid\n" + chart_text.rstrip("\n")
    for state in machine.STATES:
        assert f"| `{state.name}` | {state.note} |  |" in lines
    for row in machine.ROWS:
        source = "start" if row.source == START else f"`{row.source}`"
        guard = machine.GUARDS[row.guard] if row.guard else ""
        assert f"| {source} | `{row.trigger}` | `{row.target}` | {guard} | {row.note} |" in lines
    for name, words in machine.GUARDS.items():
        assert f"| `{name}` | {words} |" in lines
    assert "| 3 | 2026-01-01T12:00:02.120Z | 1 | `selected` | `launch/failed` | `launch-failed` |" in lines


@given(tables(NAMES))
def test_markdown_cells_never_break_their_row(table: Table) -> None:
    text = markdown.render(table)
    assert "\r" not in text
    page = text[text.index("## States") :]
    for block, cells in zip(page.split("## ")[1:], (3, 5, 2), strict=False):
        rows = [line for line in block.split("\n")[1:] if line]
        assert {line.count("|") for line in rows} == {cells + 1}
    assert text.count("\n## ") == (3 if table.guards else 2)
