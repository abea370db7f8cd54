from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlink.core.errors import NEXT, Code, Failure
from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import Hints
from agentlink.core.routing.router import not_configured, route
from agentlink.core.routing.rules import Condition, Rule, Rules, rules_of
from tests.core.routing import given_rules as made
from tests.requirements import requirement

REVIEW = (Condition("kind", ("review",)),)
many = settings(max_examples=50)


def refusal(hints: Hints, rules: Rules, roster: list[Preset]) -> Failure:
    with pytest.raises(Failure) as caught:
        route(hints, rules, roster)
    assert caught.value.prompt_sent is False
    return caught.value


# Properties


@many
@given(made.hints(), made.rules(), made.rosters())
@requirement("FR-05", "FR-09")
def test_the_router_does_what_the_design_says_word_for_word(
    hints: Hints, rules: list[Rule], roster: list[Preset]
) -> None:
    assert made.answer(hints, rules_of(rules), roster) == made.slow_answer(hints, rules, roster)


@many
@given(made.hints(), made.rules(), made.rosters(), st.randoms(use_true_random=False))
@requirement("FR-05")
def test_equal_input_gives_an_equal_answer_and_the_order_of_rules_never_matters(
    hints: Hints, rules: list[Rule], roster: list[Preset], random: object
) -> None:
    first = made.answer(hints, rules_of(rules), roster)
    assert made.answer(hints, rules_of(rules), roster) == first
    assert made.answer(hints, rules_of(reversed(rules)), roster) == first
    shuffled = list(rules)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert made.answer(hints, rules_of(shuffled), roster) == first


@many
@given(made.hints(), made.rules(), made.rosters())
def test_removing_a_losing_rule_never_changes_the_choice(hints: Hints, rules: list[Rule], roster: list[Preset]) -> None:
    choice = made.outcome(lambda: route(hints, rules_of(rules), roster))
    if isinstance(choice, Failure):
        return
    for loser in rules:
        if loser.id != choice.rule:
            assert route(hints, rules_of(rule for rule in rules if rule is not loser), roster) == choice


@many
@given(made.hints(), made.rules(), made.rosters())
@requirement("FR-03", "AC-11")
def test_the_choice_is_never_broken_or_absent(hints: Hints, rules: list[Rule], roster: list[Preset]) -> None:
    choice = made.outcome(lambda: route(hints, rules_of(rules), roster))
    if isinstance(choice, Failure):
        return
    entries = [preset for preset in roster if preset.id == choice.preset]
    assert entries
    assert all(preset.broken is None for preset in entries)


@many
@given(made.hints(), made.rules(), made.rosters())
@requirement("FR-10", "SI-07")
def test_no_lower_rule_is_reached_because_a_better_one_fails(
    hints: Hints, rules: list[Rule], roster: list[Preset]
) -> None:
    usable = [Preset(name) for name in made.PRESETS]
    with_all = made.answer(hints, rules_of(rules), usable)
    with_some = made.answer(hints, rules_of(rules), roster)
    if with_all[0] in {rule.id for rule in rules}:  # the one best rule: what the Host has can only refuse it
        assert with_some in (with_all, ("preset_not_found", with_all[0]), ("preset_broken", with_all[0]))
    else:
        assert with_some[0] in ("ambiguous_route", "no_eligible_route")


# Refusals


def test_f06_an_absent_preset_names_itself_and_the_ids_that_exist() -> None:
    rules = rules_of([Rule(id="build", preset="builder", match=REVIEW)])
    roster = [Preset("standard", is_default=True), Preset("reviewer", broken="mount failed")]
    failure = refusal(Hints(kind="review"), rules, roster)
    assert failure.code is Code.PRESET_NOT_FOUND
    assert failure.details == {"rule": "build", "agentPreset": "builder", "available": ["standard", "reviewer"]}
    assert "build" in failure.next_step


def test_f06_a_broken_preset_gives_the_hosts_reason_without_its_secrets() -> None:
    rules = rules_of([Rule(id="check", preset="reviewer", match=REVIEW)])
    failure = refusal(Hints(kind="review"), rules, [Preset("reviewer", broken="mount\x1b failed: token=S3CR3T")])
    assert failure.code is Code.PRESET_BROKEN
    assert failure.details == {
        "rule": "check",
        "agentPreset": "reviewer",
        "reason": "mount\ufffd failed: token=[redacted]",
    }
    assert "S3CR3T" not in failure.message


def test_a_preset_that_is_listed_twice_is_broken_if_either_entry_is() -> None:
    rules = rules_of([Rule(id="check", preset="p", match=REVIEW)])
    for roster in ([Preset("p"), Preset("p", broken="")], [Preset("p", broken=""), Preset("p")]):
        failure = refusal(Hints(kind="review"), rules, roster)
        assert failure.code is Code.PRESET_BROKEN
        assert failure.details == {"rule": "check", "agentPreset": "p", "reason": "no reason given"}


@requirement("FR-09")
def test_a_tie_of_presets_that_cannot_be_used_gives_five_reasons_and_a_count() -> None:
    rules = rules_of([Rule(id=f"r{n}", preset="gone" if n else "broken", match=REVIEW) for n in range(7)])
    failure = refusal(Hints(kind="review"), rules, [Preset("broken", broken="mount failed")])
    assert failure.code is Code.NO_ELIGIBLE_ROUTE
    assert failure.details is not None
    assert failure.details["reasons"][:2] == [
        {"rule": "r0", "agentPreset": "broken", "code": "preset_broken", "reason": "mount failed"},
        {"rule": "r1", "agentPreset": "gone", "code": "preset_not_found"},
    ]
    assert (len(failure.details["reasons"]), failure.details["reasonsMore"]) == (5, 2)


@requirement("FR-05", "AC-07")
def test_an_ambiguity_gives_twenty_ids_in_order_with_their_targets_and_a_count() -> None:
    presets = ("here", "broken", "gone")
    rules = rules_of([Rule(id=f"r{n:02}", preset=presets[n % 3], match=REVIEW) for n in reversed(range(23))])
    failure = refusal(Hints(kind="review"), rules, [Preset("here"), Preset("broken", broken="x")])
    assert failure.code is Code.AMBIGUOUS_ROUTE
    assert failure.details is not None
    rows = failure.details["rules"]
    assert [row["rule"] for row in rows] == [f"r{n:02}" for n in range(20)]
    assert [row["target"] for row in rows[:3]] == ["usable", "broken", "absent"]
    assert failure.details["rulesMore"] == 3
    assert failure.message.endswith("r00, r01, r02, r03, r04, …")


def test_a_host_with_many_presets_is_told_by_twenty_ids_and_a_count() -> None:
    rules = rules_of([Rule(id="a", preset="gone", match=REVIEW)])
    details = refusal(Hints(kind="review"), rules, [Preset(f"p{n}") for n in range(25)]).details
    assert details is not None
    assert (len(details["available"]), details["availableMore"]) == (20, 5)


@requirement("FR-05", "AC-06")
def test_without_hints_only_a_catch_all_rule_matches() -> None:
    named = Rule(id="a", preset="p", match=REVIEW)
    failure = refusal(Hints(), rules_of([named]), [Preset("p")])
    assert (failure.code, failure.details) == (Code.NO_ELIGIBLE_ROUTE, {"hints": {}, "rules": 1})
    every = Rule(id="z", preset="p", catch_all=True)
    assert route(Hints(), rules_of([named, every]), [Preset("p")]).rule == "z"


def test_hints_that_no_rule_takes_are_repeated() -> None:
    failure = refusal(Hints(kind="testing", scale="huge"), rules_of([Rule(id="a", preset="p", match=REVIEW)]), [])
    assert failure.details == {"hints": {"kind": "testing", "scale": "huge"}, "rules": 1}


@pytest.mark.parametrize("exists", [True, False])
@requirement("AC-08")
def test_no_rule_and_no_file_are_not_configured(exists: bool) -> None:
    failure = not_configured(exists=exists)
    assert (failure.code, failure.next_step) == (Code.ROUTING_NOT_CONFIGURED, NEXT[Code.ROUTING_NOT_CONFIGURED])
    assert failure.details == {"file": "routes.toml"}
    assert refusal(Hints(), rules_of([]), []).code is Code.ROUTING_NOT_CONFIGURED
