"""Rules, hints and rosters for properties, rules as TOML text, and the design's words as a slow router."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import VOCABULARY, Hints, given_hints, parse_hints
from agentlink.core.routing.router import Choice, route
from agentlink.core.routing.rules import Condition, Rule, Rules

Result = TypeVar("Result")
PRESETS = ("standard", "minimal", "reviewer", "heavy")


def hints() -> st.SearchStrategy[Hints]:
    fields = {field: st.sampled_from(values) for field, values in VOCABULARY.items()}
    return st.fixed_dictionaries({}, optional=fields).map(parse_hints)


def _values(field: str) -> st.SearchStrategy[Condition]:
    # Few values, so that rules meet each other and the hints often.
    known = VOCABULARY[field]
    chosen = st.sets(st.sampled_from(known), min_size=1, max_size=len(known))
    return chosen.map(lambda values: Condition(field, tuple(value for value in known if value in values)))


@st.composite
def conditions(draw: st.DrawFn, *, at_least: int = 1) -> tuple[Condition, ...]:
    fields = draw(st.sets(st.sampled_from(tuple(VOCABULARY)), min_size=at_least, max_size=3))
    return tuple(draw(_values(field)) for field in VOCABULARY if field in fields)


@st.composite
def rules(draw: st.DrawFn, *, min_size: int = 1) -> list[Rule]:
    made = []
    for number in range(draw(st.integers(min_size, 8))):
        catch_all = draw(st.integers(0, 3)) == 0
        made.append(
            Rule(
                id=f"r{number}",
                preset=draw(st.sampled_from(PRESETS)),
                priority=draw(st.integers(-1, 1)),
                reason=draw(st.sampled_from(("", "full tool set", 'it "counts" \\ twice', "完成"))),
                match=() if catch_all else draw(conditions()),
                exclude=draw(st.one_of(st.just(()), conditions())),
                catch_all=catch_all,
                source=draw(st.sampled_from(("user", "builtin"))),
            )
        )
    return made


def rosters() -> st.SearchStrategy[list[Preset]]:
    entry = st.builds(Preset, id=st.sampled_from(PRESETS), broken=st.sampled_from((None, None, "mount failed", "")))
    return st.lists(entry, max_size=5)


def outcome(call: Callable[[], Result]) -> Result | Failure:
    """What the call gives, or the failure that it raises."""
    try:
        return call()
    except Failure as failure:
        return failure


def as_toml(made: Sequence[Rule]) -> str:
    lines = ["version = 1"]
    for rule in made:
        lines += ["[[rule]]", f"id = {_text(rule.id)}", f"preset = {_text(rule.preset)}"]
        lines += [f"priority = {rule.priority}", f"reason = {_text(rule.reason)}", f"source = {_text(rule.source)}"]
        lines += [
            f"{key} = {_table(named)}" for key, named in (("match", rule.match), ("exclude", rule.exclude)) if named
        ]
        lines += ["catch_all = true"] if rule.catch_all else []
    return "\n".join(lines) + "\n"


def _table(named: Sequence[Condition]) -> str:
    return "{ " + ", ".join(f"{one.field} = [{', '.join(map(_text, one.values))}]" for one in named) + " }"


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def answer(given: Hints, made: Rules, roster: Sequence[Preset]) -> tuple[str, ...]:
    """Rule, preset and reason of the choice, or the code of the refusal with the rules it names."""
    told = outcome(lambda: route(given, made, roster))
    if isinstance(told, Choice):
        return (told.rule, told.preset, told.reason)
    details = told.details or {}
    named = details.get("reasons") or (details["rules"] if told.code is Code.AMBIGUOUS_ROUTE else [])
    return (told.code.value, *(row["rule"] for row in named), *filter(None, [details.get("rule")]))


def slow_answer(given: Hints, made: Sequence[Rule], roster: Sequence[Preset]) -> tuple[str, ...]:
    """Design section 4, steps 2 to 5, word for word and without any preparation."""
    hinted = given_hints(given)

    def matches(rule: Rule) -> bool:
        names = all(hinted.get(one.field) in one.values for one in rule.match)
        excluded = any(hinted.get(one.field) in one.values for one in rule.exclude)
        return names and not excluded

    def rank(rule: Rule) -> tuple[bool, int, int, int]:
        kinds = [len(one.values) for one in rule.match if one.field == "kind"]
        kind = 0 if not kinds else 2 if kinds == [1] else 1
        return (not rule.catch_all, kind, len(rule.match) - len(kinds), rule.priority)

    def state(rule: Rule) -> str:
        entries = [preset.broken is None for preset in roster if preset.id == rule.preset]
        return "absent" if not entries else "usable" if all(entries) else "broken"

    matching = [rule for rule in made if matches(rule)]
    if not matching:
        return ("no_eligible_route",)
    best = sorted((rule for rule in matching if rank(rule) == max(map(rank, matching))), key=lambda rule: rule.id)
    if len(best) > 1:
        usable = any(state(rule) == "usable" for rule in best)
        ids = [rule.id for rule in best]
        return ("ambiguous_route", *ids) if usable else ("no_eligible_route", *ids[:5])
    (rule,) = best
    if state(rule) != "usable":
        return ("preset_not_found" if state(rule) == "absent" else "preset_broken", rule.id)
    kinds = [one for one in rule.match if one.field == "kind"]
    named = "kind_exact" if kinds and len(kinds[0].values) == 1 else "kind_set" if kinds else "fields"
    return (rule.id, rule.preset, "catch_all" if rule.catch_all else named)
