"""Files that only their owner may read, written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


def ensure_private_dir(path: Path) -> Path:
    """The directory, made with mode 0700 (parents too) when it is not there. Raises OSError."""
    if not path.is_dir():
        # One by one: mkdir(parents=True) would give the parents the mode of the umask.
        ensure_private_dir(path.parent)
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        fsync_dir(path.parent)
    return path


def fsync_dir(path: Path) -> None:
    """Makes the directory's entries durable, where the platform can open directories."""
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes) -> None:
    """Replaces the file durably: a reader sees the old bytes or the new ones, also after a crash.

    Refuses to replace a symbolic link or anything else that is no regular file. Raises OSError.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OSError(f"{path} is not a regular file")
    with _flushed_temporary(path, data) as temporary:
        os.replace(temporary, path)
    fsync_dir(path.parent)


def create_private(path: Path, data: bytes) -> bool:
    """Makes the file with this content unless it exists; says whether it was made. A racing reader sees all or none."""
    with _flushed_temporary(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    fsync_dir(path.parent)
    return True


@contextmanager
def _flushed_temporary(path: Path, data: bytes) -> Iterator[Path]:
    """A private file with this content beside `path`, flushed; whatever is left of it is removed at the end."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def write_all(fd: int, data: bytes) -> None:
    """Writes every byte, also where one write takes only some. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_private(path: Path, *, limit: int = 1 << 20) -> bytes | None:
    """The file's bytes, or None when there is none. Raises OSError, also for a file over `limit` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        return None
    if len(data) > limit:
        raise OSError(f"{path} is larger than {limit} bytes")
    return data
