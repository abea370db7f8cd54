from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.errors import Code, Failure
from agentlink.core.routing.hints import (
    FIELD_NAMES,
    FIELDS,
    VOCABULARY,
    Hints,
    canonical,
    given_hints,
    guidance,
    json_schema,
    parse_hints,
)
from agentlink.core.routing.wording import nearest, shown
from tests.core.routing import given_rules as made
from tests.requirements import requirement

PAIRS = [(field, value) for field, values in VOCABULARY.items() for value in values]
DESIGN = """kind: implementation, review, debugging, log-analysis, research, planning, documentation, testing, general.
scale: small, medium, large, huge. parallelism: none, low, medium, high, explicit. evidence: none-required,
local-verification, review-required, external-evidence. optimizationIntent: speed, balanced, quality, cost."""


def refusal(given: dict[str, Any]) -> Failure:
    with pytest.raises(Failure) as caught:
        parse_hints(given)
    assert caught.value.code is Code.ROUTING_HINTS_INVALID
    assert set(caught.value.details or {}) == {"field", "value", "nearest"}
    return caught.value


@requirement("FR-05")
def test_the_vocabulary_is_the_designs() -> None:
    said = dict(part.split(": ") for part in DESIGN.replace("\n", " ").rstrip(".").split(". "))
    assert {field: tuple(values.split(", ")) for field, values in said.items()} == VOCABULARY
    assert tuple(field.encode_name for field in msgspec.structs.fields(Hints)) == FIELD_NAMES


@pytest.mark.parametrize(("field", "value"), PAIRS)
@requirement("FR-01", "FR-05", "AC-05")
def test_every_value_is_taken_by_parser_schema_and_canonical_text(field: str, value: str) -> None:
    hints = parse_hints({field: value})
    assert given_hints(hints) == {field: value}
    assert canonical(hints) == f'{{"{field}":"{value}"}}'
    jsonschema.validate({field: value}, json_schema())
    assert value in guidance()


@pytest.mark.parametrize(("field", "value"), PAIRS)
def test_every_near_miss_names_the_value_that_was_meant(field: str, value: str) -> None:
    swapped = value[0] + value[2] + value[1] + value[3:]
    for typo in (value + "s", value[1:], value.upper(), swapped, value.replace("-", "_") + " "):
        if typo in VOCABULARY[field]:
            continue
        failure = refusal({field: typo})
        assert failure.details == {"field": field, "value": shown(typo), "nearest": value}
        assert failure.message == f'unknown {field} "{shown(typo)}"; did you mean "{value}"?'
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({field: typo}, json_schema())


@pytest.mark.parametrize("field", FIELD_NAMES)
def test_every_near_miss_of_a_field_names_the_field_that_was_meant(field: str) -> None:
    for typo in (field + field[-1], field[:-1], field.upper(), field[1:]):
        failure = refusal({typo: VOCABULARY[field][0]})
        assert failure.details == {"field": typo, "value": VOCABULARY[field][0], "nearest": field}


@pytest.mark.parametrize("field", FIELD_NAMES)
@pytest.mark.parametrize("value", [None, True, 3, 1.5, ["review"], {"kind": "review"}, 10**18, ("review",)])
def test_another_type_is_refused(field: str, value: object) -> None:
    failure = refusal({field: value})
    assert failure.details == {"field": field, "value": shown(value), "nearest": None}


def test_a_value_that_is_near_to_nothing_lists_the_valid_ones() -> None:
    failure = refusal({"scale": "enormous"})
    assert failure.message == 'unknown scale "enormous"; valid: small, medium, large, huge'


def test_equal_input_gives_an_equal_failure_in_whatever_order_it_came() -> None:
    pairs = [("scale", "tiny"), ("zz", "1"), ("kind", "x"), ("aa", "2")]
    assert refusal(dict(pairs)).details == refusal(dict(reversed(pairs))).details
    assert refusal(dict(pairs)).details == {"field": "aa", "value": "2", "nearest": None}
    assert refusal({"scale": "tiny", "kind": "x"}).details == {"field": "kind", "value": "x", "nearest": None}


def test_what_the_caller_sent_is_told_short_and_without_credentials() -> None:
    failure = refusal({"kind": "token=S3CR3T " + "x" * 100_000})
    assert "S3CR3T" not in str(failure.details) + failure.message
    assert len(failure.message) < 400
    assert "\x1b" not in refusal({"kind\x1b[2J": "review"}).message


@given(made.hints())
def test_the_canonical_text_is_a_round_trip_and_does_not_depend_on_order(hints: Hints) -> None:
    given = given_hints(hints)
    assert parse_hints(dict(reversed(given.items()))) == hints
    assert msgspec.json.decode(canonical(hints), type=Hints) == hints
    assert list(msgspec.json.decode(canonical(hints))) == sorted(given)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda t: st.lists(t) | st.tuples(t)
)


@given(st.dictionaries(st.sampled_from(FIELD_NAMES) | st.text(), ANY | st.sampled_from([value for _, value in PAIRS])))
@requirement("FR-01", "AC-05", "AC-06")
def test_anything_gives_hints_or_a_routing_hints_invalid_and_the_schema_agrees(given: dict[str, Any]) -> None:
    fits = jsonschema.Draft202012Validator(json_schema()).is_valid(given)
    told = made.outcome(lambda: parse_hints(given))
    if isinstance(told, Failure):
        assert (told.code, fits) == (Code.ROUTING_HINTS_INVALID, False)
    else:
        assert (given_hints(told), fits) == (given, True)


@requirement("FR-01", "NFR-01")
def test_the_guidance_is_short_lists_all_fields_and_says_never_to_invent() -> None:
    assert all(f"- {field.name} (" in guidance() for field in FIELDS)
    assert "only hints that the task states; never invent" in guidance()
    assert len(guidance()) < 1000


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ("reviews", "review"),
        ("debug", "debugging"),
        ("rveiew", "review"),
        ("log analysis", "log-analysis"),
        ("", None),
        ("r", None),
        ("fix", None),
        ("REVIEW", "review"),
        ("x" * 1000, None),
    ],
)
def test_the_nearest_name_has_the_fewest_typing_errors(found: str, meant: str | None) -> None:
    assert nearest(found, VOCABULARY["kind"]) == meant


def test_of_two_names_equally_near_the_first_is_meant() -> None:
    assert nearest("cat", ("car", "cab")) == "car"
