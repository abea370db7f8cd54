from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentlink.files import private
from agentlink.files.private import (
    create_private,
    ensure_private_dir,
    fsync_dir,
    read_private,
    write_all,
    write_atomic,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def no_sync(fd: int) -> None:
    raise OSError(5, "Input/output error")


def test_a_new_directory_and_each_new_parent_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = ensure_private_dir(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert [mode_of(path) for path in (made, made.parent, made.parent.parent)] == [0o700] * 3
    assert ensure_private_dir(made) == made


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError, match="a"):
        ensure_private_dir(tmp_path / "a" / "b")


def test_a_file_is_replaced_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "f"
    before = os.umask(0)
    try:
        write_atomic(path, b"one")
        write_atomic(path, b"two")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert mode_of(path) == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_a_failed_replacement_keeps_the_old_bytes_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    write_atomic(path, b"one")
    monkeypatch.setattr(private.os, "fsync", no_sync)
    with pytest.raises(OSError, match="Input/output"):
        write_atomic(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("kind", ["link", "dangling", "directory", "pipe"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "f", tmp_path / "target"
    match kind:
        case "link":
            target.write_bytes(b"kept")
            path.symlink_to(target)
        case "dangling":
            path.symlink_to(target)
        case "directory":
            path.mkdir()
        case _:
            os.mkfifo(path)
    with pytest.raises(OSError, match="regular file"):
        write_atomic(path, b"new")
    assert not target.exists() or target.read_bytes() == b"kept"
    assert sorted(os.listdir(tmp_path)) == ["f", "target"][: 2 if target.exists() else 1]


def test_a_private_file_is_made_once_and_the_first_content_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert create_private(path, b"one")
    assert not create_private(path, b"two")
    assert path.read_bytes() == b"one"
    assert mode_of(path) == 0o600
    assert os.listdir(tmp_path) == ["secret"]


def test_a_private_file_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private.os, "fsync", no_sync)
    with pytest.raises(OSError, match="Input/output"):
        create_private(tmp_path / "secret", b"one")
    assert os.listdir(tmp_path) == []


def test_a_missing_file_reads_as_none_and_a_large_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert read_private(path) is None
    path.write_bytes(b"12345")
    assert read_private(path, limit=5) == b"12345"
    with pytest.raises(OSError, match="larger than 4"):
        read_private(path, limit=4)


def test_a_write_that_takes_only_some_bytes_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = bytearray()

    def three_at_a_time(fd: int, data: memoryview) -> int:
        taken.extend(data[:3])
        return min(3, len(data))

    monkeypatch.setattr(private.os, "write", three_at_a_time)
    write_all(0, b"0123456789")
    assert taken == b"0123456789"


def test_a_platform_that_cannot_open_directories_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Path("/nowhere/at/all")
    with pytest.raises(FileNotFoundError):
        fsync_dir(missing)
    monkeypatch.setattr(private.os, "name", "nt")
    fsync_dir(missing)
