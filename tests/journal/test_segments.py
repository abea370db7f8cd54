"""Growth: segments, carried tasks, the index of what is closed, and damage in what is sealed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import (
    LaunchClaimed,
    LaunchFailed,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    SessionLost,
)
from agentlink.core.facts.work import ClaimReleased, TaskLineFact
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.kinds import is_open
from agentlink.journal import repair, rotate
from agentlink.journal.index import Index
from agentlink.journal.lines import segment_numbers
from agentlink.journal.store import FileStore
from tests.journal.home import CREATED, SELECTED, Journal, requested

CLOSED = LaunchFailed(code="preset_not_found", stage="selected", host_code="agent-preset/not-found")


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotate, "SEGMENT_BYTES", 1_500)


def task(number: int) -> TaskId:
    return TaskId(f"dsh_{number:012x}")


def failed(journal: Journal, number: int, **more: Any) -> TaskId:
    """A whole launch that is closed: failed without a session."""
    journal.fill(task(number), (requested(cwd=f"/w{number}", **more), SELECTED, CLOSED))
    return task(number)


def opened(journal: Journal, number: int, **more: Any) -> TaskId:
    journal.fill(task(number), (requested(cwd=f"/w{number}", **more), SELECTED))
    return task(number)


def numbers(home: Path) -> list[int]:
    return segment_numbers(home / "journal")


def everything(home: Path) -> dict[str, Any]:
    """All tasks as a fresh process sees them."""
    journal = Journal(home)
    views = [journal.task(name) for name in journal.page(limit=1000)]
    return {view.task: (view, journal.history(view.task)) for view in views if view is not None}


def failure(call: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        call()
    return caught.value


def test_a_full_segment_is_sealed_and_closed_tasks_stay_behind(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = opened(journal, 0)
    for number in range(1, 30):
        failed(journal, number)
    assert len(numbers(tmp_path)) > 5
    fresh = Journal(tmp_path)
    assert fresh.task(first) is not None
    assert fresh.store._journal.ledger.tasks()[0] == first, "what is open is carried"
    assert len(fresh.store._journal.ledger) < 10, "a start reads what is open and the newest segment"
    assert fresh.problem() is None
    assert fresh.page(limit=1000) == [task(number) for number in range(29, -1, -1)]
    assert len(everything(tmp_path)) == 30


def test_a_closed_task_is_found_again_with_its_whole_history(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = failed(journal, 0)
    history = journal.history(known)
    for number in range(1, 30):
        failed(journal, number)
    fresh = Journal(tmp_path)
    view = fresh.task(known)
    assert view is not None
    assert (view.n, view.launch.state, view.launch.code) == (3, "launch-failed", "preset_not_found")
    assert fresh.history(known) == history
    assert fresh.task(task(999)) is None


def test_a_closed_task_that_goes_on_is_carried_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = failed(journal, 0)
    for number in range(1, 30):
        failed(journal, number)
    fresh = Journal(tmp_path)
    view = fresh.append(known, requested(attempt=2, cwd="/w0"), n=3)
    assert (view.n, view.launch.attempt, view.launch.state) == (4, 2, "requested")
    assert [n for _, n, _ in Journal(tmp_path).history(known)] == [1, 2, 3, 4]
    assert journal.task(known) == view


def test_a_request_key_of_a_sealed_segment_still_has_its_owner(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = failed(journal, 0, key="digest", input="i")
    for number in range(1, 30):
        failed(journal, number)
    owner = anyio.run(Journal(tmp_path).store.key_owner, "digest")
    assert owner is not None
    assert owner.task == known
    assert anyio.run(Journal(tmp_path).store.key_owner, "other") is None


def test_pages_go_over_open_and_closed_tasks_without_a_gap_or_a_double(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(40):
        (opened if number % 7 == 0 else failed)(journal, number)
    fresh = Journal(tmp_path)
    rows: list[TaskId] = []
    while page := fresh.page(limit=6, before=rows[-1] if rows else None):
        rows += page
    assert rows == [task(number) for number in range(39, -1, -1)]


def test_a_process_that_follows_sees_every_segment_as_it_comes(tmp_path: Path) -> None:
    writer, follower = Journal(tmp_path), Journal(tmp_path)
    for number in range(30):
        (opened if number % 5 == 0 else failed)(writer, number)
        view = follower.task(task(number))
        assert view is not None
        assert view == writer.task(task(number))
    assert follower.problem() is None
    assert follower.page(limit=100) == writer.page(limit=100)


@pytest.mark.parametrize("ending", [None, b"", b"garbage that is no database", b"\0" * 4096])
def test_an_index_that_is_missing_or_broken_is_made_anew(tmp_path: Path, ending: bytes | None) -> None:
    journal = Journal(tmp_path)
    for number in range(20):
        failed(journal, number)
    before = everything(tmp_path)
    index = tmp_path / "journal" / "index.sqlite"
    index.unlink()
    if ending is not None:
        index.write_bytes(ending)
    assert everything(tmp_path) == before


def test_an_index_of_another_journal_is_not_believed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for number in range(20):
        failed(Journal(one), number)
        failed(Journal(other), number + 100, key=f"k{number}")
    expected = everything(one)
    everything(other)
    shutil.copy(other / "journal" / "index.sqlite", one / "journal" / "index.sqlite")
    assert everything(one) == expected


def test_an_index_that_cannot_be_written_is_replaced_by_one_in_memory(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(20):
        failed(journal, number)
    expected = everything(tmp_path)
    index = tmp_path / "journal" / "index.sqlite"
    index.unlink()
    index.mkdir()
    assert everything(tmp_path) == expected


def test_an_index_that_another_process_emptied_answers_nothing_until_it_is_whole_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(20):
        failed(journal, number)
    assert journal.task(task(1)) is not None
    Index(tmp_path / "journal" / "index.sqlite").forget_all()
    assert journal.task(task(2)) is not None
    assert journal.page(limit=100) == [task(number) for number in range(19, -1, -1)]


def test_the_index_is_private(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(20):
        failed(journal, number)
    everything(tmp_path)
    assert (tmp_path / "journal" / "index.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_rotation_that_was_cut_short_leaves_the_old_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(rotate.os, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        for number in range(12):
            failed(journal, number)
    assert numbers(tmp_path) == [1]
    (tmp_path / "journal" / "000002.tmp").write_bytes(b"half a segm")
    failed(Journal(tmp_path), 12)
    assert numbers(tmp_path) == [1, 2]
    assert len(everything(tmp_path)) == 13


def test_a_missing_sealed_segment_is_an_error_for_what_may_be_in_it_and_for_nothing_else(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = opened(journal, 0)
    for number in range(1, 30):
        failed(journal, number)
    (tmp_path / "journal" / "000002.jsonl").unlink()
    (tmp_path / "journal" / "index.sqlite").unlink(missing_ok=True)
    fresh = Journal(tmp_path)
    assert fresh.task(first) is not None
    assert failure(lambda: fresh.task(task(3))).code is Code.JOURNAL_CORRUPT
    assert opened(fresh, 99)


def seen(journal: Journal, name: str) -> Any:
    """A task's view and history, or the code of what hides them."""
    try:
        return journal.task(TaskId(name)), journal.history(TaskId(name))
    except Failure as hidden:
        return hidden.code


def damaged_line(path: Path, number: int) -> None:
    """Flips a byte in the middle of a line."""
    lines = path.read_bytes().split(b"\n")
    line = bytearray(lines[number])
    line[len(line) // 2] ^= 1
    lines[number] = bytes(line)
    path.write_bytes(b"\n".join(lines))


def test_damage_in_a_sealed_segment_costs_only_its_own_tasks(tmp_path: Path) -> None:
    """Every line of a sealed segment in turn: never a wrong state, and everything else stays readable."""
    journal = Journal(tmp_path)
    for number in range(20):
        (opened if number % 6 == 0 else failed)(journal, number)
    whole = everything(tmp_path)
    sealed = tmp_path / "journal" / "000002.jsonl"
    good = sealed.read_bytes()
    blocked_sometimes = 0
    for number in range(good.count(b"\n")):
        sealed.write_bytes(good)
        damaged_line(sealed, number)
        (tmp_path / "journal" / "index.sqlite").unlink(missing_ok=True)
        fresh = Journal(tmp_path)
        assert fresh.problem() is None
        for name, (view, history) in whole.items():
            found = seen(fresh, name)
            if found is Code.JOURNAL_CORRUPT:
                assert not is_open(view.launch), "an open task is carried on and cannot be lost"
                blocked_sometimes += 1
            else:
                assert found == (view, history)
        assert len(fresh.page(limit=100)) >= len(whole) - 1
    assert blocked_sometimes > 0
    sealed.write_bytes(good)


def test_verify_names_damage_in_sealed_segments_and_counts_the_rest(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(20):
        failed(journal, number)
    sound = anyio.run(journal.store.verify)
    assert (sound.problem, sound.sealed_damage, sound.tasks) == (None, (), 20)
    damaged_line(tmp_path / "journal" / "000002.jsonl", 3)
    report = anyio.run(journal.store.verify)
    assert [row["segment"] for row in report.sealed_damage] == ["000002.jsonl"]
    assert report.lines == sound.lines - 1
    stats = anyio.run(journal.store.stats)
    assert (stats.segments, stats.open_tasks) == (len(numbers(tmp_path)), 0)


def test_verify_notices_a_sealed_segment_that_was_replaced_whole(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for number in range(20):
        failed(Journal(one), number)
        failed(Journal(other), number + 100)
    shutil.copy(other / "journal" / "000001.jsonl", one / "journal" / "000001.jsonl")
    assert anyio.run(Journal(one).store.verify).sealed_damage


def mend(journal: Journal) -> repair.Plan:
    """Shows the plan, then accepts exactly it."""

    async def run() -> repair.Plan:
        plan = await journal.store.repair(accept=None)
        assert plan is not None
        assert plan.done is False
        done = await journal.store.repair(accept=plan.digest)
        assert done is not None
        return done

    return anyio.run(run)


def test_repair_of_a_sound_journal_has_nothing_to_do(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    opened(journal, 0)

    async def run() -> Any:
        return await journal.store.repair(accept=None)

    assert anyio.run(run) is None


def lines_in(path: Path) -> Iterator[int]:
    yield from range(path.read_bytes().count(b"\n"))


def test_every_damaged_line_is_repaired_without_rewriting_and_without_a_wrong_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotate, "SEGMENT_BYTES", 1 << 20)
    source = tmp_path / "source"
    journal = Journal(source)
    for number in range(4):
        failed(journal, number)
    going_on = opened(journal, 4)
    with_session = task(5)
    journal.fill(with_session, (requested(cwd="/w5"), SELECTED, CREATED, LaunchFailed(code="interrupted", stage="x")))
    whole = everything(source)
    for number in lines_in(journal.file):
        home = tmp_path / f"damaged-{number}"
        shutil.copytree(source, home)
        damaged_line(home / "journal" / "000001.jsonl", number)
        bytes_before = (home / "journal" / "000001.jsonl").read_bytes()
        hurt = Journal(home)
        assert hurt.problem() is Code.JOURNAL_CORRUPT
        assert failure(lambda hurt=hurt: opened(hurt, 50)).code is Code.JOURNAL_CORRUPT
        plan = mend(hurt)
        assert plan.lost_lines == 1
        assert (home / "journal" / "000001.jsonl").read_bytes() == bytes_before, "nothing is rewritten"
        mended = Journal(home)
        assert mended.problem() is None
        opened(mended, 50)
        readable = 0
        for name, (view, _) in whole.items():
            found = seen(Journal(home), name)
            if found is not Code.JOURNAL_CORRUPT:
                assert found == (None, []) or found[0] == view, f"line {number}: {name} has a wrong state"
                readable += found[0] is not None
        assert readable >= 4
        assert going_on in plan.blocked, "a launch that went on may have lost its last line"


@pytest.fixture
def one_segment(monkeypatch: pytest.MonkeyPatch, small_segments: None) -> None:
    monkeypatch.setattr(rotate, "SEGMENT_BYTES", 1 << 20)


@pytest.mark.usefixtures("one_segment")
def test_a_plan_that_is_not_the_one_shown_is_not_carried_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(3):
        failed(journal, number)
    damaged_line(journal.file, 2)

    async def run() -> None:
        await journal.store.repair(accept="000000000000")

    assert failure(lambda: anyio.run(run)).code is Code.INVALID_REQUEST
    assert numbers(tmp_path) == [1]


@pytest.mark.usefixtures("one_segment")
def test_lines_that_were_acknowledged_and_are_gone_are_declared_lost_by_a_repair(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(3):
        failed(journal, number)
    lines = journal.file.read_bytes().split(b"\n")
    journal.file.write_bytes(b"\n".join(lines[:6]) + b"\n")
    assert Journal(tmp_path).problem() is Code.JOURNAL_CORRUPT
    plan = mend(Journal(tmp_path))
    assert plan.lost_lines == 3
    mended = Journal(tmp_path)
    assert mended.problem() is None
    failed(mended, 9)
    assert Journal(tmp_path).problem() is None


@pytest.mark.usefixtures("one_segment")
def test_a_process_that_stood_before_the_damage_goes_on_after_the_repair(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(3):
        failed(journal, number)
    waiting = Journal(tmp_path)
    damaged_line(journal.file, 4)
    assert waiting.problem() is Code.JOURNAL_CORRUPT
    mend(Journal(tmp_path))
    assert waiting.problem() is None
    failed(waiting, 8)
    assert Journal(tmp_path).task(task(8)) is not None


def test_a_later_segment_of_the_first_format_reads_for_ever(tmp_path: Path) -> None:
    """Carried tasks, a repair, the checkpoint and what came after it, in the bytes of the first release."""
    sample = Path(__file__).parents[1] / "samples" / "journal_v1_segment_2.jsonl"
    (tmp_path / "journal").mkdir()
    shutil.copy(sample, tmp_path / "journal" / "000002.jsonl")
    journal = Journal(tmp_path)
    assert journal.problem() is None
    carried, new = journal.task(task(1)), journal.task(task(10))
    assert carried is not None
    assert new is not None
    assert (carried.launch.state, carried.launch.confirmed_seq, carried.n) == ("prompt-sent", 8, 7)
    assert (new.launch.code, new.launch.claim_held, new.launch.absent_sessions) == (
        "interrupted",
        False,
        ("session-a",),
    )
    assert failure(lambda: journal.task(task(9))).code is Code.JOURNAL_CORRUPT


def reopened(journal: Journal, number: int) -> TaskId:
    """Failed, then requested again and closed by a whole further attempt."""
    known = failed(journal, number, key=f"key-{number}", input="i")
    again = (requested(attempt=2, cwd=f"/w{number}"), SELECTED, CREATED, PresetVerified(verification="verified"))
    sent = (LaunchClaimed(request="r"), PromptSent(request="r", evidence="receipt"), PromptConfirmed(seq=1))
    for n, fact in enumerate((*again, *sent), start=3):
        journal.append(known, fact, n=n)
    journal.append(known, ClaimReleased(), n=10)
    return known


def without_lines(path: Path, first: int, last: int) -> None:
    """Cuts whole lines out of a file."""
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:first] + lines[last:]))


def hidden(home: Path, name: TaskId, key: str) -> None:
    """Neither the task nor its key may be answered for."""
    assert failure(lambda: Journal(home).task(name)).code is Code.JOURNAL_CORRUPT
    assert failure(lambda: anyio.run(Journal(home).store.key_owner, key)).code is Code.JOURNAL_CORRUPT


@pytest.mark.parametrize("how", ["flipped", "cut out"])
def test_lost_lines_of_a_further_attempt_in_a_sealed_segment_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(rotate, "SEGMENT_BYTES", 4_000)
    journal = Journal(tmp_path)
    known = reopened(journal, 0)
    for number in range(1, 30):
        failed(journal, number)
    sealed = tmp_path / "journal" / "000001.jsonl"
    (tmp_path / "journal" / "index.sqlite").unlink(missing_ok=True)
    lines = sealed.read_bytes().split(b"\n")
    mine = [number for number, line in enumerate(lines) if f'"task":"{known}"'.encode() in line]
    assert len(mine) == 11
    if how == "cut out":
        without_lines(sealed, mine[3], mine[-1] + 1)
    else:
        for number in mine[3:]:
            damaged_line(sealed, number)
    assert failure(lambda: Journal(tmp_path).task(known)).code is Code.JOURNAL_CORRUPT


def test_a_request_key_whose_line_is_damaged_is_never_given_away(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = reopened(journal, 0)
    for number in range(1, 12):
        failed(journal, number)
    damaged_line(tmp_path / "journal" / "000001.jsonl", 0)
    (tmp_path / "journal" / "index.sqlite").unlink(missing_ok=True)
    fresh = Journal(tmp_path).store
    # Its task may still be told from lines that were carried; nobody else may ever get the key.
    found = seen_key(fresh, "key-0")
    assert found in (known, Code.JOURNAL_CORRUPT)
    # A key that was never used cannot be told from one whose line is lost.
    assert seen_key(fresh, "other") is Code.JOURNAL_CORRUPT
    failed(Journal(tmp_path), 99)


def seen_key(store: FileStore, key: str) -> Any:
    try:
        owner = anyio.run(store.key_owner, key)
    except Failure as hidden_key:
        return hidden_key.code
    return None if owner is None else owner.task


def test_a_sealed_segment_that_was_cut_short_is_noticed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(12):
        failed(journal, number, key=f"key-{number}", input="i")
    sealed = tmp_path / "journal" / "000001.jsonl"
    sealed.write_bytes(sealed.read_bytes()[:40])
    (tmp_path / "journal" / "index.sqlite").unlink(missing_ok=True)
    hidden(tmp_path, task(0), "key-0")


@pytest.mark.parametrize("how", ["flipped", "cut out"])
def test_what_a_repair_blocked_stays_blocked_over_later_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with monkeypatch.context() as long:
        long.setattr(rotate, "SEGMENT_BYTES", 1 << 20)
        journal = Journal(tmp_path)
        known = reopened(journal, 0)
        failed(journal, 1)
        if how == "cut out":
            without_lines(journal.file, 3, 10)
        else:
            for number in range(3, 10):
                damaged_line(journal.file, number)
        plan = mend(Journal(tmp_path))
        assert plan.lost_lines >= 7
        assert known in plan.blocked
        hidden(tmp_path, known, "key-0")
    later = Journal(tmp_path)
    for number in range(20, 40):
        failed(later, number)
    assert len(numbers(tmp_path)) > 3
    hidden(tmp_path, known, "key-0")
    (tmp_path / "journal" / "index.sqlite").unlink()
    hidden(tmp_path, known, "key-0")


def test_no_line_follows_a_segment_whose_entry_could_not_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    number = 0
    while not journal.file.exists() or journal.file.stat().st_size < 1_500:
        journal.append(task(number), requested(cwd=f"/w{number}"), n=0)
        number += 1
    before = journal.file.read_bytes()
    with monkeypatch.context() as broken:
        broken.setattr(rotate, "fsync_dir", lambda _: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        assert failure(lambda: opened(journal, 90)).code is Code.JOURNAL_UNWRITABLE
    opened(journal, 91)
    assert journal.file.read_bytes() == before, "the old segment is sealed"
    assert task(91) in everything(tmp_path)
    assert anyio.run(journal.store.verify).sealed_damage == ()


def test_damage_in_several_sealed_segments_leaves_the_rest_readable(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    known = opened(journal, 0)
    for number in range(1, 16):
        failed(journal, number)
    journal.append(known, LaunchFailed(code="canceled", stage="selected", host_code="x"), n=2)
    for number in range(16, 30):
        failed(journal, number)
    for segment in ("000001.jsonl", "000002.jsonl", "000003.jsonl"):
        damaged_line(tmp_path / "journal" / segment, 0)
    (tmp_path / "journal" / "index.sqlite").unlink(missing_ok=True)
    fresh = Journal(tmp_path)
    assert len(fresh.page(limit=100)) > 20
    assert fresh.task(task(29)) is not None


STEPS: tuple[tuple[TaskLineFact, ...], ...] = (
    (requested(), SELECTED, CLOSED),
    (requested(), SELECTED, CREATED, LaunchFailed(code="interrupted", stage="x")),
    (requested(), SELECTED, ClaimReleased(), LaunchFailed(code="canceled", stage="selected")),
    (
        requested(),
        SELECTED,
        CREATED,
        LaunchFailed(code="interrupted", stage="x"),
        SessionLost(session="s", proof="binding"),
    ),
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plan=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60),
    size=st.sampled_from([300, 900, 2_500]),
)
def test_a_journal_in_segments_tells_what_one_file_tells(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, bool]], size: int
) -> None:
    """Any interleaving of tasks, any segment size, a fresh process at any moment."""
    stories: dict[bool, dict[str, Any]] = {}
    for whole in (True, False):
        home = tmp_path_factory.mktemp("journal")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rotate, "SEGMENT_BYTES", 1 << 30 if whole else size)
            journal = Journal(home)
            done = [0] * 6
            for number, fresh in plan:
                steps = STEPS[number % len(STEPS)]
                if done[number] < len(steps):
                    if fresh:
                        journal = Journal(home)
                    journal.append(task(number), steps[done[number]], n=done[number])
                    done[number] += 1
            stories[whole] = {
                name: (_comparable(view), [(n, facts) for _, n, facts in history])
                for name, (view, history) in everything(home).items()
            }
            assert Journal(home).problem() is None
            report = anyio.run(Journal(home).store.verify)
            assert (report.problem, report.sealed_damage) == (None, ())
    assert stories[True] == stories[False]


def _comparable(view: TaskView) -> Any:
    return view.launch, view.n
