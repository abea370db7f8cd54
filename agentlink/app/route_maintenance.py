"""Looking after the rules, on the command line only: propose, compare, apply what a person has accepted (003 FR-11).

Candidates wait in a file of their own that no delegation reads. `apply` writes only what was shown: it takes the
digest of both files, and under the lock both are read again.
"""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import msgspec

from agentlink.app.results import Result, RouteHealth
from agentlink.app.route_candidates import (
    CANDIDATES,
    candidates_in,
    decode_candidates,
    files_digest,
    in_words,
    locked,
    merged,
    read_given,
    read_rules,
    remove,
    render_rule,
    rules_in,
    shown_lines,
    shown_path,
    skeleton,
    without,
    writing,
)
from agentlink.app.routes import NAME, RoutesFile
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.settings import load_home
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import HostFault
from agentlink.core.host.values import Preset
from agentlink.core.launch.decide import failure_for
from agentlink.core.redact import redact
from agentlink.core.routing.router import standing_of, target_of
from agentlink.core.routing.rules import VERSION, Rank, Reason, Rule
from agentlink.core.routing.wording import brief, nearest, quoted, shown
from agentlink.files.private import create_private, write_atomic

ROSTER_TIMEOUT_S = 5.0
"""How long a warning about targets may keep a diff waiting."""

_REREAD = "Run `agentlink route diff`, read it, and accept the digest that it prints."


class Plan(Result, frozen=True, kw_only=True):
    """What apply would do now; `digest` stands for both files, and is None while no candidate waits."""

    active: str
    candidates: str
    digest: str | None = None
    diff: str = ""
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Proposed(Result, frozen=True, kw_only=True):
    """Which candidates were stored, which of them replaced one, and how many wait now."""

    candidates: str
    proposed: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    waiting: int


class Applied(Result, frozen=True, kw_only=True):
    """What is active now; `changed` is false when the active file held all of it before."""

    active: str
    changed: bool
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


class RuleRow(Result, frozen=True, kw_only=True):
    """One active rule; `rank` orders them, the best first, and `by` says what that rank comes from."""

    id: str
    preset: str
    rank: Rank
    by: Reason
    match: str
    reason: str = ""
    source: str


class ActiveRules(Result, frozen=True, kw_only=True):
    """The rules that automatic delegations use; `missing` means none."""

    file: str
    state: Literal["missing", "valid"]
    rules: tuple[RuleRow, ...]


class Checked(Result, frozen=True, kw_only=True):
    """A file without defects and what it holds; `missing` means no file or no rule."""

    file: str
    state: Literal["missing", "valid"]
    rules: int
    catch_all: int
    presets: int


class PresetFacts(Result, frozen=True, kw_only=True):
    """One preset of the live roster. None of it affects a choice, except that a broken one cannot be used."""

    id: str
    default: bool
    broken: str | None = None
    trust: str
    authorable: str
    has_document: str


class Candidates(Result, frozen=True, kw_only=True):
    """Whether proposals wait."""

    state: Literal["none", "waiting", "invalid"]
    waiting: int
    message: str | None = None
    line: int | None = None


class RouteReport(Result, frozen=True, kw_only=True):
    """What doctor says of the rules; `roster` says whether their targets could be looked at."""

    file: str
    routes: RouteHealth
    roster: str
    candidates: Candidates


def start_rules(home: Path) -> str:
    """Makes the active file, without any rule. Raises Failure invalid_request when there is one."""
    path = home / NAME
    with locked(home), writing(path):
        made = create_private(path, skeleton())
    if not made:
        step = "Edit that file, or move it away first."
        raise Failure(Code.INVALID_REQUEST, f"{path} is there already; it is not overwritten", next_step=step)
    return str(path)


def active_rules(home: Path) -> ActiveRules:
    """The active rules, in the order in which they would win. Raises Failure routing_config_invalid."""
    rules = rules_in(read_rules(home / NAME), name=NAME)
    rows = tuple(
        RuleRow(
            id=rule.id,
            preset=rule.preset,
            rank=rule.rank,
            by=rule.reason_code,
            match=in_words(rule),
            reason=rule.reason,
            source=rule.source,
        )
        for tier in rules.tiers
        for _, rule in tier
    )
    return ActiveRules(file=str(home / NAME), state="valid" if rows else "missing", rules=rows)


def check_rules(home: Path, given: Path | None) -> Checked:
    """What the active or the given file holds. Raises Failure with its defects, or when the given one is not there."""
    if given is None:
        path = home / NAME
        rules = rules_in(read_rules(path), name=NAME).rules
    else:
        path = given
        rules = rules_in(read_given(path), name=shown_path(path)).rules
    return Checked(
        file=shown_path(path),
        state="valid" if rules else "missing",
        rules=len(rules),
        catch_all=sum(rule.catch_all for rule in rules),
        presets=len({rule.preset for rule in rules}),
    )


def propose_rule(home: Path, table: Mapping[str, Any]) -> Proposed:
    """Stores one rule, given as its file would say it, among the candidates. Raises Failure for a defect in it."""
    try:
        data = f"version = {VERSION}\n{render_rule(table)}".encode()
    except UnicodeEncodeError:
        raise Failure(Code.INVALID_REQUEST, "the proposed rule is not UTF-8 text; write it in UTF-8") from None
    try:
        rules = decode_candidates(data, name="proposal", next_step="Correct that option; nothing is stored.")
    except Failure as failure:
        # Nobody has seen the text that the options became, so its lines tell nothing.
        details = {name: value for name, value in (failure.details or {}).items() if name in ("found", "nearest")}
        message = re.sub(r"^proposal:\d+: ", "", failure.message)
        raise Failure(failure.code, message, details=details, next_step=failure.next_step) from None
    return _propose(home, rules)


def propose_from(home: Path, path: Path) -> Proposed:
    """Stores the rules of a file that may come from anywhere: it is checked as data, and only rules are taken over."""
    step = "Correct the named line of that file; nothing is stored."
    rules = decode_candidates(read_given(path), name=shown_path(path), next_step=step)
    if not rules:
        raise Failure(Code.INVALID_REQUEST, f"{shown_path(path)} has no rule", details={"argument": "from"})
    return _propose(home, rules)


def _propose(home: Path, rules: tuple[Rule, ...]) -> Proposed:
    path = home / CANDIDATES
    with locked(home):
        before = read_rules(path)
        waiting = candidates_in(before)
        data = merged(before, rules, name=CANDIDATES)
        with writing(path):
            write_atomic(path, data)
    held = {rule.id for rule in waiting}
    proposed = tuple(rule.id for rule in rules)
    return Proposed(
        candidates=str(path),
        proposed=proposed,
        replaced=tuple(name for name in proposed if name in held),
        waiting=len(held.union(proposed)),
    )


def discard(home: Path, rule_id: str | None) -> tuple[str, ...]:
    """Removes one candidate, or all of them even when their file is damaged; gives the ids, where they can be read."""
    path = home / CANDIDATES
    with locked(home):
        if rule_id is None:
            try:
                ids = tuple(rule.id for rule in candidates_in(read_rules(path)))
            except Failure:
                ids = ()
            remove(path)
            return ids
        data = read_rules(path)
        ids = tuple(rule.id for rule in candidates_in(data))
        if data is None or rule_id not in ids:
            meant = nearest(rule_id, ids)
            hint = f"; did you mean {quoted(meant)}?" if meant else f"; waiting: {', '.join(ids[:20]) or 'none'}"
            message = f"{CANDIDATES} has no candidate {quoted(rule_id)}{hint}"
            raise Failure(Code.INVALID_REQUEST, message, details={"argument": "id", "nearest": meant})
        if len(ids) == 1:
            remove(path)
        else:
            with writing(path):
                write_atomic(path, without(data, rule_id, name=CANDIDATES))
    return (rule_id,)


async def compare(environment: Mapping[str, str]) -> Plan:
    """What apply would do, and which targets the Host does not have right now; without a Host that is not judged."""
    home, _ = load_home(environment)
    plan, rules, _ = await anyio.to_thread.run_sync(_plan, home)
    if not rules:
        return plan
    roster, said = await _roster_if_any(environment)
    standing = None if roster is None else standing_of(roster)
    warnings = [] if roster is not None else [f"presets were {said}, so the candidates' targets are not judged"]
    for rule in rules:
        target = target_of(rule.preset, standing)
        if target in ("absent", "broken"):
            warnings.append(f"rule {rule.id}: preset {rule.preset} is {target} on the Host right now")
    return msgspec.structs.replace(plan, warnings=tuple(warnings))


def apply_candidates(home: Path, *, accept: str) -> Applied:
    """Makes the candidates active, if both files still are those that `accept` was printed for.

    Raises Failure invalid_request otherwise; then nothing is written.
    """
    active, candidates = home / NAME, home / CANDIDATES
    with locked(home):
        plan, _, after = _plan(home)
        if plan.digest is None:
            raise Failure(
                Code.INVALID_REQUEST,
                f"no candidate waits in {candidates}; nothing is written",
                next_step="Propose a rule with `agentlink route propose`.",
            )
        if accept != plan.digest:
            message = (
                f"{brief(accept)} does not stand for what would be written now: {NAME} or {CANDIDATES} has changed"
                " since it was printed, or it is mistyped; nothing is written"
            )
            raise Failure(Code.INVALID_REQUEST, message, details={"argument": "accept"}, next_step=_REREAD)
        changed = bool(plan.added or plan.replaced)
        if changed:
            with writing(active):
                write_atomic(active, after)
        # After a crash before this line the candidates are found again, all of them active already.
        remove(candidates)
    return Applied(
        active=str(active), changed=changed, added=plan.added, replaced=plan.replaced, unchanged=plan.unchanged
    )


async def preset_facts(runtime: Runtime) -> tuple[PresetFacts, ...]:
    """The live roster. Raises Failure when the Host cannot be read."""
    try:
        roster = await runtime.host.roster()
    except HostFault as fault:
        raise failure_for(fault) from fault
    return tuple(
        PresetFacts(
            id=brief(preset.id),
            default=preset.is_default,
            broken=None if preset.broken is None else brief(preset.broken, limit=200),
            trust=_fact(preset, "trust"),
            authorable=_fact(preset, "authorable"),
            has_document=_fact(preset, "has_document"),
        )
        for preset in roster
    )


def _fact(preset: Preset, name: str) -> str:
    """A fact that only some wires carry."""
    value = getattr(preset, name, None)
    return "not reported" if value is None else shown(value)


async def examine_routes(environment: Mapping[str, str]) -> RouteReport:
    """The health of the rules and of the candidates; changes nothing and raises only for a broken home setting."""
    home, _ = load_home(environment)
    roster, said = await _roster_if_any(environment)
    return RouteReport(
        file=str(home / NAME),
        routes=await RoutesFile(home / NAME).health(roster),
        roster=said,
        candidates=await anyio.to_thread.run_sync(_candidate_health, home),
    )


def _candidate_health(home: Path) -> Candidates:
    try:
        waiting = len(candidates_in(read_rules(home / CANDIDATES)))
    except Failure as failure:
        line = (failure.details or {}).get("line")
        return Candidates(state="invalid", waiting=0, message=failure.message, line=line)
    return Candidates(state="waiting" if waiting else "none", waiting=waiting)


async def _roster_if_any(environment: Mapping[str, str]) -> tuple[tuple[Preset, ...] | None, str]:
    """The roster, or why there is none; bounded, and never a failure."""
    try:
        runtime = open_runtime(environment)
    except Failure as failure:
        return None, f"not read: {failure.message}"
    try:
        with anyio.fail_after(ROSTER_TIMEOUT_S):
            return await runtime.host.roster(), "read"
    except HostFault as fault:
        return None, f"not read: {redact(fault.message)}"
    except TimeoutError:
        return None, f"not read: no answer within {ROSTER_TIMEOUT_S:g} s"
    except OSError as error:
        return None, f"not read: {error.strerror}"
    finally:
        await runtime.aclose()


def _plan(home: Path) -> tuple[Plan, tuple[Rule, ...], bytes]:
    """The plan, the candidates, and the bytes that the active file would get."""
    before, waiting = read_rules(home / NAME), read_rules(home / CANDIDATES)
    rules = candidates_in(waiting)
    plan = Plan(active=str(home / NAME), candidates=str(home / CANDIDATES))
    if not rules:
        return plan, (), b""
    after = merged(before, rules, name=NAME)
    held = {rule.id: rule for rule in rules_in(before, name=NAME).rules}
    diff = difflib.unified_diff(shown_lines(before), shown_lines(after), NAME, f"{NAME} (after apply)", lineterm="")
    plan = msgspec.structs.replace(
        plan,
        digest=files_digest(before, waiting),
        diff="\n".join(diff),
        added=tuple(rule.id for rule in rules if rule.id not in held),
        replaced=tuple(rule.id for rule in rules if rule.id in held and held[rule.id] != rule),
        unchanged=tuple(rule.id for rule in rules if held.get(rule.id) == rule),
    )
    return plan, rules, after
