"""Automatic routing on the real Host: rules choose, the Host proves (003 FR-02 to FR-10)."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.host_status import host_status
from agentlink.app.listing import list_tasks
from agentlink.app.recover import recover_task
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import Preset
from agentlink.core.ids import TaskId
from agentlink.lab import ChangeableState, Lab, write_changeable
from tests.app.requests import as_json, model_ran, prompts_in, status_of
from tests.app.test_crashes import killed_delegation
from tests.requirements import requirement

pytestmark = pytest.mark.host

RULES = """
version = 1
[[rule]]
id = "implementation"
preset = "standard"
reason = "full tool set"
match = { kind = ["implementation", "debugging"] }
[[rule]]
id = "big-implementation"
preset = "team"
match = { kind = ["implementation", "debugging"], scale = ["large", "huge"] }
[[rule]]
id = "review"
preset = "team"
match = { kind = "review" }
[[rule]]
id = "logs"
preset = "minimal"
match = { kind = "log-analysis" }
[[rule]]
id = "parallel"
preset = "ptc"
match = { parallelism = ["high", "explicit"] }
[[rule]]
id = "research"
preset = "broken-one"
match = { kind = "research" }
[[rule]]
id = "docs"
preset = "no-such-preset"
match = { kind = "documentation" }
[[rule]]
id = "cheap-a"
preset = "minimal"
match = { optimizationIntent = "cost" }
[[rule]]
id = "cheap-b"
preset = "standard"
match = { optimizationIntent = "cost" }
"""

TASKS = [
    ({"kind": "implementation"}, "implementation", "standard", "kind_set"),
    ({"kind": "implementation", "scale": "small"}, "implementation", "standard", "kind_set"),
    ({"kind": "implementation", "scale": "large"}, "big-implementation", "team", "kind_set"),
    ({"kind": "debugging"}, "implementation", "standard", "kind_set"),
    (
        {"kind": "debugging", "scale": "huge", "evidence": "local-verification"},
        "big-implementation",
        "team",
        "kind_set",
    ),
    ({"kind": "review"}, "review", "team", "kind_exact"),
    ({"kind": "review", "parallelism": "high"}, "review", "team", "kind_exact"),
    ({"kind": "log-analysis"}, "logs", "minimal", "kind_exact"),
    ({"parallelism": "explicit"}, "parallel", "ptc", "fields"),
    ({"kind": "testing", "parallelism": "high"}, "parallel", "ptc", "fields"),
]


@pytest.fixture
def routes(environment: dict[str, str]) -> Path:
    path = Path(environment["AGENTLINK_HOME"]) / "routes.toml"
    path.parent.mkdir(parents=True)
    path.write_text(RULES)
    return path


def auto(workspace: Path, hints: dict[str, str], prompt: str = "do it", **more: object) -> DelegateRequest:
    return DelegateRequest(prompt=prompt, cwd=str(workspace), auto=True, hints=hints, **more)  # type: ignore[arg-type]


async def refused(runtime: Runtime, request: DelegateRequest) -> Failure:
    with pytest.raises(Failure) as caught:
        await delegate(runtime, request)
    return caught.value


@pytest.mark.parametrize(("hints", "rule", "preset", "reason"), TASKS)
@requirement("FR-06", "FR-08", "FR-12", "FR-13", "NFR-01", "AC-04", "AC-12", "AC-13", "AC-19", "AC-20", "AC-25")
async def test_a_representative_task_goes_where_the_rules_say_and_the_host_proves_it(
    runtime: Runtime, workspace: Path, routes: Path, hints: dict[str, str], rule: str, preset: str, reason: str
) -> None:
    answer = await delegate(runtime, auto(workspace, hints))
    assert as_json(answer.routing) == {
        "mode": "automatic",
        "ruleId": rule,
        "requestedPreset": preset,
        "resolvedPreset": preset,
        "verification": "verified",
        "reason": reason,
    }
    status = await status_of(runtime, answer.task_id)
    record = status.launch.record
    assert record is not None
    assert (record.selection_mode, record.route_rule_id, record.resolved_preset) == ("automatic", rule, preset)
    assert [stage.stage for stage in status.launch.path][:3] == ["requested", "roster-read", "selected"]
    state = await runtime.host.session_state(answer.session_id or "")
    assert state is not None
    assert state.preset == preset


@pytest.mark.parametrize(
    ("hints", "code"),
    [
        ({"kind": "research"}, Code.PRESET_BROKEN),
        ({"kind": "documentation"}, Code.PRESET_NOT_FOUND),
        ({"kind": "planning"}, Code.NO_ELIGIBLE_ROUTE),
        ({}, Code.NO_ELIGIBLE_ROUTE),
        ({"optimizationIntent": "cost"}, Code.AMBIGUOUS_ROUTE),
    ],
)
@requirement("FR-09", "FR-10", "SI-07", "AC-11")
async def test_f06_what_no_rule_can_serve_stops_without_a_session_and_without_a_fallback(
    runtime: Runtime, workspace: Path, routes: Path, host_lab: Lab, hints: dict[str, str], code: Code
) -> None:
    prompt = f"never sent {workspace.name}"
    failure = await refused(runtime, auto(workspace, hints, prompt))
    assert (failure.code, failure.session, failure.prompt_sent, failure.stage) == (code, None, False, "roster-read")
    status = await status_of(runtime, failure.task or "")
    assert (status.launch.stage, status.claim.held) == ("launch-failed", False)
    assert host_lab.model.runs(prompt) == 0


@requirement("FR-02", "FR-09", "AC-06")
async def test_a_bad_hint_or_a_mixed_request_makes_no_task(runtime: Runtime, workspace: Path, routes: Path) -> None:
    assert (await refused(runtime, auto(workspace, {"kind": "reviews"}))).code is Code.ROUTING_HINTS_INVALID
    assert (await refused(runtime, auto(workspace, {"kindd": "review"}))).code is Code.ROUTING_HINTS_INVALID
    both = auto(workspace, {"kind": "review"}, preset="minimal")
    assert (await refused(runtime, both)).code is Code.ROUTING_REQUEST_AMBIGUOUS
    hints_only = DelegateRequest(prompt="x", cwd=str(workspace), hints={"kind": "review"})
    assert (await refused(runtime, hints_only)).code is Code.INVALID_REQUEST
    assert (await list_tasks(runtime)).tasks == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, Code.ROUTING_NOT_CONFIGURED),
        ("version = 1\n", Code.ROUTING_NOT_CONFIGURED),
        (RULES.replace('kind = "review"', 'kind = "reviews"'), Code.ROUTING_CONFIG_INVALID),
        ("version = 1\n[[rule]\n", Code.ROUTING_CONFIG_INVALID),
    ],
)
@requirement("FR-02", "FR-11", "NFR-04", "AC-08", "AC-09", "AC-10")
async def test_f23_a_missing_or_malformed_rules_file_stops_automatic_delegation_and_nothing_else(
    runtime: Runtime, workspace: Path, routes: Path, text: str | None, code: Code
) -> None:
    if text is None:
        routes.unlink()
    else:
        routes.write_text(text)
    assert (await refused(runtime, auto(workspace, {"kind": "review"}))).code is code
    assert (await list_tasks(runtime)).tasks == ()
    answer = await delegate(runtime, DelegateRequest(prompt="x", cwd=str(workspace), preset="minimal"))
    assert answer.routing.mode == "manual"
    health = (await host_status(runtime)).routes
    expected = "invalid" if code is Code.ROUTING_CONFIG_INVALID else "missing"
    assert health.state == expected
    if "reviews" in (text or ""):
        assert "routes.toml:" in (health.message or "")
        assert health.line


@requirement("FR-04")
async def test_rules_are_read_afresh_for_each_delegation(runtime: Runtime, workspace: Path, routes: Path) -> None:
    first = await delegate(runtime, auto(workspace, {"kind": "review"}, claim="read-only"))
    routes.write_text(RULES.replace('id = "review"\npreset = "team"', 'id = "review"\npreset = "minimal"'))
    second = await delegate(runtime, auto(workspace, {"kind": "review"}, claim="read-only"))
    assert (first.routing.resolved_preset, second.routing.resolved_preset) == ("team", "minimal")


@requirement("FR-11")
async def test_host_status_tells_which_targets_are_absent_or_broken(runtime: Runtime, routes: Path) -> None:
    health = (await host_status(runtime)).routes
    assert (health.state, health.rules, health.absent, health.broken) == (
        "valid", 9, ("no-such-preset",), ("broken-one",),
    )  # fmt: skip


@requirement("FR-03", "FR-10", "SI-07", "AC-17")
async def test_a_preset_that_goes_between_roster_and_create_stops_without_a_second_choice(
    runtime: Runtime, workspace: Path, routes: Path
) -> None:
    """The roster said it was there; the Host refuses the create: no other rule is tried."""

    async def a_roster_of_before() -> tuple[Preset, ...]:
        return tuple(Preset(name, name == "standard") for name in ("standard", "team", "no-such-preset", "broken-one"))

    runtime.host.roster = a_roster_of_before  # type: ignore[method-assign]
    gone = await refused(runtime, auto(workspace, {"kind": "documentation"}))
    assert (gone.code, gone.session, gone.stage) == (Code.PRESET_NOT_FOUND, None, "selected")
    broken = await refused(runtime, auto(workspace, {"kind": "research"}))
    assert (broken.code, broken.session, broken.stage) == (Code.PRESET_BROKEN, None, "selected")


@pytest.mark.soak
@requirement("FR-06", "SI-08", "AC-14", "AC-17")
@pytest.mark.parametrize(("state", "code"), [("gone", Code.PRESET_NOT_FOUND), ("broken", Code.PRESET_BROKEN)])
async def test_a_preset_that_really_goes_or_breaks_after_the_roster_was_read_stops_the_launch(
    runtime: Runtime, workspace: Path, routes: Path, host_lab: Lab, state: ChangeableState, code: Code
) -> None:
    routes.write_text(RULES + '[[rule]]\nid = "planning"\npreset = "changeable"\nmatch = { kind = "planning" }\n')
    original = runtime.host.roster

    async def standing(wanted: ChangeableState) -> bool:
        found = {preset.id: preset for preset in await original()}.get("changeable")
        shown = "gone" if found is None else "broken" if found.broken else "good"
        return shown == wanted

    async def set_to(wanted: ChangeableState) -> None:
        write_changeable(host_lab.host.home, wanted)
        with anyio.fail_after(15):
            while not await standing(wanted):
                await anyio.sleep(0.1)

    async def the_preset_changes_right_after() -> tuple[Preset, ...]:
        roster = await original()
        await set_to(state)
        return roster

    runtime.host.roster = the_preset_changes_right_after  # type: ignore[method-assign]
    prompt = f"planning {workspace.name}"
    try:
        failure = await refused(runtime, auto(workspace, {"kind": "planning"}, prompt))
        assert (failure.code, failure.session, failure.prompt_sent) == (code, None, False)
        assert host_lab.model.runs(prompt) == 0
    finally:
        await set_to("good")


async def test_a_preset_that_changes_between_create_and_prompt_stops_an_automatic_launch(
    runtime: Runtime, workspace: Path, routes: Path
) -> None:
    original = runtime.host.session_state

    async def selected_by_a_person(session: str):  # type: ignore[no-untyped-def]
        args = {"agentId": session, "agentPreset": "minimal"}
        await runtime.host._read("agentPresets/select", args)  # type: ignore[attr-defined]
        return await original(session)

    runtime.host.session_state = selected_by_a_person  # type: ignore[method-assign]
    failure = await refused(runtime, auto(workspace, {"kind": "review"}))
    assert (failure.code, failure.prompt_sent) == (Code.RESOLVED_PRESET_MISMATCH, False)
    assert await prompts_in(runtime, failure.session or "") == []


@requirement("FR-06", "FR-09", "AC-15")
async def test_a_host_that_cannot_report_presets_stops_automatic_and_lets_manual_go_on(
    runtime: Runtime, workspace: Path, routes: Path
) -> None:
    original_create, original_state = runtime.host.create_session, runtime.host.session_state

    async def says_nothing(session, *, cwd, preset):  # type: ignore[no-untyped-def]
        from msgspec.structs import replace

        return replace(await original_create(session, cwd=cwd, preset=preset), resolved=None)

    async def shows_nothing(session: str):  # type: ignore[no-untyped-def]
        from msgspec.structs import replace

        state = await original_state(session)
        return None if state is None else replace(state, preset=None)

    runtime.host.create_session = says_nothing  # type: ignore[method-assign]
    runtime.host.session_state = shows_nothing  # type: ignore[method-assign]
    type(runtime.host).reports_presets = property(lambda _: False)  # type: ignore[method-assign,assignment]
    try:
        failure = await refused(runtime, auto(workspace, {"kind": "review"}))
        assert failure.code is Code.ROUTING_VERIFICATION_UNAVAILABLE
        assert failure.session is not None
        answer = await delegate(runtime, DelegateRequest(prompt="x", cwd=str(workspace), preset="minimal"))
        assert (answer.routing.verification, answer.launch.prompt_sent) == ("unavailable", True)
    finally:
        type(runtime.host).reports_presets = property(lambda _: True)  # type: ignore[method-assign,assignment]


@requirement("FR-12", "AC-26")
async def test_a_killed_automatic_launch_is_recovered_with_the_choice_of_before(
    environment: dict[str, str], workspace: Path, routes: Path, new_runtime: Callable[[], Runtime], host_lab: Lab
) -> None:
    prompt = f"automatic {workspace.name}"
    # The child takes a preset; its launch is made automatic by the environment of the test.
    automatic = {**environment, "AGENTLINK_TEST_HINTS": '{"kind": "review"}'}
    assert await killed_delegation(automatic, "line:4", str(workspace), prompt) == -9
    runtime = new_runtime()
    task = TaskId((await list_tasks(runtime)).tasks[0].task_id)
    routes.write_text(RULES.replace('id = "review"\npreset = "team"', 'id = "review"\npreset = "minimal"'))
    status = await status_of(runtime, task)
    record = status.launch.record
    assert record is not None
    assert (record.route_rule_id, record.requested_preset, record.launch_stage) == ("review", "team", "launch-failed")
    answer = await recover_task(runtime, task, prompt)
    assert (answer.routing.rule_id, answer.routing.resolved_preset) == ("review", "team")
    assert await model_ran(host_lab, prompt)


@pytest.mark.parametrize("line", [1, 2, 3, 4, 5, 6, 7])
async def test_an_automatic_launch_killed_after_each_line_is_settled_truthfully(
    environment: dict[str, str],
    workspace: Path,
    routes: Path,
    new_runtime: Callable[[], Runtime],
    host_lab: Lab,
    line: int,
) -> None:
    runtime = new_runtime()
    await delegate(runtime, auto(workspace, {"kind": "review"}, "warm up", claim="read-only"))
    place = workspace / "inner"
    place.mkdir()
    prompt = f"automatic {line} {workspace.name}"
    automatic = {**environment, "AGENTLINK_TEST_HINTS": '{"kind": "log-analysis"}'}
    for view in await runtime.store.page(limit=10, kind="claimed"):
        from agentlink.app.release import release_workspace

        await release_workspace(runtime, view.task, force=True)
    assert await killed_delegation(automatic, f"line:{line}", str(place), prompt) == -9
    task = (await list_tasks(runtime)).tasks[0].task_id
    status = await status_of(new_runtime(), task)
    sent = line == 7
    assert (status.launch.stage, status.launch.prompt_sent) == (
        ("prompt-sent", True) if sent else ("launch-failed", False)
    )
    assert await model_ran(host_lab, prompt, int(sent))
    record = status.launch.record
    assert record is not None
    assert (record.selection_mode, record.route_rule_id) == ("automatic", "logs" if line >= 3 else None)
