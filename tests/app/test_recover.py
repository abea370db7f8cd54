"""Recovery on the real Host: unprompted sessions are listed, prompted once, abandoned, or found lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from agentlink.app.delegate import delegate
from agentlink.app.listing import list_tasks
from agentlink.app.recover import Closed, Recovered, abandon, confirm_lost, recover, recover_all, recover_task
from agentlink.app.release import release_workspace
from agentlink.app.results import Delegated
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId
from agentlink.lab import Lab, lab
from tests.app.requests import asked, model_ran, prompts_in, prompts_once_run, status_of
from tests.app.test_crashes import killed_delegation
from tests.requirements import requirement

pytestmark = pytest.mark.host


async def interrupted(environment: dict[str, str], workspace: Path, runtime: Runtime, moment: str = "line:3") -> TaskId:
    """A task whose driver was killed at that moment; by default one with an unprompted session."""
    assert await killed_delegation(environment, moment, str(workspace), f"first prompt {workspace.name}") == -9
    return TaskId((await list_tasks(runtime)).tasks[0].task_id)


async def refusal(call: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await call
    return caught.value


@requirement("FR-06")
async def test_an_unprompted_session_is_listed_and_prompted_exactly_once(
    environment: dict[str, str], workspace: Path, runtime: Runtime, host_lab: Lab
) -> None:
    task = await interrupted(environment, workspace, runtime)
    found = await recover_all(runtime)
    assert [row.task_id for row in found.unprompted] == [task]
    assert (found.settled, found.unsettled_count, found.unprompted[0].code) == (1, 0, "interrupted")
    prompt = f"second prompt {workspace.name}"
    answer = await recover_task(runtime, task, prompt)
    assert (answer.task_id, answer.session_id) == (task, found.unprompted[0].session_id)
    assert (answer.launch.stage, answer.routing.verification) == ("prompt-sent", "verified")
    assert len(await prompts_once_run(runtime, answer.session_id or "")) == 1
    assert await model_ran(host_lab, prompt)
    status = await status_of(runtime, task)
    assert (status.launch.attempt, status.claim.held) == (2, True)
    assert {stage.attempt for stage in status.launch.path} == {1, 2}
    assert (await recover_all(runtime)).unprompted_count == 0
    assert (await refusal(recover_task(runtime, task, prompt))).code is Code.NOT_RECOVERABLE


@requirement("SI-08", "AC-16")
async def test_a_preset_that_changed_meanwhile_is_a_mismatch_and_never_selected_back(
    environment: dict[str, str], workspace: Path, runtime: Runtime
) -> None:
    task = await interrupted(environment, workspace, runtime)
    session = (await recover_all(runtime)).unprompted[0].session_id
    await runtime.host._read("agentPresets/select", {"agentId": session, "agentPreset": "team"})  # type: ignore[attr-defined]
    failure = await refusal(recover_task(runtime, task, "again"))
    assert (failure.code, failure.prompt_sent, failure.session) == (Code.RESOLVED_PRESET_MISMATCH, False, session)
    assert await prompts_in(runtime, session) == []
    assert (await recover_all(runtime)).unprompted_count == 1
    state = await runtime.host.session_state(session)
    assert state is not None
    assert state.preset == "team"


async def test_a_session_that_a_person_began_to_use_is_not_prompted(
    environment: dict[str, str], workspace: Path, runtime: Runtime
) -> None:
    task = await interrupted(environment, workspace, runtime)
    session = (await recover_all(runtime)).unprompted[0].session_id
    await runtime.host.send_prompt(session, request="a-person", prompt="mine now")  # type: ignore[arg-type]
    await prompts_once_run(runtime, session)
    failure = await refusal(recover_task(runtime, task, "again"))
    assert (failure.code, failure.prompt_sent) == (Code.SESSION_NOT_BLANK, False)
    assert await prompts_in(runtime, session) == ["a-person"]


async def test_an_abandoned_session_is_closed_for_good_and_frees_its_request_key(
    environment: dict[str, str], workspace: Path, runtime: Runtime
) -> None:
    prompt = f"abandoned {workspace.name}"
    assert await killed_delegation(environment, "line:3", str(workspace), prompt, "minimal", "key") == -9
    task = TaskId((await list_tasks(runtime)).tasks[0].task_id)
    await abandon(runtime, task)
    assert (await recover_all(runtime)).unprompted_count == 0
    assert (await refusal(recover_task(runtime, task, "again"))).code is Code.NOT_RECOVERABLE
    answer = await delegate(runtime, asked(workspace, prompt, request_key="key"))
    assert answer.task_id != task


async def test_a_launch_that_a_live_process_drives_is_reported_and_left_alone(
    environment: dict[str, str], workspace: Path, new_runtime: Callable[[], Runtime]
) -> None:
    runtime, other = new_runtime(), new_runtime()
    entered, leave = anyio.Event(), anyio.Event()
    original = runtime.host.session_state

    async def slow(session: str) -> Any:
        entered.set()
        await leave.wait()
        return await original(session)

    runtime.host.session_state = slow  # type: ignore[method-assign]
    async with anyio.create_task_group() as group:
        group.start_soon(delegate, runtime, asked(workspace))
        await entered.wait()
        found = await recover_all(other)
        task = (await list_tasks(other)).tasks[0].task_id
        assert [(row.task_id, row.code) for row in found.unsettled] == [(task, "launch_in_progress")]
        assert (await refusal(recover_task(other, TaskId(task), "x"))).code is Code.LAUNCH_IN_PROGRESS
        assert (await refusal(release_workspace(other, TaskId(task), force=True))).code is Code.LAUNCH_IN_PROGRESS
        leave.set()
    assert (await status_of(other, task)).launch.stage == "prompt-sent"


async def test_a_launch_without_a_session_is_recovered_as_a_new_attempt(
    environment: dict[str, str], workspace: Path, runtime: Runtime, host_lab: Lab
) -> None:
    task = await interrupted(environment, workspace, runtime, "line:1")
    assert (await recover_all(runtime)).settled == 1
    answer = await recover_task(runtime, task, f"anew {workspace.name}")
    assert (answer.task_id, answer.launch.stage, answer.routing.requested_preset) == (task, "prompt-sent", "minimal")
    assert host_lab.model.runs(f"first prompt {workspace.name}") == 0


async def test_what_recover_is_asked_must_be_one_thing(workspace: Path, runtime: Runtime) -> None:
    task = (await delegate(runtime, asked(workspace))).task_id
    for wishes in ({"prompt": "x"}, {"give_up": True}):
        assert (await refusal(recover(runtime, None, **wishes))).code is Code.INVALID_REQUEST
    for wishes in ({}, {"prompt": "x", "give_up": True}, {"prompt": " "}):
        assert (await refusal(recover(runtime, TaskId(task), **wishes))).code is Code.INVALID_REQUEST
    assert isinstance(await recover(runtime, None), Recovered)
    unknown = await refusal(recover(runtime, TaskId("dsh_000000000000"), prompt="x"))
    assert unknown.code is Code.TASK_NOT_FOUND


async def test_a_session_that_died_with_its_host_is_said_to_be_lost_and_launched_anew(tmp_path: Path) -> None:
    with lab() as running:
        environment = {"AGENTLINK_HOME": str(tmp_path), "AGENTLINK_HOST_URL": running.host.launch_url}
        workspace = running.host.workspace / "lost"
        workspace.mkdir()
        runtime = open_runtime(environment)
        # The session's log is flushed up to 200 ms later: a Host that is killed before that loses it.
        await run_sync(running.host.pause)
        await run_sync(running.host.resume)
        lost = None
        for _ in range(5):
            task = await interrupted(environment, workspace, runtime, "after:create_session")
            await run_sync(running.host.kill)
            await run_sync(running.host.restart)
            status = await status_of(runtime, task)
            if status.session_id is None:
                lost = task
                break
            await recover(runtime, task, give_up=True)
        assert lost is not None, "the Host kept every session"
        answer = await recover(runtime, lost, prompt="after the loss")
        assert isinstance(answer, Delegated)
        assert answer.launch.stage == "prompt-sent"
        await runtime.aclose()


async def test_a_person_may_confirm_that_a_session_is_gone(tmp_path: Path) -> None:
    """Another Host answers on the address: nothing is lost by itself, and only a person's word ends the task."""
    with lab() as first:
        environment = {"AGENTLINK_HOME": str(tmp_path), "AGENTLINK_HOST_URL": first.host.launch_url}
        workspace = first.host.workspace / "gone"
        workspace.mkdir()
        runtime = open_runtime(environment)
        task = await interrupted(environment, workspace, runtime)
        assert (await recover_all(runtime)).unprompted_count == 1
        port = first.host.port
        await runtime.aclose()
    from agentlink.lab import LabHost, LabModel

    root = Path.home() / ".cache" / "agentlink" / "lab" / f"other-{task}"
    root.mkdir(parents=True)
    with LabModel.start() as model, LabHost.start(root, model=model, port=port) as stranger:
        runtime = open_runtime({**environment, "AGENTLINK_HOST_URL": stranger.launch_url})
        await runtime.host.login(stranger.launch_url.partition("token=")[2])  # type: ignore[attr-defined]
        status = await status_of(runtime, task)
        assert status.session_id is not None
        closed = await recover(runtime, task, session_lost=True)
        assert isinstance(closed, Closed)
        assert (closed.stage, closed.session_id) == ("launch-failed", None)
        assert (await recover_all(runtime)).unprompted_count == 0
        assert await confirm_lost(runtime, task)
        await runtime.aclose()
    import shutil

    await run_sync(lambda: shutil.rmtree(root, ignore_errors=True))
