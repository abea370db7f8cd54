from __future__ import annotations

import msgspec
from hypothesis import given

from agentlink.core.host.values import Preset
from agentlink.core.routing.explain import explain
from agentlink.core.routing.hints import Hints
from agentlink.core.routing.rules import Condition, Rule, rules_of
from tests.core.routing import given_rules as made
from tests.requirements import requirement

RULES = rules_of(
    [
        Rule(id="any", preset="minimal", catch_all=True),
        Rule(
            id="other-kind", preset="standard", match=(Condition("kind", ("testing",)), Condition("scale", ("large",)))
        ),
        Rule(
            id="no-hint",
            preset="gone",
            match=(Condition("kind", ("review",)), Condition("evidence", ("none-required",))),
        ),
        Rule(id="best", preset="broken", match=(Condition("kind", ("review",)),)),
        Rule(id="excluded", preset="standard", catch_all=True, exclude=(Condition("scale", ("large",)),)),
    ]
)
ROSTER = [Preset("standard"), Preset("minimal"), Preset("broken", broken="mount failed")]
HINTS = Hints(kind="review", scale="large")


@requirement("FR-08")
def test_every_rule_says_why_it_won_or_lost() -> None:
    told = explain(HINTS, RULES, ROSTER)
    rows = [msgspec.to_builtins(row) for row in told.rows]
    empty: dict[str, tuple[str, ...]] = {"matched": (), "differs": (), "withoutHint": (), "excludedBy": ()}
    best = {"rule": "best", "preset": "broken", "verdict": "best", "rank": (3, 0, 0), "target": "broken"}
    any_ = {"rule": "any", "preset": "minimal", "verdict": "outranked", "rank": (0, 0, 0), "target": "usable"}
    no_hint = {"rule": "no-hint", "preset": "gone", "verdict": "no_match", "rank": (3, 1, 0), "target": "absent"}
    other = {"rule": "other-kind", "preset": "standard", "verdict": "no_match", "rank": (3, 1, 0), "target": "usable"}
    excluded = {"rule": "excluded", "preset": "standard", "verdict": "excluded", "rank": (0, 0, 0), "target": "usable"}
    assert rows == [
        {**best, **empty, "matched": ("kind",)},
        {**any_, **empty},
        {**no_hint, **empty, "matched": ("kind",), "withoutHint": ("evidence",)},
        {**other, **empty, "matched": ("scale",), "differs": ("kind",)},
        {**excluded, **empty, "excludedBy": ("scale",)},
    ]
    assert (told.choice, told.code, told.hints) == (None, "preset_broken", {"kind": "review", "scale": "large"})


def test_without_a_roster_targets_are_unknown_and_the_choice_is_told_all_the_same() -> None:
    told = explain(HINTS, RULES, None)
    assert {row.target for row in told.rows} == {"unknown"}
    assert told.choice is not None
    assert told.choice.rule == "best"
    twins = rules_of([Rule(id=name, preset=name, catch_all=True) for name in ("b", "a")])
    told = explain(Hints(), twins, None)
    assert told.code == "ambiguous_route"
    assert told.details == {"rules": [{"rule": n, "agentPreset": n, "target": "unknown"} for n in ("a", "b")]}


@requirement("FR-08", "NFR-02")
def test_two_hundred_rows_are_shown_and_the_winner_is_among_them() -> None:
    rules = [Rule(id=f"r{n}", preset="p", match=(Condition("kind", ("review",)),)) for n in range(300)]
    told = explain(Hints(scale="small"), rules_of([*rules, Rule(id="z", preset="p", catch_all=True)]), [Preset("p")])
    assert (len(told.rows), told.more_rows, told.rows[0].rule) == (200, 101, "z")


@given(made.hints(), made.rules(min_size=0), made.rosters())
def test_an_explanation_is_the_routers_answer_and_does_not_depend_on_the_order_of_rules(
    hints: Hints, rules: list[Rule], roster: list[Preset]
) -> None:
    told = explain(hints, rules_of(rules), roster)
    assert told == explain(hints, rules_of(reversed(rules)), roster)
    answer = made.answer(hints, rules_of(rules), roster)
    assert (told.choice.rule if told.choice else told.code) == answer[0]
    assert sorted(row.rule for row in told.rows) == sorted(rule.id for rule in rules)
    verdicts = [row.verdict in ("best", "outranked") for row in told.rows]
    assert verdicts == sorted(verdicts, reverse=True)
