from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.record import FIRST_SUM, Line, chain, encode_line
from agentlink.core.facts.work import TailSetAside
from tests.journal.home import REQUESTED, SELECTED, A, B, Journal, snapshot

NEXT_LINE, _ = encode_line(Line(1, 1, "2026-01-01T00:00:00.000Z", B, 1, (REQUESTED,)), FIRST_SUM)
assert "ü世".encode() in NEXT_LINE


def one_line_and(home: Path, tail: bytes) -> Journal:
    journal = Journal(home)
    journal.append(A, REQUESTED, n=0)
    with journal.file.open("ab") as file:
        file.write(tail)
    return Journal(home)


def second_line(journal: Journal) -> bytes:
    """What another process would write after the only line."""
    last = journal.lines()[0][-18:-2].decode()
    return encode_line(Line(1, 2, "2026-01-01T00:00:00.000Z", B, 1, (REQUESTED,)), last)[0]


def facts_of(journal: Journal) -> list[tuple[int, str]]:
    rows = [msgspec.json.decode(line) for line in journal.lines()]
    return [(row["seq"], row["facts"][0]["type"]) for row in rows]


def test_f16_torn_tail_cut_at_any_byte_is_set_aside_and_numbering_goes_on(tmp_path: Path) -> None:
    sound = one_line_and(tmp_path / "sound", b"")
    first, head, line = sound.file.read_bytes(), sound.head.read_bytes(), second_line(sound)
    before = len(first)
    for cut in range(1, len(line) - 1):
        home = tmp_path / str(cut)
        journal = Journal(home)
        journal.file.parent.mkdir(parents=True)
        journal.file.write_bytes(first + line[:cut])
        journal.head.write_bytes(head)
        journal.append(A, SELECTED, n=1)
        (torn,) = (home / "journal").glob("*.torn")
        assert torn.read_bytes() == line[:cut]
        assert facts_of(journal) == [(1, "launch/requested"), (2, "journal/tail-set-aside"), (3, "launch/selected")]
        told = msgspec.json.decode(journal.lines()[1])["facts"][0]
        assert (told["file"], told["bytes"]) == (f"000001.{before}.torn", cut)
        assert torn.name == told["file"]
        again = snapshot(home)
        assert isinstance(again, dict)
        assert again[A][0].n == 2


def test_f16_torn_tail_that_got_a_newline_is_damage_and_stays_untouched(tmp_path: Path) -> None:
    line = second_line(one_line_and(tmp_path / "measure", b""))
    for cut in range(0, len(line) - 1, 3):
        journal = one_line_and(tmp_path / str(cut), line[:cut] + b"\n")
        before = journal.file.read_bytes()
        with pytest.raises(Failure) as caught:
            journal.append(A, SELECTED, n=1)
        assert caught.value.code == Code.JOURNAL_CORRUPT
        assert journal.file.read_bytes() == before
        assert journal.page() == [A]


def test_f16_torn_first_line_of_a_new_journal_is_set_aside(tmp_path: Path) -> None:
    for cut in range(1, len(NEXT_LINE) - 1, 7):
        journal = Journal(tmp_path / str(cut))
        journal.file.parent.mkdir(parents=True)
        journal.file.write_bytes(NEXT_LINE[:cut])
        journal.append(A, REQUESTED, n=0)
        assert facts_of(journal) == [(1, "journal/tail-set-aside"), (2, "launch/requested")]


def test_f16_a_whole_last_line_that_lacks_only_its_newline_is_completed(tmp_path: Path) -> None:
    journal = one_line_and(tmp_path, b"")
    line = second_line(journal)
    with journal.file.open("ab") as file:
        file.write(line[:-1])
    assert journal.page() == [A]
    journal.append(A, SELECTED, n=1)
    assert facts_of(journal) == [(1, "launch/requested"), (2, "launch/requested"), (3, "launch/selected")]
    assert journal.page() == Journal(tmp_path).page() == [B, A]
    assert not list(journal.file.parent.glob("*.torn"))


def test_a_whole_last_line_that_cannot_follow_is_completed_and_then_found_wrong(tmp_path: Path) -> None:
    journal = one_line_and(tmp_path, b"")
    last = journal.lines()[0][-18:-2].decode()
    wrong = encode_line(Line(1, 2, "", A, 7, (SELECTED,)), last)[0][:-1]
    with journal.file.open("ab") as file:
        file.write(wrong)
    with pytest.raises(Failure) as caught:
        journal.append(A, SELECTED, n=1)
    assert caught.value.code == Code.JOURNAL_CORRUPT


def test_a_newer_last_line_without_newline_is_left_to_the_newer_version(tmp_path: Path) -> None:
    journal = one_line_and(tmp_path, b"")
    last = journal.lines()[0][-18:-2].decode()
    body = b'{"v":9,"seq":2,"at":"","task":null,"n":0,"facts":[{"type":"new/fact"}]'
    newer = b'%b,"sum":"%b"}' % (body, chain(last, body).encode())
    with journal.file.open("ab") as file:
        file.write(newer)
    before = journal.file.read_bytes()
    with pytest.raises(Failure) as caught:
        journal.append(A, SELECTED, n=1)
    assert caught.value.code == Code.JOURNAL_NEWER
    assert journal.file.read_bytes() == before
    assert not list(journal.file.parent.glob("*.torn"))


def test_a_tail_cut_off_by_a_process_that_died_before_telling_is_told_by_the_next(tmp_path: Path) -> None:
    journal = one_line_and(tmp_path, b"")
    offset = journal.file.stat().st_size
    torn = journal.file.parent / f"000001.{offset}.torn"
    torn.write_bytes(b"half a line")
    journal.append(A, SELECTED, n=1)
    journal.append(B, REQUESTED, n=0)
    assert [kind for _, kind in facts_of(journal)] == [
        "launch/requested",
        "journal/tail-set-aside",
        "launch/selected",
        "launch/requested",
    ]
    assert torn.read_bytes() == b"half a line"


def test_a_second_tail_at_the_same_place_never_overwrites_the_first(tmp_path: Path) -> None:
    journal = one_line_and(tmp_path, b"second")
    offset = journal.file.stat().st_size - len(b"second")
    names = [f"000001.{offset}.torn", f"000001.{offset}.2.torn"]
    (journal.file.parent / names[0]).write_bytes(b"first")
    journal.append(A, SELECTED, n=1)
    assert [(journal.file.parent / name).read_bytes() for name in names] == [b"first", b"second"]
    line = msgspec.json.decode(journal.lines()[1], type=dict[str, object])
    told = msgspec.convert(line["facts"], list[TailSetAside])
    assert told == [TailSetAside(file=names[0], bytes=5), TailSetAside(file=names[1], bytes=6)]


def test_a_reader_never_sees_or_keeps_a_tail(tmp_path: Path) -> None:
    journal = one_line_and(tmp_path, b"")
    reader = Journal(tmp_path)
    assert reader.page() == [A]
    line = second_line(journal)
    for cut in range(1, len(line)):
        with journal.file.open("ab") as file:
            file.write(line[cut - 1 : cut])
        assert anyio.run(reader.store.task, A) is not None
        assert reader.page() == [A]
    with journal.file.open("ab") as file:
        file.write(line[-1:])
    assert reader.page() == [B, A]
