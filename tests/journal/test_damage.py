from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.record import FIRST_SUM, Line, LineDamaged, chain, encode_line
from agentlink.core.facts.work import TailSetAside
from agentlink.journal import head, segment
from agentlink.journal.head import Head, read_head, write_head
from agentlink.journal.ledger import Ledger
from tests.journal.home import REQUESTED, SELECTED, STEPS, A, B, C, Journal, requested, snapshot

STOPPED = (Code.JOURNAL_CORRUPT, Code.JOURNAL_NEWER)


def small(home: Path) -> Journal:
    """Two tasks, three lines."""
    journal = Journal(home)
    journal.append(A, requested(key="k"), n=0)
    journal.append(B, REQUESTED, n=0)
    journal.append(A, SELECTED, n=1)
    return journal


def told_or_code(journal: Journal) -> object:
    try:
        return journal.history(A)
    except Failure as failure:
        return failure.code


def refuses(journal: Journal) -> bool:
    """Whether a fresh process appends nothing here, and says why."""
    before = journal.file.read_bytes() if journal.file.exists() else None
    with pytest.raises(Failure) as caught:
        Journal(journal.home).append(C, REQUESTED, n=0)
    after = journal.file.read_bytes() if journal.file.exists() else None
    return caught.value.code in STOPPED and after == before


def test_no_flipped_byte_gives_another_state(tmp_path: Path) -> None:
    journal = small(tmp_path)
    whole = journal.file.read_bytes()
    for place in range(len(whole)):
        for xor in {(1, 0x20, 0x80, 0x55)[place % 4], (whole[place] ^ 0x0A) or 1}:
            changed = bytearray(whole)
            changed[place] ^= xor
            journal.file.write_bytes(changed)
            assert snapshot(tmp_path) in STOPPED
    assert refuses(journal)


def test_no_flipped_byte_of_the_head_gives_another_state(tmp_path: Path) -> None:
    journal = small(tmp_path)
    state, head = snapshot(tmp_path), journal.head.read_bytes()
    for place in range(len(head)):
        for xor in (1, 2, 0x20, 0x80):
            changed = bytearray(head)
            changed[place] ^= xor
            journal.head.write_bytes(changed)
            assert snapshot(tmp_path) in (state, Code.JOURNAL_CORRUPT)


@pytest.mark.parametrize("dropped", range(3))
def test_a_dropped_line_is_noticed(tmp_path: Path, dropped: int) -> None:
    journal = small(tmp_path)
    lines = journal.lines()
    del lines[dropped]
    journal.file.write_bytes(b"".join(line + b"\n" for line in lines))
    assert snapshot(tmp_path) == Code.JOURNAL_CORRUPT
    assert refuses(journal)


@pytest.mark.parametrize("doubled", range(3))
def test_a_doubled_line_is_noticed(tmp_path: Path, doubled: int) -> None:
    journal = small(tmp_path)
    lines = journal.lines()
    lines.insert(doubled, lines[doubled])
    journal.file.write_bytes(b"".join(line + b"\n" for line in lines))
    assert snapshot(tmp_path) == Code.JOURNAL_CORRUPT
    assert refuses(journal)


@pytest.mark.parametrize("order", list(permutations(range(3)))[1:])
def test_lines_in_another_order_are_noticed(tmp_path: Path, order: tuple[int, ...]) -> None:
    journal = small(tmp_path)
    lines = journal.lines()
    journal.file.write_bytes(b"".join(lines[i] + b"\n" for i in order))
    assert snapshot(tmp_path) == Code.JOURNAL_CORRUPT
    assert refuses(journal)


def test_a_journal_cut_anywhere_misses_an_acknowledged_line(tmp_path: Path) -> None:
    journal = small(tmp_path)
    whole = journal.file.read_bytes()
    for cut in range(len(whole)):
        journal.file.write_bytes(whole[:cut])
        assert snapshot(tmp_path) == Code.JOURNAL_CORRUPT
        if cut % 50 == 0:
            assert refuses(journal)


def test_a_deleted_journal_is_damage_and_never_an_empty_list(tmp_path: Path) -> None:
    journal = small(tmp_path)
    journal.file.unlink()
    for one in (journal, Journal(tmp_path)):
        with pytest.raises(Failure) as listed:
            one.page()
        with pytest.raises(Failure) as looked:
            one.task(A)
        with pytest.raises(Failure) as owned:
            anyio.run(one.store.key_owner, "k")
        with pytest.raises(Failure) as checked:
            anyio.run(one.store.check, lambda _: None)
        codes = {caught.value.code for caught in (listed, looked, owned, checked)}
        assert codes == {Code.JOURNAL_CORRUPT}
    assert refuses(journal)


def test_without_journal_and_head_the_home_is_empty_as_the_docs_declare(tmp_path: Path) -> None:
    journal = small(tmp_path)
    journal.file.unlink()
    journal.head.unlink()
    assert journal.page() == Journal(tmp_path).page() == []
    assert journal.problem() is None


def test_without_its_head_a_journal_is_read_and_the_head_made_anew(tmp_path: Path) -> None:
    journal = small(tmp_path)
    state = snapshot(tmp_path)
    journal.head.unlink()
    assert snapshot(tmp_path) == state
    journal.append(C, REQUESTED, n=0)
    head = read_head(journal.head)
    assert head is not None
    assert head.seq == 4


def test_another_journal_under_the_same_head_is_noticed(tmp_path: Path) -> None:
    journal = small(tmp_path / "one")
    other = Journal(tmp_path / "two")
    other.fill(C, STEPS[:3])
    journal.file.write_bytes(other.file.read_bytes())
    assert snapshot(tmp_path / "one") == Code.JOURNAL_CORRUPT


def test_a_damaged_line_stops_writing_and_what_is_before_it_stays_readable(tmp_path: Path) -> None:
    journal = small(tmp_path)
    lines = journal.lines()
    journal.file.write_bytes(lines[0] + b"\n" + lines[1].replace(b'"seq":2', b'"seq":3') + b"\n" + lines[2] + b"\n")
    reader = Journal(tmp_path)
    assert reader.problem() == Code.JOURNAL_CORRUPT
    assert reader.page() == [A]
    view = reader.task(A)
    assert view is not None
    assert view.n == 1
    assert len(reader.history(A)) == 1
    with pytest.raises(Failure) as caught:
        reader.task(B)
    assert caught.value.code == Code.JOURNAL_CORRUPT
    assert caught.value.details == {
        "segment": "000001.jsonl",
        "line": 2,
        "offset": len(lines[0]) + 1,
        "reason": "sum",
    }
    report = anyio.run(reader.store.verify)
    assert (report.lines, report.code, report.unfinished_tail) == (1, "journal_corrupt", 0)


def test_a_repaired_journal_is_read_again_without_a_restart(tmp_path: Path) -> None:
    journal = small(tmp_path)
    whole = journal.file.read_bytes()
    reader = Journal(tmp_path)
    journal.file.write_bytes(whole[:100])
    assert reader.problem() == Code.JOURNAL_CORRUPT
    journal.file.write_bytes(whole)
    assert reader.problem() is None
    assert reader.page() == [B, A]


def test_a_line_damaged_after_it_was_read_is_noticed_when_it_is_read_again(tmp_path: Path) -> None:
    journal = small(tmp_path)
    whole = journal.file.read_bytes()
    told = journal.history(A)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        journal.file.write_bytes(changed)
        assert told_or_code(journal) in (told, Code.JOURNAL_CORRUPT)
    journal.file.write_bytes(whole)
    assert journal.history(A) == told


def test_a_line_of_a_newer_version_turns_the_journal_read_only_and_older_tasks_are_served(tmp_path: Path) -> None:
    journal = small(tmp_path)
    last = journal.lines()[-1][-18:-2].decode()
    body = b'{"v":9,"seq":4,"at":"","task":"dsh_cccccccccccc","n":1,"facts":[{"type":"work/unheard-of"}]'
    with journal.file.open("ab") as file:
        file.write(b'%b,"sum":"%b"}\n' % (body, chain(last, body).encode()))
    reader = Journal(tmp_path)
    assert reader.problem() == Code.JOURNAL_NEWER
    assert reader.page() == [B, A]
    view = reader.task(A)
    assert view is not None
    assert view.n == 2
    assert len(reader.history(A)) == 2
    with pytest.raises(Failure) as caught:
        reader.task(C)
    assert caught.value.code == Code.JOURNAL_NEWER
    assert refuses(journal)


def line_after_the_last(journal: Journal, **fields: Any) -> bytes:
    values: dict[str, Any] = {"v": 1, "seq": 4, "at": "", "task": C, "n": 1, "facts": (REQUESTED,)} | fields
    return encode_line(Line(**values), journal.lines()[-1][-18:-2].decode())[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"n": 0},
        {"task": A, "n": 2, "facts": (SELECTED,)},
        {"task": A, "n": 3, "facts": (SELECTED,)},
        {"facts": ()},
        {"task": None, "n": 1, "facts": (TailSetAside(file="f", bytes=1),)},
        {"facts": (TailSetAside(file="f", bytes=1),)},
        {"seq": 5},
    ],
)
def test_a_sound_line_that_cannot_follow_is_damage(tmp_path: Path, fields: dict[str, Any]) -> None:
    journal = small(tmp_path)
    with journal.file.open("ab") as file:
        file.write(line_after_the_last(journal, **fields))
    assert snapshot(tmp_path) == Code.JOURNAL_CORRUPT
    assert refuses(journal)


def test_a_line_that_a_ledger_refuses_leaves_it_as_it_was() -> None:
    ledger = Ledger()
    ledger.take(Line(1, 1, "t", A, 1, (REQUESTED,)), FIRST_SUM, offset=0, length=10)
    with pytest.raises(LineDamaged):
        ledger.take(Line(1, 2, "t", A, 2, (SELECTED, SELECTED)), FIRST_SUM, offset=10, length=10)
    with pytest.raises(LineDamaged):
        ledger.take(Line(1, 2, "t", B, 1, (SELECTED,)), FIRST_SUM, offset=10, length=10)
    view = ledger.view(A)
    assert view is not None
    assert (ledger.seq, ledger.offset, len(ledger), view.n, ledger.view(B)) == (1, 10, 1, 1, None)


@pytest.mark.parametrize("shown", ["half-written head", "cut-off tail"])
def test_what_only_one_look_shows_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str) -> None:
    journal = small(tmp_path)
    looks = 0

    def once(real: Callable[..., Any], wrong: Any) -> Callable[..., Any]:
        def look(*args: Any) -> Any:
            nonlocal looks
            looks += 1
            return wrong if looks == 1 else real(*args)

        return look

    if shown == "half-written head":
        mixed = Head("000001.jsonl", 3, "0" * 16, 0)
        monkeypatch.setattr(head, "read_head", once(read_head, mixed))
    else:
        damage = segment.Damage("000001.jsonl", 4, 0, "form")
        monkeypatch.setattr(segment, "read_on", once(segment.read_on, damage))
    assert Journal(tmp_path).problem() is None
    assert journal.problem() is None


def test_a_head_that_is_torn_or_garbage_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "head"
    assert read_head(path) is None
    write_head(path, Head("000001.jsonl", 3, "a" * 16, 77))
    assert read_head(path) == Head("000001.jsonl", 3, "a" * 16, 77)
    for data in (b"", b"{", b"[]", path.read_bytes()[:40], b"\0" * 128):
        path.write_bytes(data)
        assert read_head(path) is None


def test_a_head_in_a_shorter_form_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "head"
    write_head(path, Head("000001.jsonl", 10**15, "a" * 16, 10**15))
    write_head(path, Head("000001.jsonl", 1, "b" * 16, 1))
    assert read_head(path) == Head("000001.jsonl", 1, "b" * 16, 1)
