from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import LaunchAbandoned, LaunchFact, LaunchFailed
from agentlink.core.facts.record import (
    FIRST_SUM,
    VERSION,
    AnyFact,
    Line,
    LineDamaged,
    LineNewer,
    chain,
    decode_line,
    encode_line,
)
from agentlink.core.facts.work import ClaimReleased, TaskFact
from agentlink.core.launch.state import Launch, apply
from tests.strategies import ANY_FACT, JSON, NUMBER, TEXT

SAMPLES = Path(__file__).parent.parent / "samples"
SUMS = st.from_regex(r"[0-9a-f]{16}", fullmatch=True)
LINES = st.builds(
    Line,
    v=st.just(VERSION),
    seq=NUMBER,
    at=TEXT,
    task=st.none() | TEXT,
    n=NUMBER,
    facts=st.lists(ANY_FACT, max_size=4).map(tuple),
)


def sealed(body: dict[str, Any] | bytes, previous: str = FIRST_SUM) -> bytes:
    """A line with any body and the sum that belongs to it, without newline."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)[:-1]
    return b'%b,"sum":"%b"}' % (raw, chain(previous, raw).encode())


def body_of(facts: list[Any], **more: Any) -> dict[str, Any]:
    return {"v": 1, "seq": 1, "at": "", "task": "t", "n": 1, "facts": facts} | more


@given(LINES, SUMS)
def test_a_line_of_any_facts_reads_back_as_it_was(line: Line, previous: str) -> None:
    raw, new_sum = encode_line(line, previous)
    assert raw.endswith(b'"}\n')
    assert raw.count(b"\n") == 1
    assert decode_line(raw[:-1], previous, seq=line.seq) == (line, new_sum)
    assert decode_line(raw[:-1], previous, seq=None) == (line, new_sum)


@given(LINES, SUMS)
def test_the_sum_covers_the_sum_before_and_exactly_the_written_bytes(line: Line, previous: str) -> None:
    raw, new_sum = encode_line(line, previous)
    body = raw[: raw.rindex(b',"sum":')]
    assert new_sum == blake2b(previous.encode() + body, digest_size=8).hexdigest()
    assert msgspec.json.decode(raw)["sum"] == new_sum


@given(LINES, SUMS, SUMS)
def test_a_line_follows_only_the_line_it_was_written_after(line: Line, previous: str, other: str) -> None:
    raw, _ = encode_line(line, previous)
    if previous != other:
        with pytest.raises(LineDamaged) as caught:
            decode_line(raw[:-1], other, seq=line.seq)
        assert caught.value.reason == "sum"
    with pytest.raises(LineDamaged) as caught:
        decode_line(raw[:-1], previous, seq=line.seq + 1)
    assert caught.value.reason == "seq"


def sample_lines(name: str = "journal_v1.jsonl") -> list[tuple[bytes, str]]:
    previous, rows = FIRST_SUM, []
    for raw in (SAMPLES / name).read_bytes().split(b"\n")[:-1]:
        rows.append((raw, previous))
        previous = raw[-18:-2].decode()
    return rows


@pytest.mark.parametrize("number", [1, 8, 11, 16])
def test_no_byte_of_a_line_can_change_unnoticed(number: int) -> None:
    raw, previous = sample_lines()[number - 1]
    for place in range(len(raw)):
        for xor in (1, 2, 4, 8, 16, 32, 64, 128, 255, 0x5F):
            changed = bytearray(raw)
            changed[place] ^= xor
            with pytest.raises((LineDamaged, LineNewer)):
                decode_line(bytes(changed), previous, seq=number)


def test_all_255_changes_of_each_byte_of_a_short_line_are_noticed() -> None:
    raw, _ = encode_line(Line(1, 1, "", "t", 1, (LaunchAbandoned(),)), FIRST_SUM)
    for place in range(len(raw) - 1):
        for xor in range(1, 256):
            changed = bytearray(raw[:-1])
            changed[place] ^= xor
            with pytest.raises(LineDamaged):
                decode_line(bytes(changed), FIRST_SUM, seq=1)


FRAGMENTS = st.lists(st.sampled_from([b'{"v":1', b',"sum":"', b"0" * 16, b'"}', b"{}"])).map(b"".join)


@given(st.binary(max_size=80) | FRAGMENTS)
def test_other_bytes_are_a_damaged_line_and_nothing_else(raw: bytes) -> None:
    with pytest.raises(LineDamaged):
        decode_line(raw, FIRST_SUM, seq=1)


@given(st.binary(max_size=80))
def test_bytes_with_a_right_sum_that_are_no_line_are_damaged(body: bytes) -> None:
    with pytest.raises(LineDamaged) as caught:
        decode_line(sealed(body), FIRST_SUM, seq=1)
    assert caught.value.reason == "form"


@given(st.integers(VERSION + 1, 2**40), st.lists(JSON, max_size=3))
def test_a_higher_format_is_newer_whatever_its_facts_are(version: int, facts: list[Any]) -> None:
    with pytest.raises(LineNewer) as caught:
        decode_line(sealed(body_of(facts, v=version)), FIRST_SUM, seq=1)
    assert caught.value.version == version


def test_a_newer_line_with_facts_of_today_is_newer_all_the_same() -> None:
    with pytest.raises(LineNewer):
        decode_line(sealed(body_of([{"type": "launch/abandoned"}], v=9)), FIRST_SUM, seq=1)


@pytest.mark.parametrize("version", [0, -1])
def test_a_format_that_never_was_is_damage(version: int) -> None:
    with pytest.raises(LineDamaged):
        decode_line(sealed(body_of([{"type": "launch/abandoned"}], v=version)), FIRST_SUM, seq=1)


def test_an_unknown_fact_in_the_format_of_today_is_damage() -> None:
    with pytest.raises(LineDamaged) as caught:
        decode_line(sealed(body_of([{"type": "launch/unheard-of"}])), FIRST_SUM, seq=1)
    assert caught.value.reason == "form"


@given(ANY_FACT, st.dictionaries(st.from_regex(r"x_[a-z]{1,5}", fullmatch=True), JSON, max_size=3))
def test_fields_that_this_version_does_not_know_are_passed_over(fact: AnyFact, more: dict[str, Any]) -> None:
    raw = sealed(body_of([msgspec.to_builtins(fact) | more]) | more)
    line, _ = decode_line(raw, FIRST_SUM, seq=1)
    assert line.facts == (fact,)


def test_every_fact_names_itself_in_the_journal() -> None:
    assert fact_type(LaunchAbandoned) == fact_type(LaunchAbandoned()) == "launch/abandoned"


def read_sample(name: str) -> tuple[dict[str, Launch], set[str], set[int]]:
    """The launches that a sample journal tells, the facts in it, and the formats of its lines."""
    launches: dict[str, Launch] = {}
    seen: set[str] = set()
    formats: set[int] = set()
    for number, (raw, previous) in enumerate(sample_lines(name), start=1):
        line, _ = decode_line(raw, previous, seq=number)
        formats.add(line.v)
        seen |= {fact_type(fact) for fact in line.facts}
        for fact in line.facts if line.task else ():
            launches[line.task or ""] = apply(launches.get(line.task or "", Launch()), fact)  # type: ignore[arg-type]
    return launches, seen, formats


def test_a_journal_of_the_first_format_reads_for_ever_to_the_same_launches() -> None:
    launches, seen, formats = read_sample("journal_v1.jsonl")
    assert formats == {1}
    known = msgspec.json.decode(EXPECTED, type=dict[str, Launch])
    assert launches == known
    all_facts = (*LaunchFact.__args__, ClaimReleased)  # type: ignore[attr-defined]
    assert seen == {fact_type(fact) for fact in all_facts} | {"journal/tail-set-aside"}
    assert LaunchFailed in all_facts


def test_a_journal_of_the_second_format_reads_for_ever_with_its_later_writes() -> None:
    launches, seen, formats = read_sample("journal_v2.jsonl")
    assert formats == {2}
    task_facts = {fact_type(fact) for fact in (*get_args(LaunchFact), *get_args(TaskFact))}
    assert seen == task_facts | {"journal/tail-set-aside"}
    first = launches.pop("dsh_000000000001")
    known = msgspec.json.decode(EXPECTED, type=dict[str, Launch])
    assert launches == {task: launch for task, launch in known.items() if task != "dsh_000000000001"}
    assert first.claim_held
    assert first.writes.count == 3
    (still_open,) = first.writes.open
    assert (still_open.kind, still_open.request, still_open.outcome) == ("cancel-all", "dsh_000000000001.1.3", None)
    keyed = first.writes.under("k2")
    assert keyed is not None
    assert (keyed.outcome, keyed.input) == ("history", "i2")


def test_lines_of_both_formats_follow_each_other_in_one_journal() -> None:
    raw, previous = sample_lines()[-1]
    _, end = decode_line(raw, previous, seq=None)
    line = Line(VERSION, 24, "", "t", 1, (LaunchAbandoned(),))
    written, _ = encode_line(line, end)
    assert decode_line(written[:-1], end, seq=24)[0] == line
    assert written.startswith(b'{"v":2,')


EXPECTED = b"""
{
 "dsh_000000000001": {"state": "prompt-sent", "attempt": 1, "mode": "manual",
   "cwd": "/w/\xc3\xbc dir\xe2\x80\xa8x",
   "claim_mode": "exclusive-write", "claim_held": false, "host": "default", "origin": "http://127.0.0.1:3080",
   "binding": "b1", "asked_preset": "standard", "key": "k1", "input": "i1", "reason": "explicit_preset",
   "preset": "standard", "intended_session": "session-1", "session": "session-1", "resolved": "standard",
   "verification": "verified", "request": "dsh_000000000001.1.0", "evidence": "receipt", "confirmed_seq": 8},
 "dsh_000000000002": {"state": "launch-failed", "attempt": 2, "mode": "automatic",
   "cwd": "/w/\xc3\xbc dir\xe2\x80\xa8x",
   "claim_mode": "read-only", "host": "default", "origin": "http://127.0.0.1:3080", "binding": "b2",
   "rule": "review", "reason": "kind_exact", "preset": "minimal", "intended_session": "session-2",
   "resolved": "minimal", "verification": "verified", "request": "dsh_000000000002.2.0", "evidence": "log",
   "code": "prompt_lost", "host_code": "session/not-found", "failed_stage": "prompt-sent",
   "absent_sessions": ["session-2"]},
 "dsh_000000000003": {"state": "launch-failed", "attempt": 1, "mode": "dsh-default", "cwd": "/w",
   "host": "default", "origin": "http://127.0.0.1:3080", "binding": "b1", "reason": "dsh_default",
   "intended_session": "session-3", "session": "session-3", "verification": "not-required",
   "code": "model_unroutable", "failed_stage": "preset-verified", "abandoned": true}
}
"""


def test_an_older_format_is_lifted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the format is raised, lines of the first one still read; one that was never released does not."""
    from agentlink.core.facts import record, upcast

    line = Line(1, 1, "t", "dsh_000000000001", 1, (LaunchAbandoned(),))
    raw, _ = encode_line(line, FIRST_SUM)
    steps = {1: lambda old: {**old, "at": old["at"] + " lifted"}, 2: lambda old: {**old, "n": old["n"] + 1}}
    monkeypatch.setattr(record, "VERSION", 3)
    monkeypatch.setattr(record, "_READ_AS_THEY_ARE", (3,))
    monkeypatch.setattr(
        record,
        "upcast",
        lambda old, *, version, current: upcast.upcast(old, version=version, current=current, steps=steps),
    )
    lifted, _ = decode_line(raw[:-1], FIRST_SUM, seq=1)
    assert (lifted.v, lifted.at, lifted.n, lifted.facts) == (3, "t lifted", 2, line.facts)
    del steps[1]
    with pytest.raises(LineDamaged):
        decode_line(raw[:-1], FIRST_SUM, seq=1)
