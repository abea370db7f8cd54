"""What the figures were measured on, without anything that names a person or a path."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from tests.bench.timing import alternately, median

_PACKAGES = ("dsh-agentlink", "deepseek-harness-runtime-bin", "mcp", "msgspec", "httpx", "anyio", "filelock")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the versions of one run."""

    date: str
    cores: int
    system: str
    python: str
    flush_ms: float
    """Median of writing 300 bytes at a file's end and flushing them."""
    versions: dict[str, str]


def this_machine(directory: Path) -> Machine:
    """Describes the machine; the flush is measured in `directory`."""
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        cores=os.cpu_count() or 0,
        system=f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        flush_ms=flush_ms(directory),
        versions={name: _version(name) for name in _PACKAGES},
    )


def flush_ms(directory: Path) -> float:
    fd = os.open(directory / "flush", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write() -> None:
        os.write(fd, b"x" * 300)
        os.fsync(fd)

    try:
        (times,) = alternately(write, rounds=100, warm=5)
    finally:
        os.close(fd)
    return median(times)


def load() -> float:
    """How many processes wanted a core in the last minute; ours are among them."""
    return os.getloadavg()[0]


def in_words(machine: Machine, loads: Sequence[float]) -> str:
    """Two lines for people."""
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    return (
        f"{machine.date} · {machine.cores} cores · {machine.system} · {machine.python} · "
        f"write and flush {machine.flush_ms:.2f} ms · load {min(loads):.1f} to {max(loads):.1f}\n{versions}"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
