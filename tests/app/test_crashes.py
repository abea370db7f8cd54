"""`kill -9` in the middle of a launch, on the real Host: a new process tells the truth, and nothing is sent twice."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentlink.app.listing import list_tasks
from agentlink.app.results import TaskStatus
from agentlink.app.runtime import Runtime
from agentlink.lab import Lab
from tests.app.requests import model_ran, prompts_in, prompts_once_run, status_of
from tests.requirements import requirement

pytestmark = pytest.mark.host

MOMENTS = {
    # moment: (stage, code, prompt sent) that a look must find
    "line:1": ("launch-failed", "interrupted", False),
    "line:2": ("launch-failed", "interrupted", False),
    "before:create_session": ("launch-failed", "interrupted", False),
    "after:create_session": ("launch-failed", "interrupted", False),
    "line:3": ("launch-failed", "interrupted", False),
    "line:4": ("launch-failed", "interrupted", False),
    "line:5": ("launch-failed", "interrupted", False),
    "before:send_prompt": ("launch-failed", "interrupted", False),
    "after:send_prompt": ("prompt-sent", None, True),
    "line:6": ("prompt-sent", None, True),
}
_WITH_SESSION = {"after:create_session", "line:3", "line:4", "line:5", "before:send_prompt"}


async def killed_delegation(environment: dict[str, str], *arguments: str) -> int:
    """Runs the child and gives its exit status, negative for a signal."""
    finished = await anyio.run_process(
        [sys.executable, "-m", "tests.app.child", *arguments],
        env={**os.environ, **environment, "PYTHONPATH": os.getcwd()},
        check=False,
        stderr=subprocess.STDOUT,
    )
    return finished.returncode


async def _settled(runtime: Runtime, task: str) -> TaskStatus:
    """The status once the launch is failed or confirmed."""
    with anyio.fail_after(30):
        while True:
            status = await status_of(runtime, task)
            if status.launch.confirmed or status.launch.stage == "launch-failed":
                return status
            await anyio.sleep(0.1)


OFTEN = ("line:2", "after:create_session", "line:5", "after:send_prompt")
"""The moments whose outcomes differ; the others run with the soak tests, and all of them in simulation."""


def moments(names: Iterable[str]) -> list[Any]:
    return [name if name in OFTEN else pytest.param(name, marks=pytest.mark.soak) for name in names]


@pytest.mark.parametrize("moment", moments(MOMENTS))
@requirement("FR-12", "AC-26")
async def test_a_killed_launch_is_settled_truthfully_by_the_next_process(
    moment: str,
    host_lab: Lab,
    environment: dict[str, str],
    new_runtime: Callable[[], Runtime],
    workspace: Path,
) -> None:
    stage, code, sent = MOMENTS[moment]
    prompt = f"killed at {moment} in {workspace.name}"
    # A session of ours that the Host still has, and a login that is the same for both processes.
    assert await killed_delegation(environment, "none", str(workspace), "warm up", "minimal") == 0
    runtime = new_runtime()
    first = (await list_tasks(runtime)).tasks[0].task_id
    await _release(runtime, first)

    assert await killed_delegation(environment, moment, str(workspace), prompt) == -9

    task = (await list_tasks(runtime)).tasks[0].task_id
    assert task != first
    status = await _settled(runtime, task)
    assert (status.launch.stage, status.launch.prompt_sent) == (stage, sent)
    assert (status.failure.code if status.failure else None) == code
    assert status.claim.held is sent
    assert (status.session_id is not None) is (sent or moment in _WITH_SESSION)
    if status.session_id is not None:
        ran = prompts_once_run if sent else prompts_in
        assert await ran(runtime, status.session_id) == ([f"{task}.1.0"] if sent else [])
    assert await model_ran(host_lab, prompt, int(sent))
    again = await status_of(new_runtime(), task)
    assert again.launch.path == status.launch.path


async def _release(runtime: Runtime, task: str) -> None:
    from agentlink.app.release import release_workspace
    from agentlink.core.ids import TaskId

    await _settled(runtime, task)
    await release_workspace(runtime, TaskId(task), force=True)


@pytest.mark.parametrize(
    "moment", moments(["line:2", "line:3", "line:5", "after:create_session", "after:send_prompt", "line:6"])
)
async def test_the_same_request_key_after_a_kill_finishes_the_launch_exactly_once(
    moment: str, host_lab: Lab, environment: dict[str, str], new_runtime: Callable[[], Runtime], workspace: Path
) -> None:
    """Rule 8: failed without a session starts anew, unprompted is recovered, sent is told."""
    prompt = f"keyed {moment} in {workspace.name}"
    assert await killed_delegation(environment, moment, str(workspace), prompt, "minimal", "key-1") == -9
    assert await killed_delegation(environment, "none", str(workspace), prompt, "minimal", "key-1") == 0
    assert await killed_delegation(environment, "none", str(workspace), prompt, "minimal", "key-1") == 0
    runtime = new_runtime()
    tasks = (await list_tasks(runtime)).tasks
    assert len(tasks) == 1
    status = await status_of(runtime, tasks[0].task_id)
    assert status.launch.stage == "prompt-sent"
    assert len(await prompts_once_run(runtime, status.session_id or "")) == 1
    assert await model_ran(host_lab, prompt)
