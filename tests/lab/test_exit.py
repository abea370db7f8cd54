"""Whatever ends the program that started a lab, no process and no directory is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.lab.client import is_gone, until

ROOT = Path(__file__).resolve().parents[2]
FAKE = """#!/bin/sh
( trap '' HUP TERM; echo $$ > own; setsid sleep 300 & echo $! > stray; sleep 300 ) &
while [ ! -s stray ]; do sleep 0.01; done
echo "dsh web: http://127.0.0.1:9/?token=t"
sleep 300
"""
PROGRAM = """
import json, subprocess, sys, time
from pathlib import Path
from agentlink.lab import lab
root, runtime = Path(sys.argv[1]), sys.argv[2] or None
with lab(root, runtime=runtime) as running:
    stray = running.host.workspace / "stray"
    pids = [running.host.pid, running.model.pid, *([int(stray.read_text())] if stray.exists() else [])]
    print(json.dumps({"directory": str(running.directory), "pids": pids}), flush=True)
    time.sleep(120)
"""


class Started(msgspec.Struct):
    directory: str
    pids: list[int]


def start(root: Path, *, runtime: str = "") -> tuple[subprocess.Popen[bytes], Started]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root), runtime],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    with process.stdout as answers:
        return process, msgspec.json.decode(answers.readline(), type=Started)


def fake_runtime(directory: Path) -> str:
    """A Host whose children ignore signals and leave its session, as tools may."""
    runtime = directory / "dsh"
    runtime.write_text(FAKE)
    runtime.chmod(0o755)
    return str(runtime)


def assert_nothing_is_left(started: Started, root: Path) -> None:
    until(lambda: True if all(is_gone(pid) for pid in started.pids) else None, timeout_s=10)
    until(lambda: True if not Path(started.directory).exists() else None, timeout_s=10)
    assert list(root.glob("lab-*")) == []


SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_stubborn_children_end_with_the_starter(tmp_path: Path, number: signal.Signals) -> None:
    process, started = start(tmp_path, runtime=fake_runtime(tmp_path))
    assert len(started.pids) == 3
    process.send_signal(number)
    process.wait(10)
    assert_nothing_is_left(started, tmp_path)


@pytest.mark.host
@pytest.mark.parametrize("number", SIGNALS)
def test_a_real_host_ends_with_the_starter(tmp_path: Path, number: signal.Signals) -> None:
    process, started = start(tmp_path)
    assert not any(is_gone(pid) for pid in started.pids)
    process.send_signal(number)
    process.wait(10)
    assert_nothing_is_left(started, tmp_path)


@pytest.mark.host
def test_a_starter_killed_while_the_host_starts_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), ""],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    until(lambda: next(iter(tmp_path.glob("lab-*/logs/host-1.out")), None))
    process.kill()
    process.wait(10)
    until(lambda: True if not list(tmp_path.glob("lab-*")) else None, timeout_s=10)
