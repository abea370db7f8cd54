"""Kernel locks through filelock: they die with their holder, so nothing here judges whether a holder is alive."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from agentlink.core.errors import Code, Failure
from agentlink.files.private import FILE_MODE, ensure_private_dir

JOURNAL_TIMEOUT_S = 3.0
TASK_TIMEOUT_S = 0.25
"""A held task lock is reported only after this long (design section 3, rule 1)."""
_POLL_S = 0.005


def make_lock(path: Path, *, timeout_s: float) -> FileLock:
    """A kernel lock on `path` that never falls back to a lock file which outlives a crash."""
    return FileLock(
        path,
        timeout=timeout_s,
        poll_interval=_POLL_S,
        thread_local=False,
        fallback_to_soft=False,
        preserve_lock_file=True,
        mode=FILE_MODE,
    )


class LockHeld(Exception):
    """Another process or task holds the lock; `holder` is what it wrote about itself, for messages only."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by {holder}")
        self.path = path
        self.holder = holder


def acquire(lock: FileLock) -> None:
    """Takes the lock. Raises LockHeld after its timeout, Failure journal_unwritable where locks cannot work."""
    path = Path(lock.lock_file)
    try:
        lock.acquire()
    except Timeout:
        raise LockHeld(path, _holder(path)) from None
    except NotImplementedError as error:
        raise _unusable(path, str(error)) from error
    except OSError as error:
        raise _unusable(path, _reason(error)) from error


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link"
    if error.errno in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL):
        return "this file system does not support locks; put AGENTLINK_HOME on a local disk"
    return error.strerror or str(error)


def _unusable(path: Path, reason: str) -> Failure:
    return Failure(Code.JOURNAL_UNWRITABLE, f"cannot lock {path}: {reason}", details={"lock": str(path)})


def _holder(path: Path) -> str:
    try:
        text = path.read_bytes()[:200].decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return text or "another process"


def sign(lock: FileLock) -> None:
    """Writes who holds the lock into its file, for the message of whoever has to wait too long."""
    command = Path(sys.argv[0]).name or "agentlink"
    note = f"process {os.getpid()} ({command})".encode()[:120].ljust(120) + b"\n"
    try:
        with open(lock.lock_file, "r+b", buffering=0) as file:
            file.write(note)
    except OSError:
        # The note serves a message; the lock itself is held by the kernel and needs no byte in the file.
        return


@contextmanager
def journal_lock(lock: FileLock) -> Iterator[None]:
    """Holds the journal lock. Raises Failure lock_timeout or journal_unwritable."""
    try:
        acquire(lock)
    except LockHeld as held:
        raise Failure(
            Code.LOCK_TIMEOUT,
            f"the journal is locked by {held.holder} for more than {lock.timeout:g} s",
            details={"lock": str(held.path), "holder": held.holder},
        ) from None
    try:
        yield
    finally:
        lock.release()


def task_lock(directory: Path, task: str) -> FileLock:
    """The lock that the driver of this task's launch holds."""
    return make_lock(ensure_private_dir(directory) / f"{task}.lock", timeout_s=TASK_TIMEOUT_S)
