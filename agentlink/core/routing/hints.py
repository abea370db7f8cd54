"""The closed vocabulary of task hints, defined here and nowhere else (design section 4, 003 FR-05).

The MCP schema, the check of rules, the guidance for callers and the tests all read `FIELDS`. Free text is never
looked at: a caller says what it knows in these words, or says nothing.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from agentlink.core.errors import Code, Failure
from agentlink.core.routing.wording import brief, quoted, shown, unknown

Kind = Literal[
    "implementation",
    "review",
    "debugging",
    "log-analysis",
    "research",
    "planning",
    "documentation",
    "testing",
    "general",
]
Scale = Literal["small", "medium", "large", "huge"]
Parallelism = Literal["none", "low", "medium", "high", "explicit"]
Evidence = Literal["none-required", "local-verification", "review-required", "external-evidence"]
OptimizationIntent = Literal["speed", "balanced", "quality", "cost"]


class Field(msgspec.Struct, frozen=True):
    """One field of the vocabulary: its name on every surface, its values, what it says about a task."""

    name: str
    values: tuple[str, ...]
    says: str


FIELDS: tuple[Field, ...] = (
    Field("kind", get_args(Kind), "what the task mainly is"),
    Field("scale", get_args(Scale), "how much work it is"),
    Field("parallelism", get_args(Parallelism), "how far it can be split into parts done side by side"),
    Field("evidence", get_args(Evidence), "what has to prove the result"),
    Field("optimizationIntent", get_args(OptimizationIntent), "what to favour; an intent, no guarantee"),
)
VOCABULARY: dict[str, tuple[str, ...]] = {field.name: field.values for field in FIELDS}
FIELD_NAMES: tuple[str, ...] = tuple(VOCABULARY)


class Hints(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What the caller says about a task. A hint that was not given is None and is never filled in."""

    kind: Kind | None = None
    scale: Scale | None = None
    parallelism: Parallelism | None = None
    evidence: Evidence | None = None
    optimization_intent: OptimizationIntent | None = None


def parse_hints(given: Mapping[str, object]) -> Hints:
    """The hints as a checked value. Raises Failure `routing_hints_invalid` for the first one that is not valid.

    Unknown fields come first, in the order of their names, then values in the order of the vocabulary: equal input
    gives an equal failure, however the caller ordered it.
    """
    for name in sorted(map(str, given.keys() - VOCABULARY.keys())):
        message, meant = unknown("hint", name, FIELD_NAMES)
        raise _invalid(message, name, given.get(name), meant)
    for name, values in VOCABULARY.items():
        if name not in given:
            continue
        value = given[name]
        if not isinstance(value, str):
            raise _invalid(f"the hint {name} is one of {', '.join(values)}; got {quoted(value)}", name, value, None)
        if value not in values:
            message, meant = unknown(name, value, values)
            raise _invalid(message, name, value, meant)
    return msgspec.convert(dict(given), Hints)


def given_hints(hints: Hints) -> dict[str, str]:
    """The hints that were given, by field name, in the order of the vocabulary."""
    given: dict[str, str] = msgspec.to_builtins(hints)
    return given


def canonical(hints: Hints) -> str:
    """The same text for equal hints, for ever: what a digest is made of."""
    return msgspec.json.encode(hints, order="sorted").decode()


def json_schema() -> dict[str, Any]:
    """The hints as an inlined JSON schema."""
    properties = {
        field.name: {"type": "string", "enum": list(field.values), "description": field.says} for field in FIELDS
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def guidance() -> str:
    """What a caller's integration teaches about hints."""
    lines = [f"- {field.name} ({field.says}): {', '.join(field.values)}" for field in FIELDS]
    return "\n".join(
        (
            "Hints for automatic routing. All are optional. Give only hints that the task states; never invent one.",
            *lines,
            "Any other field or value is refused. A hint grants nothing: no permission, no model, no preset.",
        )
    )


def _invalid(message: str, field: str, value: object, meant: str | None) -> Failure:
    details = {"field": brief(field), "value": shown(value), "nearest": meant}
    return Failure(Code.ROUTING_HINTS_INVALID, message, details=details)


# One bit for each value of each field, and one for "not given". A set of hints has exactly one bit in each field, so
# whether a rule takes them is one AND with the bits that the rule refuses.
_BITS: dict[str, dict[str | None, int]] = {}
for _field in FIELDS:
    _first = sum(len(bits) for bits in _BITS.values())
    _BITS[_field.name] = {value: 1 << n for n, value in enumerate((None, *_field.values), _first)}


def bits_of(field: str, values: tuple[str, ...]) -> int:
    """The bits of some values of a field."""
    return sum(_BITS[field][value] for value in values)


def other_bits(field: str, values: tuple[str, ...]) -> int:
    """The bits of the field's other values and of the hint not given."""
    return sum(_BITS[field].values()) - bits_of(field, values)


def hint_bits(hints: Hints) -> int:
    """One bit for each field: its value, or that it was not given."""
    given = given_hints(hints)
    return sum(bits[given.get(field)] for field, bits in _BITS.items())
