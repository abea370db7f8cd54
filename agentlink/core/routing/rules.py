"""Route rules: what a rule is, and the check that lets a rules file in or says what is wrong with it.

A file is taken whole or not at all. Nothing unknown is passed over, because a condition that is passed over makes a
rule match more than its author meant (F23). A rule holds what is needed to match and to choose, and nothing that
could run, document or authenticate (003 FR-04).
"""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Literal, cast

import msgspec

from agentlink.core.redact import redact
from agentlink.core.routing.defects import Finding, findings_failure
from agentlink.core.routing.document import read_document, read_text
from agentlink.core.routing.hints import FIELD_NAMES, VOCABULARY, bits_of, other_bits
from agentlink.core.routing.locate import Path
from agentlink.core.routing.wording import is_plain_line, quoted

VERSION = 1
HIGHEST_PRIORITY = 1_000_000
LONGEST_PRESET = 128
LONGEST_REASON = 120

Source = Literal["builtin", "user"]
Reason = Literal["kind_exact", "kind_set", "fields", "catch_all"]
Rank = tuple[int, int, int]
"""How the kind is named (exact 3, set 2, absent 1, catch-all 0), number of other fields, priority; the greater wins."""


class Condition(msgspec.Struct, frozen=True):
    """One field of the vocabulary and the values that a rule names for it, in the order of the vocabulary."""

    field: str
    values: tuple[str, ...]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. It matches when every condition of `match` holds the hint and none of `exclude` does."""

    id: str
    preset: str
    priority: int = 0
    reason: str = ""
    match: tuple[Condition, ...] = ()
    exclude: tuple[Condition, ...] = ()
    catch_all: bool = False
    source: Source = "user"

    @property
    def reason_code(self) -> Reason:
        """By what the rule wins when it wins."""
        if self.catch_all:
            return "catch_all"
        for condition in self.match:
            if condition.field == "kind":
                return "kind_exact" if len(condition.values) == 1 else "kind_set"
        return "fields"

    @property
    def rank(self) -> Rank:
        """Where the rule stands among those that match; a matching rule has matched every field it names."""
        code = self.reason_code
        others = sum(condition.field != "kind" for condition in self.match)
        return ({"catch_all": 0, "fields": 1, "kind_set": 2, "kind_exact": 3}[code], others, self.priority)

    @property
    def refused_bits(self) -> int:
        """The hints that the rule does not take (see hints.py): it matches when none of these is set."""
        refused = 0
        for condition in self.match:
            refused |= other_bits(condition.field, condition.values)
        for condition in self.exclude:
            refused |= bits_of(condition.field, condition.values)
        return refused


class Rules(msgspec.Struct, frozen=True):
    """The rules of one file. Make it with `rules_of`, which works out what every choice would repeat."""

    name: str
    rules: tuple[Rule, ...]
    tiers: tuple[tuple[tuple[int, Rule], ...], ...]
    """Rules of equal rank together, the best first, each with its refused bits; by id within a tier."""


def rules_of(rules: Iterable[Rule], *, name: str = "routes.toml") -> Rules:
    """Checked rules, ready to be chosen from."""
    kept = tuple(rules)
    ranked = sorted(kept, key=lambda rule: rule.id)
    ranked.sort(key=lambda rule: rule.rank, reverse=True)
    tiers = (tuple((rule.refused_bits, rule) for rule in tier) for _, tier in groupby(ranked, lambda rule: rule.rank))
    return Rules(name, kept, tuple(tiers))


def decode_rules(data: bytes, *, name: str) -> Rules:
    """The rules in a file's bytes; `name` is what messages call it. Raises Failure `routing_config_invalid`."""
    text = read_text(data, name=name)
    findings: list[Finding] = []
    rules = _check_document(read_document(text, name=name), findings)
    if findings:
        raise findings_failure(findings, text, name=name)
    return rules_of(rules, name=name)


_FILE_KEYS = ("version", "rule")
_RULE_KEYS = ("id", "preset", "priority", "reason", "match", "exclude", "catch_all", "source")
_SOURCES = ("builtin", "user")
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SANDBOX = re.compile(r"(?i)sand[\s_-]*box|沙[箱盒]")
_SIMPLY_BASIC = re.compile(r"\b(?i:basic|bearer)(?=\s+[a-z/-]{1,20}(?:[\s.,;]|$))")
"""`basic tools` is English; redact must take it for an HTTP credential, which has more than small letters."""


def _check_document(document: dict[str, Any], findings: list[Finding]) -> list[Rule]:
    findings += [
        Finding(path=(key,), message="key", found=key, valid=_FILE_KEYS) for key in document if key not in _FILE_KEYS
    ]
    if not document:
        return []
    version = document.get("version")
    if version is None:
        findings.append(Finding(path=(), message=f"the file does not say version = {VERSION}", nearest="version"))
    elif type(version) is not int or version != VERSION:
        message = f"unknown version {quoted(version)}; this Agentlink reads version = {VERSION}"
        findings.append(Finding(path=("version",), message=message, found=version, nearest=str(VERSION)))
    tables = document.get("rule", [])
    if not isinstance(tables, list):
        findings.append(Finding(path=("rule",), message="write [[rule]], with two brackets", nearest="[[rule]]"))
        return []
    first_at: dict[str, Path] = {}
    rules = []
    for position, table in enumerate(tables):
        path = ("rule", position)
        if isinstance(table, dict):
            rules.append(_check_rule(table, path, first_at, findings))
        else:
            findings.append(Finding(path=path, message=f"a rule is a table; got {quoted(table)}", found=table))
    return rules


def _check_rule(table: dict[str, Any], path: Path, first_at: dict[str, Path], findings: list[Finding]) -> Rule:
    """The rule, which holds only what is valid; it is used only while there are no findings."""

    def wrong(key: str, message: str, *, nearest: str | None = None) -> None:
        found = table.get(key, "")
        findings.append(Finding(path=(*path, key), message=message, found=found, nearest=nearest))

    for key in table:
        if key not in _RULE_KEYS:
            inside = {"match": FIELD_NAMES}
            findings.append(Finding(path=(*path, key), message="key", found=key, valid=_RULE_KEYS, inside=inside))
    rule_id = _check_id(table, path, first_at, findings)
    preset = table.get("preset")
    if preset is None:
        wrong("preset", "a rule needs a preset", nearest="preset")
    elif not isinstance(preset, str) or not preset.strip() or len(preset) > LONGEST_PRESET or not is_plain_line(preset):
        wrong("preset", f"preset is the id of a preset, 1 to {LONGEST_PRESET} characters; got {quoted(preset)}")
    elif _holds_credential(preset):
        wrong("preset", "preset looks like a credential; a rule must not hold one")
    priority = table.get("priority", 0)
    if type(priority) is not int or abs(priority) > HIGHEST_PRIORITY:
        wrong("priority", f"priority is an integer up to ±{HIGHEST_PRIORITY}; got {quoted(priority)}")
    reason = table.get("reason", "")
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON or not is_plain_line(reason):
        wrong("reason", f"reason is one line of at most {LONGEST_REASON} characters; got {quoted(reason)}")
    elif _holds_credential(reason):
        wrong("reason", "reason looks like a credential; a rule must not hold one")
    elif _SANDBOX.search(reason):
        wrong("reason", "reason speaks of the sandbox; no rule and no claim controls it")
    source = table.get("source", "user")
    if not isinstance(source, str):
        wrong("source", f"source is one of {', '.join(_SOURCES)}; got {quoted(source)}")
    elif source not in _SOURCES:
        findings.append(Finding(path=(*path, "source"), message="source", found=source, valid=_SOURCES))
    catch_all = table.get("catch_all", False)
    if not isinstance(catch_all, bool):
        wrong("catch_all", f"catch_all is true or false; got {quoted(catch_all)}")
    elif catch_all and "match" in table:
        wrong("catch_all", "a rule has match or catch_all = true, not both")
    elif not catch_all and "match" not in table:
        wrong("match", "a rule needs match = { … } or catch_all = true", nearest="match")
    return Rule(
        id=rule_id,
        preset=str(preset),
        priority=priority,
        reason=str(reason),
        match=_check_conditions(table, "match", path, findings),
        exclude=_check_conditions(table, "exclude", path, findings),
        catch_all=bool(catch_all),
        source=cast(Source, source),
    )


def _check_id(table: dict[str, Any], path: Path, first_at: dict[str, Path], findings: list[Finding]) -> str:
    here = (*path, "id")
    given = table.get("id")
    if given is None:
        findings.append(Finding(path=here, message="a rule needs an id", nearest="id"))
        return ""
    if not isinstance(given, str) or not _ID.fullmatch(given):
        message = f"an id is 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit; got {quoted(given)}"
        findings.append(Finding(path=here, message=message, found=given))
        return ""
    earlier = first_at.setdefault(given, here)
    if earlier != here:
        findings.append(Finding(path=here, message=f"the id {quoted(given)} is taken", found=given, other=earlier))
    return given


def _check_conditions(table: Mapping[str, Any], key: str, rule: Path, findings: list[Finding]) -> tuple[Condition, ...]:
    """The conditions of `match` or `exclude`, in the order of the vocabulary."""
    path = (*rule, key)
    given = table.get(key)
    if given is None:
        return ()
    if not isinstance(given, dict):
        message = f'{key} is a table like {{ kind = "review" }}; got {quoted(given)}'
        findings.append(Finding(path=path, message=message, found=given))
        return ()
    if not given:
        findings.append(Finding(path=path, message=f"{key} names no field; valid: {', '.join(FIELD_NAMES)}"))
    findings += [
        Finding(path=(*path, field), message="field", found=field, valid=FIELD_NAMES)
        for field in given
        if field not in VOCABULARY
    ]
    return tuple(
        Condition(field, _check_values(given[field], field, (*path, field), findings))
        for field in FIELD_NAMES
        if field in given
    )


def _check_values(given: object, field: str, path: Path, findings: list[Finding]) -> tuple[str, ...]:
    """The values named for a field, in the order of the vocabulary."""
    valid = VOCABULARY[field]
    if given == []:
        findings.append(Finding(path=path, message=f"{field} names no value; valid: {', '.join(valid)}"))
    rows = [((*path, n), value) for n, value in enumerate(given)] if isinstance(given, list) else [(path, given)]
    first_at: dict[str, Path] = {}
    for here, value in rows:
        if not isinstance(value, str):
            message = f"{field} is one of {', '.join(valid)}; got {quoted(value)}"
            findings.append(Finding(path=here, message=message, found=value))
        elif value not in valid:
            findings.append(Finding(path=here, message=field, found=value, valid=valid))
        elif value in first_at:
            message = f"{field} repeats {quoted(value)}"
            findings.append(Finding(path=here, message=message, found=value, other=first_at[value]))
        else:
            first_at[value] = here
    return tuple(value for value in valid if value in first_at)


def _holds_credential(text: str) -> bool:
    """Whether redact would hide a part of it."""
    line = " ".join(_SIMPLY_BASIC.sub("", text).split())
    return redact(line, limit=len(line) + 1) != line
