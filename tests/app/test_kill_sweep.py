"""200 kills on the real Host, at every moment of a launch, several at once in one home; then one recovery of all."""

import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentlink.app.delegate import delegate
from agentlink.app.recover import recover_all, recover_task
from agentlink.app.runtime import Runtime
from agentlink.core.ids import TaskId
from agentlink.lab import Lab
from tests.app.requests import asked, prompts_in, status_of
from tests.app.test_crashes import MOMENTS, killed_delegation

pytestmark = [pytest.mark.host, pytest.mark.soak, pytest.mark.timeout(900)]

AT_ONCE = 8


async def test_200_kills_on_the_real_host_lose_nothing_and_double_nothing(
    host_lab: Lab, environment: dict[str, str], new_runtime: Callable[[], Runtime], workspace: Path
) -> None:
    runtime = new_runtime()
    await delegate(runtime, asked(workspace))
    moments = [moment for _ in range(20) for moment in MOMENTS]
    limiter = anyio.CapacityLimiter(AT_ONCE)
    prompts: dict[str, str] = {}

    async def kill(moment: str) -> None:
        place = host_lab.host.workspace / f"k-{secrets.token_hex(6)}"
        place.mkdir()
        prompts[str(place)] = f"killed {place.name}"
        async with limiter:
            assert await killed_delegation(environment, moment, str(place), prompts[str(place)]) == -9

    async with anyio.create_task_group() as group:
        for moment in moments:
            group.start_soon(kill, moment)
    found = await recover_all(runtime)
    await anyio.sleep(2)
    assert (await recover_all(runtime)).unsettled_count == 0
    table: Counter[str] = Counter(kills=len(moments), settled=found.settled)
    views = [view for view in await runtime.store.page(limit=1000) if view.launch.cwd in prompts]
    assert len(views) == len(moments), "an accepted task was lost"
    for view in views:
        prompt = prompts[view.launch.cwd]
        if view.launch.unprompted:
            await recover_task(runtime, TaskId(view.task), prompt)
            table["recovered into their session"] += 1
        elif view.launch.failed:
            assert view.launch.code == "interrupted"
            assert view.launch.claim_held is False
            table["failed without a session, explained"] += 1
        else:
            assert view.launch.confirmed
            table["delivered before the kill"] += 1
    await anyio.sleep(3)
    for view in views:
        status = await status_of(runtime, view.task)
        ran = host_lab.model.runs(prompts[view.launch.cwd])
        sent = status.launch.prompt_sent is True
        assert ran == int(sent), f"{view.task} ran {ran} times, said {status.launch.stage}"
        assert status.claim.held is sent
        if status.session_id is not None:
            assert len(await prompts_in(runtime, status.session_id)) == int(sent)
        table["delivered twice"] += ran > 1
    assert table["delivered twice"] == 0
    print(dict(table))


async def test_recovery_of_1000_unfinished_launches_is_bounded_and_shows_progress(
    environment: dict[str, str], new_runtime: Callable[[], Runtime], workspace: Path
) -> None:
    from agentlink.core.facts.launch import (
        LaunchClaimed,
        LaunchRequested,
        LaunchSelected,
        PresetVerified,
        SessionCreated,
    )

    runtime = new_runtime()
    await delegate(runtime, asked(workspace))
    host = runtime.host
    for number in range(1000):
        task = TaskId(f"dsh_{number:012x}")
        session = f"session-many-{number}"
        facts = [
            LaunchRequested(
                attempt=1,
                mode="manual",
                cwd=f"/many/{number}",
                claim="exclusive-write",
                host=host.label,
                origin=host.origin,
                binding=host.binding,
                preset="minimal",
            ),
            LaunchSelected(session=session, reason="explicit_preset", preset="minimal"),
            SessionCreated(session=session, resolved="minimal"),
            PresetVerified(verification="verified"),
            LaunchClaimed(request=f"{task}.1.0"),
        ][: number % 5 + 1]
        await runtime.store.append(task, facts, expected_n=0)
    calls: Counter[str] = Counter()
    for name in ("session_state", "page"):
        original = getattr(host, name)

        async def counted(*args, _original=original, _name=name, **kwargs):  # type: ignore[no-untyped-def]
            calls[_name] += 1
            return await _original(*args, **kwargs)

        setattr(host, name, counted)
    shown: list[tuple[int, int]] = []
    began = anyio.current_time()
    found = await recover_all(runtime, progress=lambda done, total: shown.append((done, total)))
    took = anyio.current_time() - began
    print({"launches": 1000, "settled": found.settled, "seconds": round(took, 1), "Host calls": dict(calls)})
    assert found.settled >= 1000
    assert found.unsettled_count == 0
    assert shown[-1][0] >= 1000
    assert sum(calls.values()) <= 4 * 1000
