"""Several processes at once on one home and one real Host."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentlink.app.listing import list_tasks
from agentlink.app.runtime import Runtime
from agentlink.lab import Lab
from tests.app.requests import model_ran, prompts_once_run
from tests.requirements import requirement

pytestmark = pytest.mark.host


class Worker:
    """A process that delegates on command."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order).decode() + "\n")
        self._process.stdin.flush()

    def results(self) -> list[list[str | None]]:
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.readline())


@contextmanager
def workers(environment: dict[str, str], count: int) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.app.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **environment, "PYTHONPATH": os.getcwd()},
                )
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            started.append(Worker(process))
        yield started


def _overlapping_claims(environment: dict[str, str], workspace: Path, host_lab: Lab, times: int) -> Counter[str]:
    """Lets two processes claim overlapping directories at the same moment, `times` times."""
    inner = workspace / "inner"
    inner.mkdir()
    outcomes: Counter[str] = Counter()
    with workers(environment, 2) as (one, other):
        for turn in range(times):
            pair = (workspace, inner) if turn % 2 else (inner, workspace)
            for worker, cwd in zip((one, other), pair, strict=True):
                worker.order(cwd=str(cwd), prompt=f"race {workspace.name} {turn}")
            results = sorted(one.results() + other.results(), key=lambda row: row[0] or "")
            won = [row for row in results if row[0] == "ok"]
            lost = [row for row in results if row[0] == "workspace_conflict"]
            assert len(won) == len(lost) == 1, results
            assert lost[0][2] is None, "the loser made a session"
            outcomes["won"] += 1
            outcomes["refused before a task was made" if lost[0][1] is None else "refused inside the lock"] += 1
            _release(environment, won[0][1] or "")
    return outcomes


def _release(environment: dict[str, str], task: str) -> None:
    from agentlink.app.release import release_workspace
    from agentlink.cli.output import run_with
    from agentlink.core.ids import TaskId

    run_with(lambda runtime: release_workspace(runtime, TaskId(task), force=True), environment)


@requirement("NFR-04", "SI-10")
def test_of_two_processes_that_claim_overlapping_directories_exactly_one_wins(
    environment: dict[str, str], workspace: Path, host_lab: Lab
) -> None:
    outcomes = _overlapping_claims(environment, workspace, host_lab, 10)
    assert outcomes["won"] == 10


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_of_two_processes_that_claim_overlapping_directories_exactly_one_wins_200_times(
    environment: dict[str, str], workspace: Path, host_lab: Lab
) -> None:
    outcomes = _overlapping_claims(environment, workspace, host_lab, 200)
    print(dict(outcomes))
    assert outcomes["won"] == 200


async def test_one_request_key_100_times_in_parallel_from_4_processes_is_one_session_and_one_message(
    environment: dict[str, str], workspace: Path, host_lab: Lab, new_runtime: Callable[[], Runtime]
) -> None:
    prompt = f"keyed {workspace.name}"
    with workers(environment, 4) as crowd:
        for worker in crowd:
            worker.order(cwd=str(workspace), prompt=prompt, key="one", times=25)
        results = [row for worker in crowd for row in worker.results()]
    assert Counter(row[0] for row in results) == {"ok": 100}
    assert len({row[1] for row in results}) == 1
    assert len({row[2] for row in results} - {None}) == 1
    runtime = new_runtime()
    assert len((await list_tasks(runtime)).tasks) == 1
    session = next(row[2] for row in results if row[2])
    assert len(await prompts_once_run(runtime, session)) == 1
    assert await model_ran(host_lab, prompt)
