"""Follow-ups on the real Host: each message reaches the agent exactly once, whatever happens on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.to_thread import run_sync

from agentlink.app import settle
from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.followup import FollowUp, follow_up
from agentlink.app.release import release_workspace
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code
from agentlink.core.ids import TaskId
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import CookieFiles
from agentlink.journal.store import FileStore
from agentlink.lab import Lab
from tests.app.supervised import Desk, refused, until
from tests.fakes.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.requirements import requirement

pytestmark = pytest.mark.host


class Follower:
    """A process that sends follow-ups on command."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def order(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(order).decode() + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str | None]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return msgspec.json.decode(line) if line else ["died", None]


@contextmanager
def followers(environment: Mapping[str, str], *moments: str) -> Iterator[list[Follower]]:
    with ExitStack() as stack:
        started = []
        for moment in moments:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.app.follower", moment],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **environment, "PYTHONPATH": os.getcwd()},
                )
            )
            stack.callback(process.terminate)
            started.append(Follower(process))
        for one in started:
            assert one.process.stdout is not None
            assert one.process.stdout.readline() == "ready\n"
        yield started


async def reached(desk: Desk, task: TaskId, count: int) -> list[tuple[str | None, str]]:
    """The messages of clients, once that many have reached the model."""

    async def look() -> list[tuple[str | None, str]] | None:
        found = await desk.messages(task)
        return found if len(found) >= count else None

    found: list[tuple[str | None, str]] = await until(look, bound_s=40)
    return found


@requirement("FR-13")
async def test_a_steer_joins_the_running_turn_and_queued_prompts_get_turns_of_their_own(desk: Desk) -> None:
    task = await desk.task('[[tool: bash {"command":"sleep 0.8","description":"d"}]] [[say: fin]]')
    await until(lambda: _tool_runs(desk, task))
    steered = await follow_up(desk.runtime, task, FollowUp(prompt="steered", mode="steer"))
    queued = [await follow_up(desk.runtime, task, FollowUp(prompt=f"queued {n}")) for n in (1, 2)]
    assert [one.request_id for one in (steered, *queued)] == [f"{task}.1.{n}" for n in (1, 2, 3)]
    assert {one.delivery for one in (steered, *queued)} == {"accepted"}
    status = await desk.status(task)
    assert (status.execution, status.queued) == ("running", 3)
    await reached(desk, task, 4)
    waited = await desk.wait(task)
    assert waited.final_message == "Done: queued 2"
    assert [text for _, text in await desk.messages(task)][1:] == ["steered", "queued 1", "queued 2"]
    assert await desk.turn_ends(task) == ["completed"] * 3

    async def all_settled() -> bool:
        return (await desk.status(task)).open_writes == ()

    await until(all_settled)


async def _tool_runs(desk: Desk, task: TaskId) -> bool:
    return (await desk.status(task)).tool == "bash"


async def test_a_follow_up_wakes_a_finished_task_and_takes_its_released_claim_again_unless_another_has_it(
    desk: Desk,
) -> None:
    task = await desk.task("[[say: first]]", preset="minimal")
    await desk.wait(task)
    await release_workspace(desk.runtime, task, force=True)
    await follow_up(desk.runtime, task, FollowUp(prompt="[[say: second]]"))
    await reached(desk, task, 2)
    waited = await desk.wait(task)
    assert (waited.final_message, waited.claim.held) == ("second", True)
    await release_workspace(desk.runtime, task, force=True)
    await delegate(desk.runtime, DelegateRequest(prompt="[[say: mine]]", cwd=waited.claim.cwd, preset="minimal"))
    failure = await refused(follow_up(desk.runtime, task, FollowUp(prompt="[[say: third]]")))
    assert (failure.code, failure.prompt_sent) == (Code.WORKSPACE_CONFLICT, False)
    assert len(await desk.messages(task)) == 2
    assert len(await desk.intents(task)) == 1


async def test_a_repeated_request_key_gives_the_same_request_and_other_input_is_refused(desk: Desk) -> None:
    task = await desk.task("[[say: first]]", preset="minimal")
    await desk.wait(task)
    asked = FollowUp(prompt="keyed", request_key="k")
    first = await follow_up(desk.runtime, task, asked)
    for _ in range(3):
        again = await follow_up(desk.runtime, task, asked)
        assert (again.request_id, again.repeated) == (first.request_id, True)
    for other in (FollowUp(prompt="other", request_key="k"), FollowUp(prompt="keyed", mode="steer", request_key="k")):
        failure = await refused(follow_up(desk.runtime, task, other))
        assert (failure.code, failure.prompt_sent) == (Code.REQUEST_KEY_CONFLICT, False)
    answers: list[str] = []

    async def at_once() -> None:
        answers.append((await follow_up(desk.runtime, task, FollowUp(prompt="twin", request_key="t"))).request_id)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(at_once)
    assert len(set(answers)) == 1
    await reached(desk, task, 3)
    await desk.wait(task)
    assert [text for _, text in await desk.messages(task)] == ["[[say: first]]", "keyed", "twin"]


@asynccontextmanager
async def through_proxy(running: Lab, home: Path) -> AsyncIterator[tuple[Desk, FaultProxy]]:
    async with fault_proxy(running.host.port) as proxy:
        host = RemoteHost(
            label="default",
            origin=proxy.origin,
            cookies=CookieFiles(home / "cookies"),
            launch_token=running.host.launch_url.partition("token=")[2],
            read_timeout_s=10,
            write_timeout_s=1.5,
        )
        runtime = Runtime(
            store=FileStore(home, clock=lambda: "2026-01-01T00:00:00.000Z"), host=host, secret=lambda: b"s" * 32
        )
        try:
            yield Desk(running, runtime), proxy
        finally:
            await runtime.aclose()


LOST_REPLIES: list[Fault] = ["drop-reply", "bad-gateway", "late-reply", "nonsense", "other-id"]


async def test_f04_a_follow_up_whose_reply_is_lost_reaches_the_agent_once_and_is_told_from_the_history(
    host_lab: Lab, tmp_path: Path
) -> None:
    async def one(fault: Fault) -> None:
        async with through_proxy(host_lab, tmp_path / fault) as (desk, proxy):
            task = await desk.task("[[say: first]]", preset="minimal")
            await desk.done(task)
            proxy.faults["session/prompt"] = fault
            asked = FollowUp(prompt=f"lost {fault}", request_key="k")
            answer = await follow_up(desk.runtime, task, asked)
            assert (answer.delivery, answer.repeated) == ("in_history", False)
            again = await follow_up(desk.runtime, task, asked)
            assert (again.request_id, again.repeated) == (answer.request_id, True)
            await reached(desk, task, 2)
            assert [text for _, text in await desk.messages(task)] == ["[[say: first]]", f"lost {fault}"]
            assert proxy.calls.count("session/prompt") == 2

    async with anyio.create_task_group() as group:
        for fault in LOST_REPLIES:
            group.start_soon(one, fault)


async def test_f04_a_follow_up_that_never_left_is_not_delivered_and_the_same_key_sends_it(
    host_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "QUIET_S", 0.3)
    async with through_proxy(host_lab, tmp_path) as (desk, proxy):
        task = await desk.task("[[say: first]]", preset="minimal")
        await desk.done(task)
        proxy.faults["session/prompt"] = "drop-request"
        asked = FollowUp(prompt="second", request_key="k")
        failure = await refused(follow_up(desk.runtime, task, asked))
        assert (failure.code, failure.prompt_sent) == (Code.HOST_UNREACHABLE, False)
        assert (await desk.status(task)).open_writes == ()
        answer = await follow_up(desk.runtime, task, asked)
        assert (answer.request_id, answer.repeated) == (f"{task}.1.2", False)
        await reached(desk, task, 2)
        assert [request for request, _ in await desk.messages(task)] == [f"{task}.1.0", f"{task}.1.2"]


async def test_f04_a_follow_up_whose_fate_cannot_be_read_is_unknown_until_the_status_settles_it(
    host_lab: Lab, tmp_path: Path
) -> None:
    async with through_proxy(host_lab, tmp_path) as (desk, proxy):
        task = await desk.task("[[say: first]]", preset="minimal")
        await desk.done(task)
        upstream = proxy._upstream_port
        original = desk.runtime.host.session_state

        async def unreachable_after_the_prompt(session: str):  # type: ignore[no-untyped-def]
            if proxy.calls.count("session/prompt") == 2:
                proxy._upstream_port = 1
            return await original(session)

        desk.runtime.host.session_state = unreachable_after_the_prompt  # type: ignore[method-assign]
        proxy.faults["session/prompt"] = "drop-reply"
        asked = FollowUp(prompt="second", request_key="k")
        for _ in range(2):
            failure = await refused(follow_up(desk.runtime, task, asked))
            assert (failure.code, failure.prompt_sent) == (Code.DELIVERY_UNKNOWN, None)
        status = await desk.status(task)
        assert (status.availability, [one.outcome for one in status.open_writes]) == ("host_unreachable", [None])
        desk.runtime.host.session_state = original  # type: ignore[method-assign]
        proxy._upstream_port = upstream
        status = await desk.status(task)
        assert [one.outcome for one in status.open_writes] in ([], ["receipt"])
        again = await follow_up(desk.runtime, task, asked)
        assert (again.request_id, again.repeated) == (f"{task}.1.1", True)
        assert [text for _, text in await desk.messages(task)] == ["[[say: first]]", "second"]
        assert proxy.calls.count("session/prompt") == 2


async def _rounds(desk: Desk, environment: Mapping[str, str], rounds: int) -> None:
    task = await desk.task("[[say: start]]", preset="minimal")
    await desk.wait(task)
    requests: list[str | None] = []

    def run() -> None:
        with followers(environment, "none", "none") as both:
            for number in range(rounds):
                for name, one in zip("ab", both, strict=True):
                    one.order(task=task, prompt=f"{name}-{number}", key=f"{name}-{number}")
                for one in both:
                    code, request = one.answer()
                    assert code == "ok"
                    requests.append(request)

    await run_sync(run)
    messages = (await reached(desk, task, 2 * rounds + 1))[1:]
    await desk.wait(task)
    wanted = {f"{name}-{number}" for name in "ab" for number in range(rounds)}
    assert sorted(text for _, text in messages) == sorted(wanted)
    assert [int(str(request).rpartition(".")[2]) for request in sorted(requests, key=_number)] == list(
        range(1, 2 * rounds + 1)
    )
    assert [request for request, _ in messages] == sorted(requests, key=_number), "in the order of their numbers"
    assert [intent.request for intent in await desk.intents(task)] == sorted(requests, key=_number)


def _number(request: str | None) -> int:
    return int(str(request).rpartition(".")[2])


async def test_two_processes_that_follow_up_at_once_lose_nothing_double_nothing_and_number_without_a_gap(
    desk: Desk, environment: dict[str, str]
) -> None:
    await _rounds(desk, environment, 5)


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_two_processes_that_follow_up_at_once_a_hundred_times_lose_and_double_nothing(
    desk: Desk, environment: dict[str, str]
) -> None:
    await _rounds(desk, environment, 100)


KILLED_AT = {"line:1": False, "before:send_prompt": False, "after:send_prompt": True, "line:2": True}
"""The moment, and whether the prompt had gone out by then."""


async def test_a_killed_follow_up_is_settled_by_the_next_status_and_never_sent_twice(
    desk: Desk, environment: dict[str, str]
) -> None:
    async with anyio.create_task_group() as group:
        for moment, delivered in KILLED_AT.items():
            group.start_soon(_killed_at, desk, environment, moment, delivered)


async def _killed_at(desk: Desk, environment: dict[str, str], moment: str, delivered: bool) -> None:
    task = await desk.task("[[say: start]]", preset="minimal")

    async def confirmed() -> bool:
        return (await desk.status(task)).launch.confirmed

    await until(confirmed)  # a follow-up's own lines are the first that its process writes
    asked = FollowUp(prompt="from the dead", request_key="k")

    def run() -> None:
        with followers(environment, moment) as (one,):
            one.order(task=task, prompt=asked.prompt, key="k")
            assert one.answer() == ["died", None]
            assert one.process.wait(timeout=10) == -9

    await run_sync(run)
    assert [intent.request for intent in await desk.intents(task)] == [f"{task}.1.1"]
    status = await desk.status(task)
    assert [one.outcome for one in status.open_writes] in (([], ["receipt"]) if delivered else ([],))
    again = await follow_up(desk.runtime, task, asked)
    assert again.repeated is delivered
    assert again.request_id == (f"{task}.1.1" if delivered else f"{task}.1.2")
    await reached(desk, task, 2)
    await desk.wait(task)
    assert [text for _, text in await desk.messages(task)] == ["[[say: start]]", "from the dead"]
