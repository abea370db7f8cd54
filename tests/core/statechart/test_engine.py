"""The live engine: the same answers as the dictionary, everywhere, and nothing left behind."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentlink.core.launch import machine
from agentlink.core.launch.state import GUARDS, Launch
from agentlink.core.statechart.engine import Engine, IllegalStep
from agentlink.core.statechart.table import START, Row, State, Stepper, Table, TableInvalid
from tests.core.statechart.sample_tables import GATE, Valuation, guards_of, tables


def valuations(table: Table) -> Iterator[Valuation]:
    names = sorted(table.guards)
    for size in range(len(names) + 1):
        yield from map(frozenset, combinations(names, size))


def assert_agreement(table: Table) -> int:
    """Engine and Stepper on every state, trigger and guard valuation; how many steps were legal."""
    guards = guards_of(table)
    engine, stepper = Engine(table, guards), Stepper(table, guards)
    triggers = list(dict.fromkeys(row.trigger for row in table.rows))
    legal = 0
    for state in (START, *(state.name for state in table.states)):
        for holding in valuations(table):
            expected = {trigger: stepper.target(state, trigger, holding) for trigger in triggers}
            possible = [trigger for trigger, target in expected.items() if target is not None]
            legal += len(possible)
            assert sorted(engine.allowed(state, holding)) == sorted(possible)
            for trigger, target in expected.items():
                if target is None:
                    with pytest.raises(IllegalStep):
                        engine.step(state, trigger, holding)
                else:
                    assert engine.step(state, trigger, holding) == target
    return legal


def test_engine_and_stepper_agree_on_every_state_trigger_and_guard_of_the_launch() -> None:
    # Counted by hand from the rows: each unguarded row is legal in all 128 valuations, each guarded one in 64.
    unguarded = sum(row.guard is None for row in machine.ROWS)
    assert assert_agreement(machine.TABLE) == unguarded * 128 + (len(machine.ROWS) - unguarded) * 64


@given(tables())
def test_engine_and_stepper_agree_on_any_small_table(table: Table) -> None:
    assert assert_agreement(table) > 0


@given(tables(), st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 1))), max_size=12))
def test_engine_and_stepper_take_the_same_path(table: Table, moves: list[tuple[int, set[int]]]) -> None:
    guards = guards_of(table)
    engine, stepper = Engine(table, guards), Stepper(table, guards)
    triggers, names = sorted({row.trigger for row in table.rows}), sorted(table.guards)
    state = START
    for number, held in moves:
        trigger = triggers[number % len(triggers)]
        holding = frozenset(name for index, name in enumerate(names) if index in held)
        target = stepper.target(state, trigger, holding)
        if target is not None:
            assert engine.step(state, trigger, holding) == target
            state = target


def test_the_first_guard_that_holds_wins() -> None:
    engine = Engine(GATE, guards_of(GATE))
    assert engine.step("shut", "gate/pushed", frozenset({"has_key", "no_key"})) == "open"
    assert engine.step("shut", "gate/pushed", frozenset({"no_key"})) == "shut"


def test_an_illegal_step_names_state_and_trigger() -> None:
    engine = Engine(GATE, guards_of(GATE))
    for state, trigger in (
        ("shut", "gate/pushed"),
        ("open", "gate/built"),
        ("gone", "gate/broken"),
        ("open", "no such trigger"),
        ("no such state", "gate/pushed"),
    ):
        with pytest.raises(IllegalStep) as refusal:
            engine.step(state, trigger, frozenset())
        assert (refusal.value.state, refusal.value.trigger) == (state, trigger)


def test_allowed_of_a_failed_launch_tells_what_its_session_permits() -> None:
    engine = Engine(machine.TABLE, GUARDS)
    failed = Launch(state=machine.LAUNCH_FAILED)
    with_session = replace(failed, session="session-1")
    assert engine.allowed(failed.state, failed) == ("launch/requested",)
    assert engine.allowed(failed.state, with_session) == (
        "launch/recovered",
        "launch/session-lost",
        "launch/abandoned",
    )
    assert engine.allowed(failed.state, replace(with_session, abandoned=True)) == ("launch/session-lost",)
    assert engine.allowed("gone", failed) == ()


def test_names_that_transitions_reads_as_its_own_are_plain_names_here() -> None:
    table = Table(
        "odd",
        "Odd",
        (State("*"), State("="), State("model"), State("to_")),
        (
            Row(START, "trigger", "*"),
            Row("*", "state", "="),
            Row("=", "is_s1", "model"),
            Row("model", "__init__", "to_"),
        ),
        {},
    )
    engine: Engine[None] = Engine(table, {})
    assert engine.step("*", "state", None) == "="
    assert engine.step("=", "is_s1", None) == "model"
    assert engine.step("model", "__init__", None) == "to_"
    assert engine.allowed("model", None) == ("__init__",)


def test_a_guard_that_breaks_is_heard_and_leaves_nothing_behind() -> None:
    def broken(_: object) -> bool:
        raise LookupError("guard")

    engine = Engine(GATE, {"has_key": broken, "no_key": broken})
    with pytest.raises(LookupError):
        engine.step("shut", "gate/pushed", object())
    with pytest.raises(LookupError):
        engine.allowed("shut", object())
    assert engine.step("open", "gate/pushed", object()) == "shut"
    assert engine._machine.models == []


def test_engine_refuses_guards_that_are_not_those_of_the_table() -> None:
    with pytest.raises(TableInvalid, match="no_key"):
        Engine(GATE, {"has_key": bool})


def test_importing_the_engine_does_not_import_transitions() -> None:
    code = "import sys, agentlink.core.statechart.engine; sys.exit('transitions' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
