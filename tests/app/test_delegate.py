"""Delegations on the real Host: what is accepted, what is refused, and what stands in the journal afterwards."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.listing import list_tasks
from agentlink.app.release import release_workspace
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import SessionState
from agentlink.core.ids import TaskId
from agentlink.core.launch.claims import CLAIM_NOTICE
from agentlink.lab import Lab
from tests.app.requests import as_json, asked, prompts_in, prompts_once_run, status_of
from tests.requirements import requirement

pytestmark = pytest.mark.host


async def refused(runtime: Runtime, request: DelegateRequest) -> Failure:
    with pytest.raises(Failure) as caught:
        await delegate(runtime, request)
    return caught.value


async def finished(runtime: Runtime, task: str):  # type: ignore[no-untyped-def]
    with anyio.fail_after(20):
        while True:
            status = await status_of(runtime, task)
            if status.launch.confirmed and status.execution not in ("running", "queued", "not_started"):
                return status
            await anyio.sleep(0.1)


@requirement("FR-02", "FR-08", "AC-01", "SI-09")
async def test_a_named_preset_is_verified_and_the_agent_answers(runtime: Runtime, workspace: Path) -> None:
    answer = await delegate(runtime, asked(workspace, "hi [[say: Bonjour ✓]]"))
    assert as_json(answer.routing) == {
        "mode": "manual",
        "requestedPreset": "minimal",
        "resolvedPreset": "minimal",
        "verification": "verified",
        "reason": "explicit_preset",
    }
    status = await finished(runtime, answer.task_id)
    assert (status.execution, status.final_message) == ("turn_completed", "Bonjour ✓")
    assert [stage.stage for stage in status.launch.path] == [
        "requested", "selected", "session-created", "preset-verified", "claimed", "prompt-sent",
    ]  # fmt: skip
    assert status.launch.record is not None
    assert status.launch.record.verification == "verified"


@requirement("FR-02", "FR-06", "AC-02")
async def test_without_a_preset_the_hosts_default_is_recorded_and_nothing_is_required(
    runtime: Runtime, workspace: Path
) -> None:
    answer = await delegate(runtime, asked(workspace, preset=None))
    routing = answer.routing
    assert (routing.mode, routing.resolved_preset, routing.verification) == ("dsh-default", "standard", "not-required")
    assert routing.requested_preset is None


@requirement("FR-07", "AC-21")
async def test_the_prompt_in_the_hosts_log_is_the_callers_byte_for_byte(runtime: Runtime, workspace: Path) -> None:
    prompt = '  line 1\r\n\tline 2 ✓ 完成 🎉\n\n{"json": true}\\n  trailing  \n'
    answer = await delegate(runtime, asked(workspace, prompt))
    await prompts_once_run(runtime, answer.session_id or "")
    from agentlink.wire import remote

    host = runtime.host
    state = await host.session_state(answer.session_id or "")
    assert state is not None
    args = {"request": {
        "address": {"kind": "session", "sessionId": answer.session_id}, "throughSeq": state.last_seq, "maxMessages": 50,
    }}  # fmt: skip
    raw, _ = await host._read("session/page", args)  # type: ignore[attr-defined]
    import msgspec

    messages = [
        record["event"]["data"]
        for record in msgspec.json.decode(raw)["records"]
        if record["event"]["type"] == "user/message" and record["event"]["data"]["source"]["kind"] == "user"
    ]
    assert [message["content"] for message in messages] == [[{"type": "text", "text": prompt}]]
    assert remote.REPORTS_PRESETS


@pytest.mark.parametrize(
    ("preset", "code"), [("no-such-preset", Code.PRESET_NOT_FOUND), ("broken-one", Code.PRESET_BROKEN)]
)
@requirement("FR-10", "AC-01")
async def test_f06_a_missing_or_broken_preset_stops_before_a_session_exists(
    runtime: Runtime, workspace: Path, host_lab: Lab, preset: str, code: Code
) -> None:
    prompt = f"for {preset} in {workspace.name}"
    failure = await refused(runtime, asked(workspace, prompt, preset=preset))
    assert (failure.code, failure.session, failure.prompt_sent, failure.stage) == (code, None, False, "selected")
    if code is Code.PRESET_NOT_FOUND:
        assert "minimal" in (failure.details or {})["available"]
    else:
        assert (failure.details or {})["reason"]
    assert host_lab.model.runs(prompt) == 0
    status = await status_of(runtime, failure.task or "")
    assert (status.launch.stage, status.claim.held, status.session_id) == ("launch-failed", False, None)
    assert status.failure is not None
    assert status.failure.code == code
    # The claim is free again: the same directory can be had at once.
    await delegate(runtime, asked(workspace))


async def test_f06_a_preset_that_changes_between_create_and_prompt_stops_with_the_session_named(
    runtime: Runtime, workspace: Path, host_lab: Lab
) -> None:
    prompt = f"changed under way {workspace.name}"
    original = runtime.host.session_state

    async def a_person_selects_another_preset(session: str) -> SessionState | None:
        args = {"agentId": session, "agentPreset": "team"}
        await runtime.host._read("agentPresets/select", args)  # type: ignore[attr-defined]
        return await original(session)

    runtime.host.session_state = a_person_selects_another_preset  # type: ignore[method-assign]
    failure = await refused(runtime, asked(workspace, prompt))
    assert (failure.code, failure.prompt_sent, failure.stage) == (Code.RESOLVED_PRESET_MISMATCH, False, "claimed")
    assert failure.session is not None
    assert failure.details == {"requestedPreset": "minimal", "resolvedPreset": "team"}
    assert await prompts_in(runtime, failure.session) == []
    status = await status_of(runtime, failure.task or "")
    assert status.launch.record is not None
    assert (status.launch.record.verification, status.launch.record.resolved_preset) == ("failed", "team")
    assert host_lab.model.runs(prompt) == 0


@requirement("FR-06", "SI-08")
async def test_f06_a_host_that_answers_with_another_preset_stops_at_the_first_verification(
    runtime: Runtime, workspace: Path
) -> None:
    original = runtime.host.create_session

    async def resolves_the_default(session, *, cwd, preset):  # type: ignore[no-untyped-def]
        return await original(session, cwd=cwd, preset=None)

    runtime.host.create_session = resolves_the_default  # type: ignore[method-assign]
    failure = await refused(runtime, asked(workspace))
    assert (failure.code, failure.stage) == (Code.RESOLVED_PRESET_MISMATCH, "session-created")
    assert failure.session is not None
    assert await prompts_in(runtime, failure.session) == []


async def test_a_model_without_a_route_stops_before_the_prompt(runtime: Runtime, workspace: Path) -> None:
    from agentlink.core.host.values import ModelCatalog

    async def nothing_routable() -> ModelCatalog:
        return ModelCatalog(None, ())

    runtime.host.model_catalog = nothing_routable  # type: ignore[method-assign]
    failure = await refused(runtime, asked(workspace))
    assert (failure.code, failure.stage, failure.prompt_sent) == (Code.MODEL_UNROUTABLE, "claimed", False)
    assert failure.session is not None


async def test_a_session_that_somebody_began_to_use_is_not_prompted(runtime: Runtime, workspace: Path) -> None:
    original = runtime.host.session_state

    async def in_use(session: str) -> SessionState | None:
        import msgspec

        state = await original(session)
        return None if state is None else msgspec.structs.replace(state, blank=False)

    runtime.host.session_state = in_use  # type: ignore[method-assign]
    assert (await refused(runtime, asked(workspace))).code is Code.SESSION_NOT_BLANK


@requirement("NFR-03", "SI-03")
async def test_what_a_claim_is_not_is_said_in_result_and_status(runtime: Runtime, workspace: Path) -> None:
    answer = await delegate(runtime, asked(workspace, claim="read-only"))
    status = await status_of(runtime, answer.task_id)
    assert as_json(answer.claim)["notice"] == as_json(status.claim)["notice"] == CLAIM_NOTICE
    assert "sandbox" in CLAIM_NOTICE


@pytest.mark.parametrize("spelling", ["link", "slash", "dots", "through-link", "tilde", "relative-to-root"])
@requirement("SI-10", "AC-18")
async def test_f19_one_folder_is_one_claim_under_all_its_spellings(
    runtime: Runtime, workspace: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace / "proj dir"
    folder.mkdir()
    (workspace / "link").symlink_to(folder)
    monkeypatch.setenv("HOME", str(workspace))
    cwd, root = {
        "link": (str(workspace / "link"), None),
        "slash": (f"{folder}/", None),
        "dots": (f"{folder}/../proj dir/.", None),
        "through-link": (f"{workspace}/link/../proj dir", None),
        "tilde": ("~/proj dir", None),
        "relative-to-root": ("proj dir", workspace),
    }[spelling]
    first = await delegate(runtime, asked(folder))
    assert first.claim.cwd == str(folder)
    request = DelegateRequest(prompt="x", cwd=cwd, preset="minimal", root=root)
    failure = await refused(runtime, request)
    assert failure.code is Code.WORKSPACE_CONFLICT
    assert (failure.details or {})["taskId"] == first.task_id


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("relative/dir", Code.INVALID_REQUEST),
        (".", Code.INVALID_REQUEST),
        ("", Code.INVALID_REQUEST),
        ("/no/such/folder", Code.CWD_NOT_FOUND),
        ("~nobody-here/x", Code.CWD_NOT_FOUND),
        (__file__, Code.CWD_NOT_FOUND),
    ],
)
async def test_f19_a_bad_directory_is_refused_before_any_task_or_session(
    runtime: Runtime, cwd: str, code: Code
) -> None:
    failure = await refused(runtime, DelegateRequest(prompt="x", cwd=cwd, preset="minimal"))
    assert (failure.code, failure.task, failure.session, failure.prompt_sent) == (code, None, None, False)
    assert (await list_tasks(runtime)).tasks == ()


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": " \n"},
        {"prompt": "\ud800"},
        {"preset": " "},
        {"title": ""},
        {"title": "\udcff"},
        {"preset": "\udcff"},
        {"preset": "p" * 300},
        {"request_key": "no spaces"},
    ],
)
async def test_bad_arguments_are_named_and_change_nothing(
    runtime: Runtime, workspace: Path, change: dict[str, str]
) -> None:
    failure = await refused(runtime, asked(workspace, **change))
    assert failure.code is Code.INVALID_REQUEST
    assert (failure.details or {})["argument"]
    assert (await list_tasks(runtime)).tasks == ()


async def test_a_request_key_with_another_input_is_a_conflict(runtime: Runtime, workspace: Path) -> None:
    first = await delegate(runtime, asked(workspace, "one", request_key="k"))
    again = await delegate(runtime, asked(workspace, "one", request_key="k"))
    assert (again.task_id, again.repeated) == (first.task_id, True)
    failure = await refused(runtime, asked(workspace, "two", request_key="k"))
    assert (failure.code, failure.task) == (Code.REQUEST_KEY_CONFLICT, first.task_id)


@requirement("SI-10")
async def test_read_only_claims_stand_side_by_side_and_exclusive_ones_do_not(runtime: Runtime, workspace: Path) -> None:
    for _ in range(2):
        await delegate(runtime, asked(workspace, claim="read-only"))
    failure = await refused(runtime, asked(workspace))
    assert (failure.code, failure.task) == (Code.WORKSPACE_CONFLICT, None)


@requirement("FR-13")
async def test_a_released_workspace_can_be_claimed_again_and_is_released_once(
    runtime: Runtime, workspace: Path
) -> None:
    first = await delegate(runtime, asked(workspace))
    await finished(runtime, first.task_id)
    released = await release_workspace(runtime, TaskId(first.task_id))
    assert released.claim.held is False
    with pytest.raises(Failure) as caught:
        await release_workspace(runtime, TaskId(first.task_id))
    assert caught.value.code is Code.WORKSPACE_CLAIM_MISSING
    await delegate(runtime, asked(workspace))


async def test_a_busy_task_is_released_only_by_force(runtime: Runtime, workspace: Path) -> None:
    answer = await delegate(runtime, asked(workspace, "[[hang]]"))
    with anyio.fail_after(10):
        while (await status_of(runtime, answer.task_id)).execution != "running":
            await anyio.sleep(0.1)
    with pytest.raises(Failure) as caught:
        await release_workspace(runtime, TaskId(answer.task_id))
    assert caught.value.code is Code.TASK_BUSY
    assert (await release_workspace(runtime, TaskId(answer.task_id), force=True)).claim.held is False


async def test_a_title_is_set_after_the_prompt(runtime: Runtime, workspace: Path) -> None:
    answer = await delegate(runtime, asked(workspace, title="A title of ours"))
    assert answer.warnings == ()
    args = {"request": {"sessionId": answer.session_id}}
    raw, _ = await runtime.host._read("session/projections", args)  # type: ignore[attr-defined]
    import msgspec

    assert msgspec.json.decode(raw)["values"]["title"] == "A title of ours"


async def test_another_process_replays_the_same_state(
    runtime: Runtime, workspace: Path, new_runtime: Callable[[], Runtime]
) -> None:
    answer = await delegate(runtime, asked(workspace))
    status = await finished(runtime, answer.task_id)
    other = await status_of(new_runtime(), answer.task_id)
    assert as_json(other) == as_json(status)


@requirement("FR-12", "NFR-06", "SI-09", "AC-24")
async def test_nothing_of_prompt_or_answer_is_in_the_home(
    runtime: Runtime, workspace: Path, environment: dict[str, str]
) -> None:
    answer = await delegate(runtime, asked(workspace, "SECRET-PROMPT [[say: SECRET-ANSWER]]", title="SECRET-TITLE"))
    await finished(runtime, answer.task_id)
    await refused(runtime, asked(workspace, "SECRET-PROMPT 2", preset="broken-one"))
    assert not _files_with(b"SECRET", Path(environment["AGENTLINK_HOME"]))


def _files_with(text: bytes, home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and text in path.read_bytes()]
