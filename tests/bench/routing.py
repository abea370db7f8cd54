"""The router with 100 and 10,000 rules, and the bytes that routing adds to a tool list, a request and a result."""

from __future__ import annotations

import statistics
import time
from itertools import product

import msgspec

from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import VOCABULARY, Hints
from agentlink.core.routing.router import route
from agentlink.core.routing.rules import Condition, Rules, decode_rules, rules_of
from agentlink.core.routing.rules import Rule as RouteRule
from agentlink.mcp_server.tools import ROUTING_SCHEMA
from tests.bench.context import Context
from tests.bench.rows import Row

NAME = "routing"
ROSTER = tuple(Preset(f"preset-{number}", number == 0) for number in range(8))
HINTS = Hints(kind="implementation", scale="small", parallelism="none", evidence="none-required")


def many_rules(count: int) -> Rules:
    """Rules over every combination of the vocabulary, with priorities that make the choice unique."""
    names = list(VOCABULARY)
    combinations = product(*(VOCABULARY[name] for name in names))
    rules = []
    for number, values in enumerate(combinations):
        if number == count:
            break
        match = tuple(Condition(name, (value,)) for name, value in zip(names[:4], values[:4], strict=True))
        rules.append(
            RouteRule(
                id=f"rule-{number}", preset=f"preset-{number % 8}", priority=number, match=match[: number % 4 + 1]
            )
        )
    while len(rules) < count:
        number = len(rules)
        match = (Condition("kind", (VOCABULARY["kind"][number % 9],)),)
        rules.append(RouteRule(id=f"rule-{number}", preset=f"preset-{number % 8}", priority=number, match=match))
    return rules_of(rules)


def run(context: Context) -> list[Row]:
    """Medians of many choices; a limit has no meaning here, since no other router exists."""
    rows = []
    for count, target_us in ((100, 100.0), (10_000, 10_000.0)):
        rules = many_rules(count)
        times = []
        for _ in range(50 if context.quick else 500):
            began = time.perf_counter()
            route(HINTS, rules, ROSTER)
            times.append(time.perf_counter() - began)
        median = statistics.median(times) * 1e6
        rows.append(Row(bench=NAME, figure=f"choice among {count:,} rules", ours=median, unit="µs", target=target_us))
    text = _as_toml(100)
    began = time.perf_counter()
    decode_rules(text, name="routes.toml")
    took = (time.perf_counter() - began) * 1e3
    rows.append(Row(bench=NAME, figure=f"reading 100 rules, {len(text):,} B", ours=took, unit="ms"))
    schema = len(msgspec.json.encode({"routing": ROUTING_SCHEMA}))
    request = len(msgspec.json.encode({"routing": {"mode": "auto", "hints": {"kind": "review", "scale": "large"}}}))
    result = len(b'"mode":"automatic","ruleId":"large-implementation",') - len(b'"mode":"manual",')
    rows.append(Row(bench=NAME, figure="added to the tool list", ours=schema, unit="B"))
    rows.append(Row(bench=NAME, figure="added to a request with two hints", ours=request, unit="B"))
    rows.append(Row(bench=NAME, figure="added to a result", ours=result, unit="B"))
    return rows


def _as_toml(count: int) -> bytes:
    kinds = VOCABULARY["kind"]
    rules = (
        f'[[rule]]\nid = "r{number}"\npreset = "p{number % 8}"\npriority = {number}\n'
        f'match = {{ kind = "{kinds[number % len(kinds)]}" }}\n'
        for number in range(count)
    )
    return ("version = 1\n" + "".join(rules)).encode()
