"""The table: lint names every kind of defect and finds none in a sound table."""

import pytest
from hypothesis import given
from msgspec.structs import replace

from agentlink.core.launch import machine
from agentlink.core.statechart.table import START, Row, State, Stepper, Table, TableInvalid, checked, lint
from tests.core.statechart.sample_tables import GATE, guards_of, tables

DEFECTS = {
    "state open is listed twice": replace(GATE, states=(*GATE.states, State("open"))),
    "none is the state before": replace(GATE, states=(*GATE.states, State(START))),
    "unknown source in ajar --gate/built--> open": replace(GATE, rows=(*GATE.rows, Row("ajar", "gate/built", "open"))),
    "unknown target in open --gate/built--> ajar": replace(GATE, rows=(*GATE.rows, Row("open", "gate/built", "ajar"))),
    "way out of a final state: gone": replace(GATE, rows=(*GATE.rows, Row("gone", "gate/built", "shut"))),
    "unknown guard oiled in": replace(GATE, rows=(*GATE.rows, Row("open", "gate/built", "shut", "oiled"))),
    "never taken, an earlier row answers: open": replace(GATE, rows=(*GATE.rows, Row("open", "gate/pushed", "gone"))),
    "never taken, an earlier row answers: shut": replace(
        GATE, rows=(*GATE.rows, Row("shut", "gate/pushed", "gone", "no_key"))
    ),
    "unused guard oiled": replace(GATE, guards={**GATE.guards, "oiled": "it moves"}),
    "unreachable state lost": replace(GATE, states=(*GATE.states, State("lost"))),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_lint_names_each_kind_of_defect(defect: str) -> None:
    found = lint(DEFECTS[defect])
    assert len(found) == 1
    assert found[0].startswith(defect)


def test_lint_finds_a_row_behind_an_unguarded_one() -> None:
    rows = (*GATE.rows, Row("open", "gate/pushed", "gone", "has_key"))
    assert lint(replace(GATE, rows=rows)) == ["never taken, an earlier row answers: open --gate/pushed--> gone"]


def test_checked_refuses_with_every_defect_at_once() -> None:
    broken = replace(GATE, states=(*GATE.states, State("lost"), State("open")))
    with pytest.raises(TableInvalid) as refusal:
        checked(broken)
    assert str(refusal.value) == "gate: state open is listed twice; unreachable state lost"


@given(tables())
def test_any_sound_table_passes(table: Table) -> None:
    assert checked(table) is table


@given(tables())
def test_without_the_row_from_the_start_no_state_is_reachable(table: Table) -> None:
    rows = tuple(row for row in table.rows if row.source != START)
    assert {f"unreachable state {state.name}" for state in table.states} <= set(lint(replace(table, rows=rows)))


def test_the_launch_table_and_the_gate_are_sound() -> None:
    assert lint(machine.TABLE) == []
    assert lint(GATE) == []


def test_stepper_refuses_guards_that_are_not_those_of_the_table() -> None:
    with pytest.raises(TableInvalid, match="no_key"):
        Stepper(GATE, {"has_key": bool})
    with pytest.raises(TableInvalid, match="oiled"):
        Stepper(GATE, {**guards_of(GATE), "oiled": bool})
