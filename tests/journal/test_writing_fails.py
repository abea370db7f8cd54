from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchFact
from agentlink.core.launch.history import StaleTask
from agentlink.journal import head, lines, segment
from tests.journal.home import REQUESTED, SELECTED, A, B, Journal, python, snapshot

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from agentlink.core.errors import Failure
from tests.journal.home import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
journal.append(A, REQUESTED, n=0)
size = journal.file.stat().st_size
for room in range(1, 300, 23):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
    try:
        journal.append(A, SELECTED, n=1)
        break
    except Failure as failure:
        assert failure.code.value == "journal_unwritable", failure
        assert journal.file.stat().st_size == size
        assert journal.task(A).n == 1 and journal.problem() is None
else:
    raise SystemExit("always failed")
assert room > 100, room
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append(A, CREATED, n=2)
"""


def unwritable(journal: Journal, *facts: LaunchFact, n: int, task: Any = A) -> Failure:
    with pytest.raises(Failure) as caught:
        journal.append(task, *facts, n=n)
    assert caught.value.code == Code.JOURNAL_UNWRITABLE
    return caught.value


def failing(real: Callable[..., Any], code: int, *, when: Callable[..., bool]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if when(*args):
            raise OSError(code, os.strerror(code))
        return real(*args)

    return call


def test_f16_without_room_nothing_is_glued_and_it_works_again_without_a_restart(tmp_path: Path) -> None:
    child = python(FULL_DISK, tmp_path)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 0, errors
    again = snapshot(tmp_path)
    assert isinstance(again, dict)
    assert again[A][0].n == 3
    assert not list((tmp_path / "journal").glob("*.torn"))


@pytest.mark.parametrize("truncates", [True, False])
def test_f16_a_full_disk_is_named_and_a_half_line_never_stays_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncates: bool
) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    sound = journal.file.read_bytes()

    def half_a_line(fd: int, data: bytes) -> None:
        os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(segment, "write_all", half_a_line)
        if not truncates:
            full.setattr(segment.os, "ftruncate", failing(os.ftruncate, errno.EIO, when=lambda *_: True))
        failure = unwritable(journal, SELECTED, n=1)
        assert "no space left" in failure.message
        assert (journal.file.read_bytes() == sound) == truncates
        assert journal.page() == [A]
    journal.append(A, SELECTED, n=1)
    assert journal.problem() is None
    assert len(journal.history(A)) == 2
    assert len(list(tmp_path.glob("journal/*.torn"))) == (0 if truncates else 1)


def test_a_failed_flush_truncates_nothing_and_the_line_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    inode = journal.file.stat().st_ino
    with monkeypatch.context() as broken:
        flush = failing(os.fsync, errno.EIO, when=lambda fd: os.fstat(fd).st_ino == inode)
        broken.setattr(segment.os, "fsync", flush)
        unwritable(journal, SELECTED, n=1)
        assert len(journal.lines()) == 2
        view = journal.task(A)
        assert view is not None
        assert (view.n, view.launch.state) == (2, "selected")
    with pytest.raises(StaleTask):
        journal.append(A, SELECTED, n=1)
    journal.append(B, REQUESTED, n=0)
    assert Journal(tmp_path).page() == [B, A]
    assert journal.problem() is None


def test_a_new_journal_whose_directory_cannot_be_flushed_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "journal").mkdir()
    (tmp_path / "locks").mkdir()

    def cannot(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(segment, "fsync_dir", cannot)
        unwritable(journal, REQUESTED, n=0)
    assert journal.page() == [A]
    journal.append(A, SELECTED, n=1)


def test_the_directory_is_flushed_with_the_first_line_also_after_a_first_try_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    flushed: list[Path] = []
    monkeypatch.setattr(segment, "fsync_dir", flushed.append)
    with monkeypatch.context() as full:
        full.setattr(segment, "write_all", failing(lambda *_: None, errno.ENOSPC, when=lambda *_: True))
        unwritable(journal, REQUESTED, n=0)
    assert journal.file.exists()
    assert flushed == []
    journal.append(A, REQUESTED, n=0)
    journal.append(A, SELECTED, n=1)
    assert flushed == [journal.file.parent]


def test_a_line_whose_end_cannot_be_noted_is_reported_and_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    with monkeypatch.context() as broken:
        broken.setattr(head, "write_head", failing(head.write_head, errno.ENOSPC, when=lambda *_: True))
        unwritable(journal, SELECTED, n=1)
    view = journal.task(A)
    assert view is not None
    assert view.n == 2


def test_a_home_that_is_no_directory_is_unwritable_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "home").write_bytes(b"")
    journal = Journal(tmp_path / "home")
    assert str(tmp_path) in str(unwritable(journal, REQUESTED, n=0).details)

    async def drive() -> None:
        async with journal.store.drive(A):
            pass

    with pytest.raises(Failure) as caught:
        anyio.run(drive)
    assert caught.value.code == Code.JOURNAL_UNWRITABLE


def test_a_journal_that_cannot_be_opened_is_unreadable_for_every_question(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    journal.file.unlink()
    journal.file.symlink_to(journal.file.name)
    unwritable(journal, SELECTED, n=1)
    with pytest.raises(Failure) as caught:
        journal.page()
    assert caught.value.code == Code.JOURNAL_UNWRITABLE
    with pytest.raises(Failure):
        journal.task(A)


@pytest.mark.parametrize("step", ["open", "read", "torn", "cut", "newline"])
def test_a_tail_that_cannot_be_mended_is_unwritable_and_mended_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    writer = Journal(tmp_path)
    writer.append(A, SELECTED, n=1)
    line = writer.lines()[-1]
    journal.head.unlink()
    os.truncate(journal.file, journal.file.stat().st_size - (1 if step == "newline" else 30))

    def no(*_: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        match step:
            case "open":
                real = os.open
                broken.setattr(
                    segment.os, "open", failing(real, errno.EACCES, when=lambda path, *_: str(path).endswith(".torn"))
                )
            case "read":
                broken.setattr(segment, "tail_after", no)
            case "torn":
                broken.setattr(segment, "write_all", no)
            case "cut":
                broken.setattr(segment.os, "ftruncate", no)
            case _:
                broken.setattr(segment, "write_all", no)
        unwritable(journal, REQUESTED, n=0, task=B)
        unwritable(journal, REQUESTED, n=0, task=B)
    before = list(tmp_path.glob("journal/*.torn"))
    assert bool(before) == (step == "cut")
    journal.append(B, REQUESTED, n=0)
    assert journal.problem() is None
    view = journal.task(A)
    assert view is not None
    assert view.n == (2 if step == "newline" else 1)
    pieces = {path.read_bytes() for path in tmp_path.glob("journal/*.torn")}
    assert pieces == (set() if step == "newline" else {line[:-29]})


def test_a_line_that_cannot_be_opened_for_writing_is_unwritable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    with monkeypatch.context() as broken:
        opened = failing(os.open, errno.EROFS, when=lambda _, flags, *__: bool(flags & os.O_APPEND))
        broken.setattr(segment.os, "open", opened)
        unwritable(journal, SELECTED, n=1)
    journal.append(A, SELECTED, n=1)


def test_a_history_whose_file_is_gone_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)

    def vanish(path: Path, offset: int) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(lines, "verified_line", vanish)
    with pytest.raises(Failure) as caught:
        journal.history(A)
    assert caught.value.code == Code.JOURNAL_UNWRITABLE


def test_a_removed_home_is_made_again_for_a_new_journal_only_when_all_of_it_is_gone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "home")
    journal.append(A, REQUESTED, n=0)
    shutil.rmtree(tmp_path / "home")
    journal.append(B, REQUESTED, n=0)
    assert journal.page() == [B]
