"""A small program beside a Host: ends every process of it, or removes a directory, when we are gone.

    supervisor.py run OUT ERR -- COMMAND...    start COMMAND, write its process id, wait
    supervisor.py remove DIRECTORY             wait, then remove DIRECTORY

Both wait for the end of their standard input, a pipe whose other end only we hold. The system closes
it when we end in any way, SIGKILL included; no signal handler of ours could promise that. It is run
by its path with `-I -S` and imports the standard library only, so it starts in a few hundredths.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_ENDING_S = 5.0
_NOT_STARTED = 127


def run(out: Path, err: Path, command: Sequence[str]) -> int:
    """Hold COMMAND until it ends or our standard input does; nothing that it started is left."""
    control = _process_control()
    control(_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = _spawn(out, err, command, control)
    os.write(1, f"{child}\n".encode())
    while child not in _reap():
        ready, _, _ = select.select([0, wake_read], [], [])
        if 0 in ready and not os.read(0, 1024):
            break
        if wake_read in ready:
            os.read(wake_read, 1024)
    _end_everything(child)
    return 0


def remove(directory: Path) -> int:
    """Remove DIRECTORY once nobody holds the other end of our standard input any more."""
    while os.read(0, 1024):
        pass
    deadline = time.monotonic() + _ENDING_S
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.02)
    return 0


def _process_control() -> Callable[[int, int], int]:
    """Linux `prctl`; elsewhere a function that does nothing."""
    if not sys.platform.startswith("linux"):
        return lambda *_: 0
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: int(prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _spawn(out: Path, err: Path, command: Sequence[str], control: Callable[[int, int], int]) -> int:
    nothing = os.open(os.devnull, os.O_RDONLY)
    outputs = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for path in (out, err)]
    child = os.fork()
    if child:
        for descriptor in (nothing, *outputs):
            os.close(descriptor)
        return child
    try:
        os.setsid()
        control(_SET_PDEATHSIG, signal.SIGKILL)  # for the case that somebody kills this program
        for target, source in enumerate((nothing, *outputs)):
            os.dup2(source, target)
        os.closerange(3, 1024)  # among them the pipes by which others tell that we are gone
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], list(command))
    except OSError as exc:
        os.write(2, f"{command[0]}: {exc.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _reap() -> set[int]:
    """Collect what has ended, adopted orphans too."""
    ended: set[int] = set()
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.add(pid)


def _end_everything(child: int) -> None:
    """Kill the group and every descendant, also those in sessions of their own.

    On Linux orphans come to us, so repeating until nobody is left finds all of them. Elsewhere the
    tree is read before its root dies, because its orphans are then out of sight.
    """
    deadline = time.monotonic() + _ENDING_S
    while time.monotonic() < deadline:
        victims = _descendants(os.getpid())
        _kill(os.killpg, child)
        for pid in victims:
            _kill(os.kill, pid)
        _reap()
        if not victims:
            return
        time.sleep(0.005)


def _kill(how: Callable[[int, int], None], target: int) -> None:
    try:
        how(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # gone already, or (macOS) only zombies are left


def _descendants(root: int) -> list[int]:
    parents = _parents()
    found = [root]
    for ancestor in found:  # grows while it is walked
        found.extend(pid for pid, parent in parents.items() if parent == ancestor)
    return found[1:]


def _parents() -> dict[int, int]:
    """The parent of every process."""
    processes = Path("/proc")
    if not (processes / "self" / "stat").exists():
        return _parents_from_ps()
    parents: dict[int, int] = {}
    for entry in processes.iterdir():
        if entry.name.isdigit():
            try:
                # The name in the second field may hold anything, so count from its closing bracket.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    return parents


def _parents_from_ps() -> dict[int, int]:
    listing = subprocess.Popen(["ps", "-axo", "pid=,ppid="], stdout=subprocess.PIPE)
    output = listing.communicate()[0]
    rows = [line.split() for line in output.splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows if len(row) == 2}
    parents.pop(listing.pid, None)
    return parents


def main(arguments: Sequence[str]) -> int:
    """Run one of the two jobs; terminal and stop signals are left to whoever holds the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    match arguments:
        case ["run", out, err, "--", *command] if command:
            return run(Path(out), Path(err), command)
        case ["remove", directory]:
            return remove(Path(directory))
        case _:
            sys.stderr.write("usage: supervisor.py (run OUT ERR -- COMMAND... | remove DIRECTORY)\n")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
