"""The Mermaid text: the table's edges and no others, names unchanged to the reader, one walk marked."""

import re
from copy import deepcopy

import pytest
from hypothesis import given
from msgspec.structs import replace
from transitions.extensions import GraphMachine

from agentlink.core.launch import machine
from agentlink.core.statechart import mermaid
from agentlink.core.statechart.table import START, Row, State, Table, checked
from tests.core.statechart.sample_tables import GATE, NAMES, SEEN, decoded, edges_of, tables
from tests.core.statechart.test_chart import FAILED, SENT


def table_edges(table: Table) -> list[tuple[str, str, str | None, str]]:
    return [(row.source, row.trigger.removeprefix("launch/"), row.guard, row.target) for row in table.rows]


def test_the_launch_chart_shows_each_edge_of_the_table_once() -> None:
    edges = edges_of(mermaid.render(machine.TABLE))
    assert sorted(edges, key=str) == sorted(table_edges(machine.TABLE), key=str)


@pytest.mark.parametrize("walk", [SENT, FAILED])
def test_a_marked_launch_chart_still_shows_the_edges_of_the_table(walk: tuple[object, ...]) -> None:
    assert set(edges_of(mermaid.render(machine.TABLE, walk))) == set(table_edges(machine.TABLE))


def test_the_launch_chart_has_the_edges_of_the_export_of_transitions() -> None:
    states = [START, *(state.name for state in machine.STATES)]
    rows = [{"trigger": row.trigger, "source": row.source, "dest": row.target} for row in machine.ROWS]
    graph = GraphMachine(
        states=states, transitions=rows, initial=START, auto_transitions=False, graph_engine="mermaid"
    ).get_graph()
    theirs = {
        (found[1], trigger.removeprefix("launch/"), found[2])
        for found in re.finditer(r"^ *(\S+) --> (\S+): (.*)$", graph.source, re.MULTILINE)
        for trigger in found[3].split(" | ")
    }
    ours = {(source, trigger, target) for source, trigger, _, target in edges_of(mermaid.render(machine.TABLE))}
    assert len(theirs) == len(machine.ROWS)
    assert ours == theirs


@given(tables(SEEN))
def test_the_chart_of_any_table_shows_its_edges(table: Table) -> None:
    whole = replace(table, name="no trigger starts so")
    assert set(edges_of(mermaid.render(whole))) == {
        (row.source, row.trigger, row.guard, row.target) for row in table.rows
    }


def test_f24_names_and_labels_reach_the_reader_unchanged_and_never_become_syntax() -> None:
    states = ("awaiting input", "end", "state-B", "note", "class", "a<br>b", "s1", "start", "测试 ✓")
    triggers = ("retry: 2; then stop", 'say "hi"', "#1", "<b>", "%%", "&amp;", "`x`", "1. one", "-->|x|", "ﬂ°°35¶ß")
    rows = [Row(START, triggers[0], states[0])]
    rows += [Row(states[0], triggers[number], name) for number, name in enumerate(states[1:], 1)]
    rows += [Row(states[0], triggers[-1], states[1], "is [x] | y")]
    names = tuple(State(name) for name in states)
    table = checked(Table("odd", "Odd", names, tuple(rows), {"is [x] | y": "odd"}))
    text = mermaid.render(table)
    assert edges_of(text) == [(row.source, row.trigger, row.guard, row.target) for row in rows]
    arrows = [line for line in text.split("\n") if "-->" in line]
    assert len(arrows) == len(rows)
    assert all(re.fullmatch(r'  \w+ -->\|"[\w #;.:/\[\]-]*(<br/>\[[\w #;]*\])?"\| \w+', line) for line in arrows)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("two\nlines", ["two", "lines"]),
        ("two\r\nlines\rand more", ["two", "lines", "and more"]),
        ("retry: 2; then stop", ["retry: 2; then stop"]),
        ("bell\x07, tab\t, del\x7f", ["bell␇, tab␉, del␡"]),
        ("half \ud800, old \x85, none \uffff", ["half \ufffd, old \ufffd, none \ufffd"]),
        ("", ["\xa0"]),
        ("  ", ["\xa0\xa0"]),
    ],
)
def test_shown_writes_lines_and_pictures_of_what_no_document_holds(text: str, lines: list[str]) -> None:
    assert [decoded(line) for line in mermaid.shown(text).split("<br/>")] == lines


def test_ordinary_names_stay_readable_in_the_source() -> None:
    assert mermaid.shown("launch/session-created at 12:00:01.120 by not_confirmed") == (
        "launch/session-created at 12:00:01.120 by not_confirmed"
    )


def test_a_title_is_one_quoted_line() -> None:
    text = mermaid.render(replace(GATE, title='A\n"gate" <b> & C:\\x'))
    assert text.startswith('---\ntitle: "A \\"gate\\" ‹b› + C:\\\\x"\nconfig:\n')


def test_the_start_and_the_ends_are_marked() -> None:
    text = mermaid.render(GATE)
    assert "  start -->|" in text
    assert text.count(" --> stop\n") == 1
    assert "  s2_gone --> stop\n" in text
    assert "stop" not in mermaid.render(machine.TABLE)


def test_states_whose_names_differ_only_in_signs_have_their_own_ids() -> None:
    names = ("a b", "a-b", "a_b", "??", "!!")
    rows = tuple(Row(START, name, name) for name in names)
    text = mermaid.render(Table("x", "X", tuple(State(name) for name in names), rows, {}))
    assert edges_of(text) == [(START, name, None, name) for name in names]


def styles(text: str, kind: str) -> list[str]:
    return re.findall(rf'^ +\w+\("([^"]*)"\):::{kind}$', text, re.MULTILINE)


def arrows(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if re.search(r" -+>", line)]


def test_a_successful_walk_is_numbered_coloured_and_dated() -> None:
    text = mermaid.render(machine.TABLE, SENT)
    assert styles(text, "current") == ["prompt-sent"]
    assert styles(text, "visited") == ["requested", "selected", "session-created", "preset-verified", "claimed"]
    assert styles(text, "other") == ["roster-read", "launch-failed"]
    numbered = [found[1] for line in arrows(text) if (found := re.search(r'"(\d+ · [\w-]+)', line))]
    assert numbered == [f"{number} · {step.trigger[7:]}" for number, step in enumerate(SENT, 1)]
    assert "2026-01-01 UTC<br/>1 · requested, 12:00:00.120<br/>2 · selected, 12:00:01.120<br/>" in decoded(text)


@pytest.mark.parametrize("walk", [SENT, FAILED])
def test_exactly_the_passed_arrows_are_styled_as_passed(walk: tuple[object, ...]) -> None:
    text = mermaid.render(machine.TABLE, walk)
    passed, others = re.findall(r"linkStyle ([\d,]+) stroke", text)
    lines = arrows(text)
    assert {int(number) for number in passed.split(",")} == {
        index for index, line in enumerate(lines) if re.search(r'"\d', line)
    }
    assert sorted(map(int, f"{passed},{others}".split(","))) == list(range(len(lines)))


def test_a_step_without_a_known_time_or_attempt_is_listed_as_it_is() -> None:
    walk = tuple(replace(step, at=at, attempt=None) for step, at in zip(SENT[:2], (None, "noon; about"), strict=True))
    text = decoded(mermaid.render(machine.TABLE, walk))
    assert 'path["1 · requested<br/>2 · selected, noon; about"]:::path' in text


def test_attempts_and_days_head_their_steps() -> None:
    times = ("2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z")
    walk = (
        replace(FAILED[0], at=times[0]),
        replace(FAILED[0], trigger="launch/failed", source="requested", target="launch-failed", at=times[1]),
        replace(FAILED[0], source="launch-failed", at=times[1], attempt=2),
    )
    assert (
        "attempt 1, 2026-01-01 UTC<br/>1 · requested, 23:59:59<br/>attempt 1, 2026-01-02 UTC<br/>2 · failed, 00:00:00"
        "<br/>attempt 2, 2026-01-02 UTC<br/>3 · requested, 00:00:00"
    ) in decoded(mermaid.render(machine.TABLE, walk))


@given(tables(NAMES))
def test_equal_tables_give_equal_text_of_plain_lines(table: Table) -> None:
    text = mermaid.render(table)
    assert text == mermaid.render(deepcopy(table))
    assert text.endswith("\n")
    assert len(text.splitlines()) == text.count("\n")
    text.encode()
