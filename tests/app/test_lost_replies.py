"""F4 and its kin: a write whose answer is lost is settled from the Host's history and never sent again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentlink.app.delegate import delegate
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import CookieFiles
from agentlink.journal.store import FileStore
from agentlink.lab import Lab
from tests.app.requests import asked, prompts_in, prompts_once_run, status_of
from tests.fakes.fault_proxy import Fault, FaultProxy, fault_proxy

pytestmark = pytest.mark.host


@pytest.fixture
async def proxy(host_lab: Lab) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(host_lab.host.port) as running:
        yield running


@pytest.fixture
async def runtime(host_lab: Lab, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Runtime]:
    token = host_lab.host.launch_url.partition("token=")[2]
    host = RemoteHost(
        label="default",
        origin=proxy.origin,
        cookies=CookieFiles(tmp_path / "cookies"),
        launch_token=token,
        read_timeout_s=10,
        write_timeout_s=2,
    )
    store = FileStore(tmp_path, clock=lambda: "2026-01-01T00:00:00.000Z")
    yield Runtime(store=store, host=host, secret=lambda: b"s" * 32)
    await host.aclose()


@pytest.mark.parametrize("fault", ["drop-reply", "bad-gateway", "late-reply", "nonsense", "other-id"])
async def test_f04_a_prompt_whose_answer_is_lost_is_found_in_the_log_and_never_sent_again(
    runtime: Runtime, proxy: FaultProxy, workspace: Path, fault: Fault
) -> None:
    proxy.faults["session/prompt"] = fault
    answer = await delegate(runtime, asked(workspace))
    assert answer.launch.prompt_sent is True
    assert proxy.calls.count("session/prompt") == 1
    assert await prompts_once_run(runtime, answer.session_id or "") == [f"{answer.task_id}.1.0"]
    status = await status_of(runtime, answer.task_id)
    assert status.launch.stage == "prompt-sent"


async def test_f04_a_prompt_that_never_left_is_reported_as_not_delivered(
    runtime: Runtime, proxy: FaultProxy, workspace: Path
) -> None:
    proxy.faults["session/prompt"] = "drop-request"
    with pytest.raises(Failure) as caught:
        await delegate(runtime, asked(workspace))
    failure = caught.value
    assert (failure.code, failure.prompt_sent, failure.stage) == (Code.HOST_UNREACHABLE, False, "claimed")
    assert failure.session is not None
    assert await prompts_in(runtime, failure.session) == []
    status = await status_of(runtime, failure.task or "")
    assert (status.launch.stage, status.claim.held) == ("launch-failed", False)


async def test_f04_a_prompt_held_up_on_its_way_stays_unknown_until_the_log_shows_it(
    runtime: Runtime, proxy: FaultProxy, workspace: Path
) -> None:
    """The Host's log can be read only after the request arrived, so nothing is said before."""
    proxy.faults["session/prompt"] = "late-reply"
    proxy.faults["session/projections"] = "drop-reply"
    answer = await delegate(runtime, asked(workspace))
    assert proxy.calls.count("session/prompt") == 1
    assert await prompts_once_run(runtime, answer.session_id or "") == [f"{answer.task_id}.1.0"]


@pytest.mark.parametrize("fault", ["drop-reply", "bad-gateway", "late-reply", "nonsense", "other-id"])
async def test_f04_a_create_whose_answer_is_lost_is_looked_up_and_never_repeated(
    runtime: Runtime, proxy: FaultProxy, workspace: Path, fault: Fault
) -> None:
    proxy.faults["session/create"] = fault
    answer = await delegate(runtime, asked(workspace))
    assert proxy.calls.count("session/create") == 1
    assert answer.routing.resolved_preset == "minimal"
    assert await prompts_once_run(runtime, answer.session_id or "") == [f"{answer.task_id}.1.0"]


async def test_f04_a_create_that_never_left_makes_no_session_and_frees_the_claim(
    runtime: Runtime, proxy: FaultProxy, workspace: Path
) -> None:
    proxy.faults["session/create"] = "drop-request"
    with pytest.raises(Failure) as caught:
        await delegate(runtime, asked(workspace))
    failure = caught.value
    assert (failure.code, failure.prompt_sent, failure.session) == (Code.HOST_UNREACHABLE, False, None)
    assert proxy.calls.count("session/create") == 1
    status = await status_of(runtime, failure.task or "")
    assert (status.launch.stage, status.claim.held, status.session_id) == ("launch-failed", False, None)


async def test_f04_the_host_that_dies_before_it_answers_leaves_delivery_unknown(
    runtime: Runtime, proxy: FaultProxy, workspace: Path
) -> None:
    """Nothing can be read, so nothing is claimed; a later look settles it."""
    original = runtime.host.session_state
    proxy.faults["session/prompt"] = "drop-reply"
    upstream = proxy._upstream_port  # the Host "dies" for the proxy once the prompt has gone out

    async def dies_after_the_prompt(session: str):  # type: ignore[no-untyped-def]
        if "session/prompt" in proxy.calls:
            proxy._upstream_port = 1
        return await original(session)

    runtime.host.session_state = dies_after_the_prompt  # type: ignore[method-assign]
    with pytest.raises(Failure) as caught:
        await delegate(runtime, asked(workspace))
    failure = caught.value
    assert (failure.code, failure.prompt_sent, failure.stage) == (Code.DELIVERY_UNKNOWN, None, "claimed")
    status = await status_of(runtime, failure.task or "")
    assert (status.launch.prompt_sent, status.claim.held) == (None, True)
    assert status.failure is not None
    assert status.failure.code == "delivery_unknown"
    runtime.host.session_state = original  # type: ignore[method-assign]
    proxy._upstream_port = upstream
    status = await status_of(runtime, failure.task or "")
    assert (status.launch.stage, status.launch.prompt_sent) == ("prompt-sent", True)
    assert proxy.calls.count("session/prompt") == 1
