from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentlink.core.errors import Code, Failure
from agentlink.core.routing.document import LARGEST
from agentlink.core.routing.rules import Condition, Rule, Rules, decode_rules
from agentlink.core.routing.wording import is_plain_line
from tests.core.routing import given_rules as made
from tests.requirements import requirement

HEAD = 'version = 1\n[[rule]]\nid = "a"\npreset = "p"\n'
"""Four lines; the test's own text begins on line 5."""
CATCH_ALL = HEAD + "catch_all = true\n"


def decode(text: str | bytes) -> Rules:
    return decode_rules(text if isinstance(text, bytes) else text.encode(), name="routes.toml")


def refusal(text: str | bytes) -> Failure:
    with pytest.raises(Failure) as caught:
        decode(text)
    assert caught.value.code is Code.ROUTING_CONFIG_INVALID
    return caught.value


def defect(text: str | bytes) -> tuple[int, str, str | None]:
    """Line, found and nearest of the one defect."""
    details = refusal(text).details
    assert details is not None
    assert set(details) == {"file", "line", "found", "nearest"}
    return details["line"], details["found"], details["nearest"]


# What is taken


@requirement("FR-04")
def test_a_rule_with_everything_is_read() -> None:
    (rule,) = decode(
        HEAD + 'priority = -7\nreason = "全套 tools, \\"all\\""\nsource = "builtin"\n'
        'match = { scale = "large", kind = ["debugging", "implementation"] }\nexclude.evidence = "none-required"\n'
    ).rules
    assert rule == Rule(
        id="a",
        preset="p",
        priority=-7,
        reason='全套 tools, "all"',
        match=(Condition("kind", ("implementation", "debugging")), Condition("scale", ("large",))),
        exclude=(Condition("evidence", ("none-required",)),),
        source="builtin",
    )


def test_what_is_left_out_has_its_default() -> None:
    assert decode(CATCH_ALL).rules == (Rule(id="a", preset="p", catch_all=True),)
    assert decode(HEAD + 'catch_all = false\nmatch.kind = "review"\n').rules[0].catch_all is False


@pytest.mark.parametrize("text", ["", "\ufeff", "# a comment\n", "version = 1\n", "version = 1\nrule = []\n", "\r\n"])
def test_a_file_without_a_rule_gives_no_rules(text: str) -> None:
    assert decode(text).rules == ()


@given(made.rules(min_size=0))
@requirement("AC-05")
def test_rules_written_as_toml_are_read_back(rules: list[Rule]) -> None:
    assert decode(made.as_toml(rules)).rules == tuple(rules)


@pytest.mark.parametrize("words", ["basic tools", "Basic read/write tools, no network", "needs a bearer token."])
def test_plain_english_is_no_credential(words: str) -> None:
    assert decode(CATCH_ALL + f'reason = "{words}"').rules[0].reason == words


@pytest.mark.parametrize("preset", ["x" * 128, "Größe 1/2", "基本", "a: b"])
def test_a_preset_may_have_any_characters_of_one_line(preset: str) -> None:
    assert decode(CATCH_ALL.replace('"p"', f'"{preset}"')).rules[0].preset == preset


# F23


def test_f23_a_misspelt_field_and_its_line() -> None:
    text = HEAD + '[rule.match]\nkindd = "review"\nscale = "large"\n'
    assert defect(text) == (6, "kindd", "kind")
    assert refusal(text).message == 'routes.toml:6: unknown field "kindd"; did you mean "kind"?'
    assert defect(HEAD + 'kindd = "review"\nmatch.scale = "large"\n') == (5, "kindd", "kind")
    assert 'did you mean "kind", inside match?' in refusal(CATCH_ALL + 'kindd = "review"').message
    assert defect(HEAD + "kindd: review\nscale: large\n") == (5, "kindd", "kind")
    assert defect(HEAD + "id2: review\n") == (5, "id2", "id2")


@requirement("FR-04", "FR-09")
def test_f23_an_unknown_value_and_its_line() -> None:
    text = HEAD + 'match = { kind = [\n  "review",\n  "reviews",\n] }\n'
    assert defect(text) == (7, "reviews", "review")
    assert refusal(text).message == 'routes.toml:7: unknown kind "reviews"; did you mean "review"?'
    assert defect(HEAD + 'match = { evidence = "no" }\n') == (5, "no", "none-required")
    assert defect(HEAD + "match = { evidence = no }\n") == (5, "no", "none-required")
    assert defect(HEAD + "match = { evidence = false }\n") == (5, "false", None)
    assert defect(HEAD + "[rule.match]\n  evidence = [no]\n") == (6, "no", "none-required")
    assert defect(HEAD + "catch_all = True\n") == (5, "True", "true")
    assert defect(HEAD + 'match = { scale = "large" }\npriority = high\n') == (6, "high", "high")
    assert defect(HEAD + "[other\n")[0] == 5


def test_f23_byte_order_mark_and_crlf_change_nothing() -> None:
    plain = decode(CATCH_ALL)
    windows = CATCH_ALL.replace("\n", "\r\n")
    assert decode(windows) == decode("\ufeff" + CATCH_ALL) == decode("\ufeff" + windows) == plain
    typo = "\ufeff" + windows + 'exclude = { kind = [\r\n"reviews" ] }'
    assert defect(typo) == (7, "reviews", "review")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_f23_utf_16_is_named_as_the_problem(encoding: str) -> None:
    assert defect(CATCH_ALL.encode(encoding)) == (1, "UTF-16", "UTF-8")
    assert "UTF-16" in refusal(CATCH_ALL.encode(encoding)).message


def test_f23_another_encoding_is_named_with_its_line() -> None:
    assert defect((CATCH_ALL + 'reason = "caf\xe9"').encode("latin-1")) == (6, "byte 0xe9", "UTF-8")


# Every defect on its line: (text, line, found, nearest)

M = 'match = { kind = "review" }\n'
DEFECTS = {
    "no version": ('[[rule]]\nid = "a"\npreset = "p"\ncatch_all = true\n', 1, "", "version"),
    "newer version": (CATCH_ALL.replace("1", "2", 1), 1, "2", "1"),
    "version true": (CATCH_ALL.replace("1", "true", 1), 1, "true", "1"),
    "version 1.0": (CATCH_ALL.replace("1", "1.0", 1), 1, "1.0", "1"),
    "version text": (CATCH_ALL.replace("1", '"1"', 1), 1, "1", "1"),
    "version date": (CATCH_ALL.replace("1", "1979-05-27", 1), 1, "1979-05-27", "1"),
    "key of the file": (CATCH_ALL + "[rules]\n", 6, "rules", "rule"),
    "one bracket": ('version = 1\n\n[rule]\nid = "a"\n', 3, "", "[[rule]]"),
    "a rule that is no table": ("version = 1\nrule = [\n  7 ]\n", 3, "7", None),
    "key of a rule": (CATCH_ALL + 'reson = "x"', 6, "reson", "reason"),
    "command": (CATCH_ALL + 'run = "rm -rf /"', 6, "run", None),
    "sub-table": (CATCH_ALL + '\n[rule.setup]\nshell = "x"', 7, "setup", None),
    "field outside match": (CATCH_ALL + 'kind = "review"', 6, "kind", "kind"),
    "no id": ('version = 1\n\n[[rule]]\npreset = "p"\ncatch_all = true\n', 3, "", "id"),
    "id capital": (CATCH_ALL.replace('"a"', '"A"'), 3, "A", None),
    "id empty": (CATCH_ALL.replace('"a"', '""'), 3, "", None),
    "id long": (CATCH_ALL.replace('"a"', f'"{"a" * 65}"'), 3, "a" * 65, None),
    "id newline": (CATCH_ALL.replace('"a"', '"a\\n"'), 3, "a", None),
    "id number": (CATCH_ALL.replace('"a"', "5"), 3, "5", None),
    "id twice": (CATCH_ALL + '[[rule]]\n\nid = "a"\npreset = "p"\ncatch_all = true\n', 8, "a", None),
    "no preset": (CATCH_ALL.replace('preset = "p"\n', ""), 2, "", "preset"),
    "preset blank": (CATCH_ALL.replace('"p"', '" "'), 4, "", None),
    "preset long": (CATCH_ALL.replace('"p"', f'"{"p" * 129}"'), 4, "p" * 79 + "…", None),
    "preset control": (CATCH_ALL.replace('"p"', '"p\\u001b"'), 4, "p\ufffd", None),
    "preset list": (CATCH_ALL.replace('"p"', '["p"]'), 4, "a list", None),
    "preset secret": (CATCH_ALL.replace('"p"', '"token=S3CR3T"'), 4, "token=[redacted]", None),
    "priority float": (CATCH_ALL + "priority = 1.0", 6, "1.0", None),
    "priority true": (CATCH_ALL + "priority = true", 6, "true", None),
    "priority high": (CATCH_ALL + "priority = 1_000_001", 6, "1000001", None),
    "priority low": (CATCH_ALL + "priority = -1_000_001", 6, "-1000001", None),
    "priority huge": (CATCH_ALL + "priority = 0x" + "f" * 9_999, 6, "a very large integer", None),
    "reason number": (CATCH_ALL + "reason = 5", 6, "5", None),
    "reason long": (CATCH_ALL + f'reason = "{"x" * 121}"', 6, "x" * 79 + "…", None),
    "reason two lines": (CATCH_ALL + 'reason = """one\ntwo"""', 6, "one two", None),
    "reason line separator": (CATCH_ALL + 'reason = "a\\u2028b"', 6, "a b", None),
    "reason secret": (CATCH_ALL + 'reason = "api_key: S3CR3T"', 6, "api_key: [redacted]", None),
    "reason basic": (CATCH_ALL + 'reason = "Basic dXNlcjpwYXNz"', 6, "Basic [redacted]", None),
    "reason sandbox": (CATCH_ALL + 'reason = "read-only Sandbox"', 6, "read-only Sandbox", None),
    "reason sandbox in Chinese": (CATCH_ALL + 'reason = "关闭沙箱"', 6, "关闭沙箱", None),
    "source": (CATCH_ALL + 'source = "users"', 6, "users", "user"),
    "source candidate": (CATCH_ALL + 'source = "candidate"', 6, "candidate", None),
    "source number": (CATCH_ALL + "source = 1", 6, "1", None),
    "catch_all number": (HEAD + "catch_all = 1\n" + M, 5, "1", None),
    "neither": (HEAD, 2, "", "match"),
    "neither, said": (HEAD + "catch_all = false", 2, "", "match"),
    "both": (CATCH_ALL + M, 5, "true", None),
    "match text": (HEAD + 'match = "review"', 5, "review", None),
    "match list": (HEAD + 'match = [{ kind = "review" }]', 5, "a list", None),
    "match empty": (HEAD + "[rule.match]\n", 5, "", None),
    "exclude empty": (CATCH_ALL + "exclude = {}", 6, "", None),
    "field": (HEAD + 'match = { scale = "large",  sclae = "large" }', 5, "sclae", "scale"),
    "no value": (HEAD + "match = { kind = [] }", 5, "", None),
    "value number": (HEAD + "match = { kind = 1 }", 5, "1", None),
    "value table": (HEAD + 'match.kind.is = "review"', 5, "a table", None),
    "value in list number": (HEAD + 'match.kind = [\n"review",\n\n1]', 8, "1", None),
    "value twice": (HEAD + 'match.kind = ["review",\n"testing",\n"review"]', 7, "review", None),
    "excluded value": (CATCH_ALL + 'exclude = { kind = "revew" }', 6, "revew", "review"),
    "second rule": (CATCH_ALL + '[[rule]]\nid = "b"\npreset = "p"\n[rule.match]\n\nkind = "x"', 11, "x", None),
    "key twice": (HEAD + 'id = "b"\n', 5, 'id = "b"', None),
    "list without end": (HEAD + "match.kind = [\n", 5, "", None),
    "too deep": ("version = 1\nx = " + "[" * 5_000, 2, "", None),
    "key too long": ("version = 1\nx = { a" + ".a" * 50_000 + " = 1 }", 2, "", None),
    "header too long": ("version = 1\n[" + " 'a' ." * 50_000 + "a]", 2, "", None),
    "too many digits": ("version = 1\nx = " + "1" * 5_000, 2, "", None),
    "too many digits, in groups": ("version = 1\nx = 1" + "_1" * 5_000, 2, "", None),
}


@pytest.mark.parametrize(("text", "line", "found", "meant"), DEFECTS.values(), ids=DEFECTS.keys())
@requirement("FR-04", "NFR-03", "NFR-06", "SI-03", "SI-06", "AC-22")
def test_every_defect_is_found_on_its_line(text: str, line: int, found: str, meant: str | None) -> None:
    assert defect(text) == (line, found, meant)
    message = refusal(text).message
    assert message.startswith(f"routes.toml:{line}: ")
    assert "\n" not in message
    assert "S3CR3T" not in message


def test_an_id_that_is_taken_names_both_lines() -> None:
    text = CATCH_ALL + '[[rule]]\nid = "a"\npreset = "q"\ncatch_all = true\n'
    assert refusal(text).message == 'routes.toml:7: the id "a" is taken (first at line 3)'


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert decode(CATCH_ALL + "#" * (LARGEST - len(CATCH_ALL))).rules
    assert "bytes" in refusal(CATCH_ALL + "#" * LARGEST).message


def test_all_defects_are_told_in_the_order_of_their_lines() -> None:
    failure = refusal(HEAD + 'match = { kind = "x" }\npriority = true\nversoin = 1\n')
    assert failure.message == (
        'routes.toml:5: unknown kind "x"; valid: implementation, review, debugging, log-analysis, research, '
        "planning, documentation, testing, general (and 2 more)"
    )
    details = failure.details
    assert details is not None
    assert [(row["line"], row["found"]) for row in details["further"]] == [(6, "true"), (7, "versoin")]
    assert set(details["further"][0]) == {"line", "found", "nearest", "message"}
    assert "furtherMore" not in details


def test_of_many_defects_twenty_are_told_and_the_rest_counted() -> None:
    details: dict[str, Any] | None = refusal(CATCH_ALL + "".join(f"k{n} = 1\n" for n in range(30))).details
    assert details is not None
    assert (len(details["further"]), details["furtherMore"]) == (19, 10)


@requirement("NFR-04", "AC-09")
def test_no_rule_of_a_file_with_a_defect_is_used() -> None:
    assert defect(CATCH_ALL + '[[rule]]\nid = "b"\npreset = "p"\nmatch = { kindd = "review", scale = "large" }')[0] == 9


# Anything


def _broken(text: str, at: int, put: str) -> bytes:
    at %= len(text) + 1
    return (text[:at] + put + text[at + len(put) // 2 :]).encode("utf-8", "surrogatepass")


GOOD = made.rules().map(made.as_toml)
PIECES = st.sampled_from(
    ('"', "'", "[", "]", "{", "}", "=", "\n", "\r", "#", ".", ",", '"""', "[[rule]]\n", "\x00", "x", "1")
)
NEARLY = st.builds(_broken, GOOD, st.integers(0, 2_000), PIECES | st.text(max_size=3))
TOKENS = st.lists(PIECES | st.sampled_from(("version", "rule", "kind", "true", " ", "0x", "1979-05-27", "inf")))


@settings(max_examples=80)
@given(st.binary() | NEARLY | TOKENS.map("".join).map(str.encode))
@example(b"\x00")
@example(b"\x00\x00")
@example(b"\xff")
@example(b"a = 1979-02-30")
@example(b"a=1\ra=2")
def test_any_bytes_give_rules_or_a_routing_config_invalid_and_nothing_else(data: bytes) -> None:
    told = made.outcome(lambda: decode(data))
    if isinstance(told, Rules):
        assert all(rule.match or rule.catch_all for rule in told.rules)
        return
    assert told.code is Code.ROUTING_CONFIG_INVALID
    assert told.details is not None
    assert 1 <= told.details["line"] <= data.count(b"\n") + 1
    assert told.message.startswith(f"routes.toml:{told.details['line']}: ")
    assert is_plain_line(told.message)
