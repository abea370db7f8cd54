"""Hosts that die, come back, or are somebody else's: facts are kept and nothing is launched again by itself."""

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.to_thread import run_sync

from agentlink.app.delegate import delegate
from agentlink.app.runtime import open_runtime
from agentlink.core.errors import Code, Failure
from agentlink.lab import Lab, LabHost
from tests.app.requests import asked, prompts_once_run, status_of
from tests.requirements import requirement

pytestmark = pytest.mark.host


@pytest.fixture
def own_environment(own_lab: Lab, tmp_path: Path) -> dict[str, str]:
    return {"AGENTLINK_HOME": str(tmp_path / "home"), "AGENTLINK_HOST_URL": own_lab.host.launch_url}


def _workspace(running: Lab, name: str) -> Path:
    path = running.host.workspace / name
    path.mkdir(exist_ok=True)
    return path


@pytest.mark.soak
async def test_a_prompt_that_dies_with_its_host_is_lost_or_kept_but_never_sent_twice(
    own_lab: Lab, own_environment: dict[str, str]
) -> None:
    outcomes = set()
    for turn in range(2):
        runtime = open_runtime(own_environment)
        prompt = f"survivor {turn}"
        answer = await delegate(runtime, asked(_workspace(own_lab, f"s{turn}"), prompt))
        await run_sync(own_lab.host.kill)
        down = await status_of(runtime, answer.task_id)
        assert (down.availability, down.execution, down.launch.prompt_sent) == ("host_unreachable", "unknown", True)
        await run_sync(own_lab.host.restart)
        with anyio.fail_after(20):
            while True:
                status = await status_of(runtime, answer.task_id)
                if status.launch.confirmed or status.launch.stage == "launch-failed":
                    break
                await anyio.sleep(0.1)
        outcomes.add(status.failure.code if status.failure else status.execution)
        assert own_lab.model.runs(prompt) <= 1
        if status.launch.confirmed:
            assert await prompts_once_run(runtime, answer.session_id or "") == [f"{answer.task_id}.1.0"]
        else:
            assert status.failure is not None
            assert status.failure.code in ("prompt_lost", "prompt_consumed")
            assert status.claim.held is False
        await runtime.aclose()
    assert outcomes <= {"prompt_lost", "prompt_consumed", "interrupted", "turn_completed", "failed"}


async def test_another_host_on_the_same_address_is_recognised_and_nothing_is_lost(
    own_lab: Lab, own_environment: dict[str, str], tmp_path: Path
) -> None:
    runtime = open_runtime(own_environment)
    answer = await delegate(runtime, asked(_workspace(own_lab, "mine")))
    await prompts_once_run(runtime, answer.session_id or "")
    await anyio.lowlevel.checkpoint()
    await run_sync(own_lab.host.terminate)
    root = own_lab.directory / "other"
    await run_sync(lambda: root.mkdir())
    other = await run_sync(lambda: LabHost.start(root, model=own_lab.model, port=own_lab.host.port))
    try:
        status = await status_of(runtime, answer.task_id)
        assert status.availability == "login_required", "the login of one Host's home is not accepted by another's"
        stranger = open_runtime({**own_environment, "AGENTLINK_HOST_URL": other.launch_url})
        await stranger.host.login(other.launch_url.partition("token=")[2])  # type: ignore[attr-defined]
        status = await status_of(stranger, answer.task_id)
        assert (status.availability, status.execution) == ("host_changed", "unknown")
        assert status.launch.stage == "prompt-sent"
        assert status.claim.held is True
        # A session of ours that is made on the other Host later proves nothing about this task.
        later = other.workspace / "later"
        later.mkdir()
        await delegate(stranger, asked(later))
        status = await status_of(stranger, answer.task_id)
        assert (status.availability, status.launch.stage) == ("host_changed", "prompt-sent")
        await stranger.aclose()
    finally:
        await run_sync(other.close)
        await run_sync(own_lab.host.restart)
        await runtime.aclose()


@requirement("FR-03", "FR-09")
async def test_a_host_that_is_down_makes_no_task_and_works_later_in_the_same_process(
    own_lab: Lab, own_environment: dict[str, str]
) -> None:
    runtime = open_runtime(own_environment)
    await run_sync(own_lab.host.terminate)
    with pytest.raises(Failure) as caught:
        await delegate(runtime, asked(_workspace(own_lab, "down"), request_key="k"))
    assert (caught.value.code, caught.value.task, caught.value.prompt_sent) == (Code.HOST_UNREACHABLE, None, False)
    await run_sync(own_lab.host.restart)
    runtime.host._token = own_lab.host.launch_url.partition("token=")[2]  # type: ignore[attr-defined]
    answer = await delegate(runtime, asked(_workspace(own_lab, "down"), request_key="k"))
    assert answer.repeated is False
    assert os.path.basename(answer.claim.cwd) == "down"
    await runtime.aclose()
