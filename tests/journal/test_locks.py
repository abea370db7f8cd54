from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from filelock import FileLock

from agentlink.core.errors import Code, Failure
from agentlink.core.launch.history import TaskView
from agentlink.journal import store
from agentlink.journal.locks import LockHeld, acquire, make_lock, sign
from tests.journal.home import REQUESTED, SELECTED, A, B, C, Journal, python

HOLD = """
import sys
from pathlib import Path
from agentlink.journal.locks import make_lock, sign
lock = make_lock(Path(sys.argv[1]), timeout_s=3)
lock.acquire()
sign(lock)
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def holder_of(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds this lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    child = python(HOLD, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n", child.communicate()[1]
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def let_go(child: subprocess.Popen[str]) -> None:
    child.communicate("\n", timeout=10)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "JOURNAL_TIMEOUT_S", 0.1)


def test_f18_a_killed_holder_frees_the_journal_at_once(tmp_path: Path, impatient: None) -> None:
    journal = Journal(tmp_path)
    with holder_of(journal.lock) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        journal.append(A, REQUESTED, n=0)
    assert str(child.pid) not in journal.lock.read_text()


@pytest.mark.parametrize("content", [b"", b"process 1 (init)\n", b"\xff" * 500])
def test_f18_a_lock_file_left_over_never_blocks(tmp_path: Path, impatient: None, content: bytes) -> None:
    journal = Journal(tmp_path)
    journal.lock.parent.mkdir(parents=True)
    journal.lock.write_bytes(content)
    journal.append(A, REQUESTED, n=0)


def test_f18_a_live_holder_is_waited_for_a_bounded_time_and_named(tmp_path: Path, impatient: None) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    with holder_of(journal.lock) as child:
        with pytest.raises(Failure) as caught:
            journal.append(A, SELECTED, n=1)
        assert caught.value.code == Code.LOCK_TIMEOUT
        assert caught.value.details is not None
        assert caught.value.details["lock"] == str(journal.lock)
        assert f"process {child.pid} " in caught.value.details["holder"]
        assert str(child.pid) in caught.value.message
        assert journal.page() == [A]
        let_go(child)
        journal.append(A, SELECTED, n=1)


def test_f18_a_holder_without_a_note_is_just_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locks" / "x.lock"
    path.parent.mkdir()
    with holder_of(path):
        path.write_bytes(b"")
        with pytest.raises(LockHeld) as caught:
            acquire(make_lock(path, timeout_s=0.01))
        assert caught.value.holder == "another process"

        def unreadable(_: Path) -> bytes:
            raise PermissionError

        monkeypatch.setattr(Path, "read_bytes", unreadable)
        with pytest.raises(LockHeld) as caught:
            acquire(make_lock(path, timeout_s=0.01))
        assert caught.value.holder == "another process"


def test_f18_a_symbolic_link_is_refused_and_its_target_stays_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"keep me")
    for pointed in (target, tmp_path / "nowhere"):
        journal = Journal(tmp_path / pointed.name[:3])
        journal.lock.parent.mkdir(parents=True)
        journal.lock.symlink_to(pointed)
        with pytest.raises(Failure) as caught:
            journal.append(A, REQUESTED, n=0)
        assert caught.value.code == Code.JOURNAL_UNWRITABLE
        assert "symbolic link" in caught.value.message
        assert not journal.file.exists()
    assert target.read_bytes() == b"keep me"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EIO])
def test_f18_where_locks_do_not_work_one_clear_error_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    calls = 0

    def no_locks(fd: int, operation: int) -> None:
        nonlocal calls
        calls += 1
        raise OSError(code, "Function not implemented")

    journal = Journal(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(fcntl, "flock", no_locks)
        with pytest.raises(Failure) as caught:
            journal.append(A, REQUESTED, n=0)
        assert caught.value.code == Code.JOURNAL_UNWRITABLE
        assert caught.value.details == {"lock": str(journal.lock)}
        assert ("local disk" in caught.value.message) == (code != errno.EIO)
        assert calls <= 4
    assert not journal.file.exists()
    journal.append(A, REQUESTED, n=0)


def test_f18_a_library_that_cannot_lock_here_is_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(self: FileLock) -> Any:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(FileLock, "acquire", cannot)
    with pytest.raises(Failure) as caught:
        Journal(tmp_path).append(A, REQUESTED, n=0)
    assert caught.value.code == Code.JOURNAL_UNWRITABLE


def test_a_note_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    sign(make_lock(tmp_path / "missing" / "x.lock", timeout_s=0.01))
    assert list(tmp_path.iterdir()) == []


def test_readers_never_wait_while_a_writer_waits_for_the_lock(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(A, REQUESTED, n=0)
    views: list[TaskView] = []
    writer = threading.Thread(target=lambda: views.append(journal.append(A, SELECTED, n=1)))
    with holder_of(journal.lock) as child:
        writer.start()
        while not journal.store._writers.locked():
            pass
        assert journal.page() == [A]
        assert len(journal.history(A)) == 1
        assert views == []
        let_go(child)
        writer.join(10)
    assert [view.n for view in views] == [2]


def test_a_writer_waits_for_the_others_of_its_process_a_bounded_time(tmp_path: Path, impatient: None) -> None:
    journal = Journal(tmp_path)
    with journal.store._turn(), pytest.raises(Failure) as caught:
        journal.append(A, REQUESTED, n=0)
    assert caught.value.code == Code.LOCK_TIMEOUT
    journal.append(A, REQUESTED, n=0)


def test_a_failure_inside_the_lock_frees_it(tmp_path: Path, impatient: None) -> None:
    one, two = Journal(tmp_path), Journal(tmp_path)

    def fail(_: object) -> None:
        raise Failure(Code.WORKSPACE_CONFLICT, "no")

    for journal in (one, two, one):
        with pytest.raises(Failure):
            journal.append(A, REQUESTED, n=0, rule=fail)
    two.append(A, REQUESTED, n=0)


def test_a_task_is_driven_by_one_holder_and_other_tasks_are_free(tmp_path: Path) -> None:
    one, two = Journal(tmp_path), Journal(tmp_path)

    async def run() -> None:
        async with one.store.drive(A):
            async with two.store.drive(B), one.store.drive(C):
                pass
            for other in (one, two):
                with pytest.raises(Failure) as caught:
                    async with other.store.drive(A):
                        pass
                assert (caught.value.code, caught.value.task) == (Code.LAUNCH_IN_PROGRESS, A)
        async with two.store.drive(A):
            pass

    anyio.run(run)


def test_a_killed_driver_frees_its_task_at_once_and_an_error_does_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    async def drive() -> None:
        async with journal.store.drive(A):
            raise ZeroDivisionError

    with holder_of(tmp_path / "locks" / f"{A}.lock") as child:
        with pytest.raises(Failure):
            anyio.run(drive)
        child.kill()
        child.wait()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                anyio.run(drive)
