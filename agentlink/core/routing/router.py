"""The choice of a preset: a pure function of hints, rules and live roster (design section 4, steps 2 to 5).

In plain words. Rules stand in tiers of equal rank, the best tier first. The first tier with a rule that matches
decides alone: one rule there is the choice if its preset can be used, and a refusal if not; several are a refusal
too. No lower tier is looked at because of that, as that would be a silent fallback (003 FR-10).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import Hints, given_hints, hint_bits
from agentlink.core.routing.rules import Reason, Rule, Rules
from agentlink.core.routing.wording import brief, with_more

MOST_REASONS = 5
MOST_IDS = 20

Target = Literal["usable", "broken", "absent", "unknown"]
Standing = Mapping[str, str | None]
"""Every preset of a roster by id: None when it can be used, else the Host's reason."""


class Choice(msgspec.Struct, frozen=True):
    """The rule that won, the preset it names, and by what it won."""

    rule: str
    preset: str
    reason: Reason


def not_configured(*, name: str = "routes.toml", exists: bool) -> Failure:
    """The failure of an automatic request without any rule."""
    message = f"{name} has no rule" if exists else f"there is no {name}, so there are no rules for automatic routing"
    return Failure(Code.ROUTING_NOT_CONFIGURED, message, details={"file": name})


def route(hints: Hints, rules: Rules, roster: Sequence[Preset]) -> Choice:
    """The one choice for these hints. Raises Failure when there is none; never tries a lower rank instead."""
    return choose(best_rules(hints, rules), hints, rules, standing_of(roster))


def best_rules(hints: Hints, rules: Rules) -> tuple[Rule, ...]:
    """The matching rules of the best rank, by id: none, one, or several that nothing tells apart."""
    asked = hint_bits(hints)
    for tier in rules.tiers:
        if best := [rule for refused, rule in tier if not refused & asked]:
            return tuple(best)
    return ()


def standing_of(roster: Sequence[Preset]) -> Standing:
    """The roster by id. A preset that is listed twice is broken if either entry is."""
    standing: dict[str, str | None] = {}
    for preset in roster:
        standing[preset.id] = preset.broken if standing.get(preset.id) is None else standing[preset.id]
    return standing


def target_of(preset: str, standing: Standing | None) -> Target:
    """How the Host has the preset; unknown without a roster."""
    if standing is None:
        return "unknown"
    if preset not in standing:
        return "absent"
    return "usable" if standing[preset] is None else "broken"


def choose(best: Sequence[Rule], hints: Hints, rules: Rules, standing: Standing | None) -> Choice:
    """What the best rules mean. Raises Failure; without a roster any preset is taken for usable."""
    if not rules.rules:
        raise not_configured(name=rules.name, exists=True)
    if not best:
        raise _nothing_matches(hints, rules)
    if len(best) > 1:
        raise _several(best, rules, standing)
    rule = best[0]
    if refusal := _refusal(rule, standing):
        raise _unavailable(rule, refusal, rules, standing or {})
    return Choice(rule.id, rule.preset, rule.reason_code)


def _nothing_matches(hints: Hints, rules: Rules) -> Failure:
    given = given_hints(hints)
    why = "no rule matches these hints" if given else "no hints were given, and no catch-all rule is there for that"
    return Failure(
        Code.NO_ELIGIBLE_ROUTE,
        f"{rules.name}: {why}",
        details={"hints": given, "rules": len(rules.rules)},
    )


def _several(best: Sequence[Rule], rules: Rules, standing: Standing | None) -> Failure:
    count = f"{rules.name}: {len(best)} rules match equally well"
    if all(_refusal(rule, standing) for rule in best):
        reasons = [_refusal(rule, standing) for rule in best[:MOST_REASONS]]
        return Failure(
            Code.NO_ELIGIBLE_ROUTE,
            f"{count} and none of their presets can be used",
            details=with_more("reasons", reasons, len(best)),
        )
    rows = [{**_names(rule), "target": target_of(rule.preset, standing)} for rule in best[:MOST_IDS]]
    ids = ", ".join(rule.id for rule in best[:MOST_REASONS]) + (", …" if len(best) > MOST_REASONS else "")
    return Failure(Code.AMBIGUOUS_ROUTE, f"{count}: {ids}", details=with_more("rules", rows, len(best)))


def _refusal(rule: Rule, standing: Standing | None) -> dict[str, Any] | None:
    """Why the rule's preset cannot be used, as a row of a reply; None when it can."""
    if standing is None:
        return None
    if rule.preset not in standing:
        return {**_names(rule), "code": Code.PRESET_NOT_FOUND.value}
    broken = standing[rule.preset]
    if broken is None:
        return None
    reason = brief(broken or "no reason given", limit=200)
    return {**_names(rule), "code": Code.PRESET_BROKEN.value, "reason": reason}


def _unavailable(rule: Rule, refusal: dict[str, Any], rules: Rules, standing: Standing) -> Failure:
    code = Code(refusal["code"])
    told = f"rule {rule.id} of {rules.name} names preset {rule.preset}, which"
    if code is Code.PRESET_BROKEN:
        step = f"Repair that preset on the Host, change rule {rule.id}, or name an agentPreset."
        details = {**_names(rule), "reason": refusal["reason"]}
        return Failure(code, f"{told} is broken on the Host: {refusal['reason']}", next_step=step, details=details)
    step = f"Change rule {rule.id}, or name one of the available presets as agentPreset."
    available = [brief(preset) for preset in list(standing)[:MOST_IDS]]
    details = {**_names(rule), **with_more("available", available, len(standing))}
    return Failure(code, f"{told} the Host does not have", next_step=step, details=details)


def _names(rule: Rule) -> dict[str, str]:
    return {"rule": rule.id, "agentPreset": rule.preset}
