"""Every line of golden.md, which a person can check by eye."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentlink.core.errors import Failure
from agentlink.core.host.values import Preset
from agentlink.core.routing.explain import explain
from agentlink.core.routing.hints import Hints, parse_hints
from agentlink.core.routing.router import Choice, route
from agentlink.core.routing.rules import Rules, decode_rules
from tests.core.routing import given_rules as made
from tests.requirements import requirement

Answer = tuple[str, str, str]


def _cases() -> list[tuple[str, Rules, tuple[Preset, ...], Hints, Answer]]:
    cases = []
    for part in Path(__file__).with_name("golden.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        written = re.search(r"```toml\n(.*?)```\n\nRoster: ([^\n]*)\n", part, re.DOTALL)
        assert written is not None
        rules = decode_rules(written[1].encode(), name="golden.toml")
        roster = tuple(_preset(entry) for entry in written[2].split(", "))
        for line in part[written.end() :].strip().splitlines()[2:]:
            hints, *answer = (cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
            cases.append((f"{part[0]}: {hints}", rules, roster, _hints(hints), (answer[0], answer[1], answer[2])))
    return cases


def _preset(entry: str) -> Preset:
    name, _, broken = entry.partition(" (broken: ")
    return Preset(name, broken=broken.removesuffix(")") or None)


def _hints(cell: str) -> Hints:
    return parse_hints({} if cell == "(none)" else dict(pair.split("=") for pair in cell.split()))


CASES = _cases()


def test_the_table_has_at_least_a_hundred_lines_and_none_twice() -> None:
    assert len({name for name, *_ in CASES}) == len(CASES) >= 100


@pytest.mark.parametrize(("rules", "roster", "hints", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@requirement("FR-05", "AC-04")
def test_the_router_answers_as_written(
    rules: Rules, roster: tuple[Preset, ...], hints: Hints, expected: Answer
) -> None:
    told = made.outcome(lambda: route(hints, rules, roster))
    if isinstance(told, Failure):
        assert told.prompt_sent is False
    code, *named = made.answer(hints, rules, roster)
    assert (tuple(named) if isinstance(told, Choice) else ("", ", ".join(named))) == expected[1:]
    assert code == expected[0]


@pytest.mark.parametrize(("rules", "roster", "hints", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_explanation_agrees_with_the_table(
    rules: Rules, roster: tuple[Preset, ...], hints: Hints, expected: Answer
) -> None:
    told = explain(hints, rules, roster)
    assert (told.choice.rule if told.choice else told.code) == expected[0]
    assert len(told.rows) == len(rules.rules)
    assert {row.rule for row in told.rows if row.verdict == "best"} == (
        {expected[0]} if told.choice else set(filter(None, expected[2].split(", ")))
    )
