from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import msgspec
import pytest

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchAbandoned, SessionLost
from agentlink.core.facts.work import ClaimReleased
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import StaleTask
from agentlink.core.launch.state import IllegalFact
from agentlink.journal import segment
from agentlink.journal.head import Head, read_head
from agentlink.journal.store import FileStore
from tests.journal.home import CREATED, FAILED, REQUESTED, SELECTED, STEPS, A, B, C, Journal, Ticks, requested, snapshot


def test_what_was_appended_is_read_back_in_order_with_its_times(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.fill()
    view = journal.task(A)
    assert view is not None
    assert (view.n, view.launch.state, view.created_at) == (4, "launch-failed", "2026-01-01T00:00:01.000Z")
    assert journal.history(A) == [(i, i, (fact,)) for i, fact in enumerate(STEPS, start=1)]
    assert snapshot(tmp_path) == {A: (view, anyio.run(journal.store.history, A))}


def test_an_empty_home_has_no_tasks_and_no_problem(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "not" / "yet")
    assert journal.page() == []
    assert journal.task(A) is None
    assert journal.history(A) == []
    assert journal.problem() is None
    assert not (tmp_path / "not").exists()


def test_each_store_sees_what_the_other_appended(tmp_path: Path) -> None:
    one, two = Journal(tmp_path), Journal(tmp_path)
    one.append(A, REQUESTED, n=0)
    assert two.task(A) == one.task(A)
    two.append(A, SELECTED, n=1)
    one.append(B, REQUESTED, n=0)
    assert two.page() == one.page() == [B, A]
    assert [line[0] for line in one.history(A)] == [1, 2]
    assert two.problem() is None


def test_a_stale_expectation_writes_nothing(tmp_path: Path) -> None:
    one, two = Journal(tmp_path), Journal(tmp_path)
    one.append(A, REQUESTED, n=0)
    two.append(A, SELECTED, n=1)
    before = one.file.read_bytes()
    for n in (0, 1, 3):
        with pytest.raises(StaleTask):
            one.append(A, SELECTED, n=n)
    with pytest.raises(StaleTask):
        one.append(B, REQUESTED, n=1)
    assert one.file.read_bytes() == before


def test_an_illegal_fact_writes_nothing_of_its_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    before = journal.file.read_bytes()
    with pytest.raises(IllegalFact):
        journal.append(A, SELECTED, SELECTED, n=1)
    with pytest.raises(IllegalFact):
        journal.append(B, ClaimReleased(), n=0)
    assert journal.file.read_bytes() == before
    journal.append(A, SELECTED, n=1)


def test_a_line_without_facts_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(ValueError, match="at least one fact"):
        journal.append(A, n=0)
    assert not journal.file.exists()


def test_a_text_that_json_cannot_hold_writes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(UnicodeEncodeError):
        journal.append(A, requested(cwd="/w/\udcff"), n=0)
    assert not journal.file.exists()
    journal.append(A, REQUESTED, n=0)


def test_a_rule_that_refuses_writes_nothing_and_sees_what_others_hold(tmp_path: Path) -> None:
    one, two = Journal(tmp_path), Journal(tmp_path)
    two.append(A, REQUESTED, SELECTED, n=0)
    before = one.file.read_bytes()
    seen: list[str] = []

    def refuse(view: object) -> None:
        seen.extend(claim.task for claim in view.held_claims())  # type: ignore[attr-defined]
        raise Failure(Code.WORKSPACE_CONFLICT, "held")

    with pytest.raises(Failure) as caught:
        one.append(B, REQUESTED, n=0, rule=refuse)
    assert caught.value.code == Code.WORKSPACE_CONFLICT
    assert seen == [A]
    assert one.file.read_bytes() == before
    with pytest.raises(Failure):
        anyio.run(one.store.check, refuse)
    one.append(B, REQUESTED, n=0, rule=lambda _: None)
    anyio.run(one.store.check, lambda _: None)


def test_claims_are_listed_in_the_order_in_which_they_were_taken(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for task in (C, A, B):
        journal.append(task, requested(cwd=f"/{task}"), SELECTED, n=0)
    journal.append(A, ClaimReleased(), n=1)
    held: list[str] = []
    anyio.run(journal.store.check, lambda view: held.extend(claim.task for claim in view.held_claims()))
    assert held == [C, B]


def test_files_and_directories_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal(tmp_path / "home")
        journal.append(A, REQUESTED, n=0)
        with journal.file.open("ab") as file:
            file.write(b"torn")
        journal.append(A, SELECTED, n=1)
        anyio.run(drive_once, journal.store, A)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").rglob("*")}
    assert {name for name, mode in modes.items() if mode == 0o700} == {"journal", "locks"}
    assert {mode for name, mode in modes.items() if name not in ("journal", "locks")} == {0o600}
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


async def drive_once(store: FileStore, task: TaskId) -> None:
    async with store.drive(task):
        pass


def test_sixteen_threads_append_and_nothing_is_lost(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    tasks = [TaskId(f"dsh_{i:012x}") for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(journal.fill, tasks))
    assert [msgspec.json.decode(line)["seq"] for line in journal.lines()] == list(range(1, 65))
    assert sorted(Journal(tmp_path).page()) == tasks
    for task in tasks:
        assert [line[1:] for line in journal.history(task)] == [(i, (fact,)) for i, fact in enumerate(STEPS, start=1)]


def test_pages_go_from_the_newest_to_the_oldest_without_a_gap(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for task in (A, B, C):
        journal.append(task, REQUESTED, n=0)
    journal.append(A, SELECTED, n=1)
    assert journal.page(limit=2) == [C, B]
    assert journal.page(limit=2, before=B) == [A]
    assert journal.page(before=A) == []


def test_a_request_key_belongs_to_its_latest_task_until_that_is_given_up(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    def owner(key: str) -> str | None:
        view = anyio.run(journal.store.key_owner, key)
        return None if view is None else view.task

    assert owner("k") is None
    journal.append(A, requested(key="k"), SELECTED, CREATED, FAILED, n=0)
    assert owner("k") == A
    journal.append(A, LaunchAbandoned(), n=1)
    assert owner("k") is None
    journal.append(B, requested(key="k"), n=0)
    assert owner("k") == B


def test_a_request_key_is_known_wherever_in_its_line_the_request_stands(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(A, requested(), SELECTED, CREATED, FAILED, n=0)
    journal.append(A, SessionLost(session="session-1", proof="person"), requested(attempt=2, key="k"), n=1)
    view = anyio.run(journal.store.key_owner, "k")
    assert view is not None
    assert view.task == A


def test_siblings_are_other_known_sessions_on_the_same_host(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    def add(task: TaskId, session: str, **more: str) -> None:
        facts = requested(**more), SELECTED, msgspec.structs.replace(CREATED, session=session)
        journal.append(task, *facts, n=0)

    add(A, "s-a")
    add(B, "s-b", origin="http://elsewhere")
    add(C, "s-c")
    add(TaskId("dsh_eeeeeeeeeeee"), "s-e", binding="another login")
    journal.append(TaskId("dsh_dddddddddddd"), REQUESTED, n=0)

    async def siblings(but: str | None) -> tuple[str, ...]:
        return await journal.store.sibling_sessions(host="default", origin="http://o", binding=None, but=but)

    assert anyio.run(siblings, None) == ("s-c", "s-a")
    assert anyio.run(siblings, "s-c") == ("s-a",)


def test_the_acknowledged_end_is_noted_after_each_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for n, fact in enumerate(STEPS):
        journal.append(A, fact, n=n)
        last = journal.lines()[-1]
        head = read_head(journal.head)
        assert head == Head("000001.jsonl", n + 1, last[-18:-2].decode(), journal.file.stat().st_size)


def test_a_long_journal_is_read_chunk_by_chunk_wherever_the_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.fill()
    whole = snapshot(tmp_path)
    shown = anyio.run(lines_of, journal, None, 3)
    for size in (1, 7, 100, 333):
        monkeypatch.setattr(segment, "CHUNK", size)
        assert snapshot(tmp_path) == whole
        assert anyio.run(lines_of, journal, None, 3) == shown


async def lines_of(journal: Journal, task: TaskId | None, last: int) -> tuple[str, ...]:
    return await journal.store.lines(task=task, last=last)


def test_the_newest_lines_are_shown_as_they_stand_in_the_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert anyio.run(lines_of, journal, None, 5) == ()
    journal.append(A, requested(cwd="/w/\u2028\x85x"), n=0)
    journal.append(B, REQUESTED, n=0)
    journal.append(A, SELECTED, n=1)
    texts = tuple(line.decode() for line in journal.lines())
    assert anyio.run(lines_of, journal, None, 2) == texts[1:]
    assert anyio.run(lines_of, journal, None, 9) == texts
    assert anyio.run(lines_of, journal, A, 9) == (texts[0], texts[2])
    assert anyio.run(lines_of, journal, A, 1) == (texts[2],)


def test_a_whole_reading_counts_lines_tasks_and_torn_pieces(tmp_path: Path) -> None:
    journal = Journal(tmp_path, clock=Ticks())
    journal.fill()
    with journal.file.open("ab") as file:
        file.write(b'{"v":1')
    report = anyio.run(journal.store.verify)
    assert (report.lines, report.tasks, report.unfinished_tail, report.code, report.set_aside) == (4, 1, 6, None, ())
    journal.append(B, REQUESTED, n=0)
    report = anyio.run(journal.store.verify)
    assert (report.lines, report.tasks, report.unfinished_tail, len(report.set_aside)) == (6, 2, 0, 1)
    assert report.bytes == journal.file.stat().st_size
