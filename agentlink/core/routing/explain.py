"""Why each rule won or lost for some hints: the diagnosis that a normal reply leaves out (003 FR-08)."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from agentlink.core.errors import Failure
from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import Hints, given_hints
from agentlink.core.routing.router import Choice, Standing, Target, best_rules, choose, standing_of, target_of
from agentlink.core.routing.rules import Rank, Rule, Rules

MOST_ROWS = 200

Verdict = Literal["best", "outranked", "excluded", "no_match"]


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One rule against the hints. A rule that names a field without a hint does not match, whatever else it names."""

    rule: str
    preset: str
    verdict: Verdict
    rank: Rank
    target: Target
    matched: tuple[str, ...] = ()
    """Fields whose hint the rule names."""
    differs: tuple[str, ...] = ()
    """Fields whose hint is another one."""
    without_hint: tuple[str, ...] = ()
    """Fields that the rule names and nobody gave a hint for."""
    excluded_by: tuple[str, ...] = ()
    """Fields whose hint the rule excludes."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rows of matching rules first, then by rank and id; and what `route` says: a choice, or a code and why."""

    hints: dict[str, str]
    rows: tuple[Row, ...]
    more_rows: int
    choice: Choice | None = None
    code: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


def explain(hints: Hints, rules: Rules, roster: Sequence[Preset] | None) -> Explanation:
    """Every rule's fate. Without a roster, targets are unknown and the choice is told as if all could be used."""
    given = given_hints(hints)
    standing = None if roster is None else standing_of(roster)
    best = best_rules(hints, rules)
    best_ids = {rule.id for rule in best}
    rows = [_row(rule, given, best_ids, standing) for tier in rules.tiers for _, rule in tier]
    rows.sort(key=lambda row: row.verdict in ("excluded", "no_match"))  # stable: rank and id still order the rest
    kept: dict[str, Any] = {"hints": given, "rows": tuple(rows[:MOST_ROWS]), "more_rows": max(0, len(rows) - MOST_ROWS)}
    try:
        return Explanation(**kept, choice=choose(best, hints, rules, standing))
    except Failure as failure:
        return Explanation(**kept, code=failure.code.value, message=failure.message, details=failure.details)


def _row(rule: Rule, given: dict[str, str], best: set[str], standing: Standing | None) -> Row:
    named = {condition.field: condition.values for condition in rule.match}
    matched = tuple(field for field, values in named.items() if given.get(field) in values)
    without_hint = tuple(field for field in named if field not in given)
    excluded_by = tuple(one.field for one in rule.exclude if given.get(one.field) in one.values)
    verdict: Verdict
    if rule.id in best:
        verdict = "best"
    elif len(matched) < len(named):
        verdict = "no_match"
    else:
        verdict = "excluded" if excluded_by else "outranked"
    return Row(
        rule=rule.id,
        preset=rule.preset,
        verdict=verdict,
        rank=rule.rank,
        target=target_of(rule.preset, standing),
        matched=matched,
        differs=tuple(field for field in named if field not in matched and field not in without_hint),
        without_hint=without_hint,
        excluded_by=excluded_by,
    )
