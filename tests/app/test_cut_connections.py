"""A busy task watched through connections that are cut again and again: nothing is missed, nothing is told twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from agentlink.app.conversation import read_conversation
from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.live import following
from agentlink.app.read_log import whole_log
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.tail import tail
from agentlink.app.wait import WaitRequest, wait
from agentlink.core.errors import Failure
from agentlink.core.host.values import Event, TextDelta
from agentlink.core.ids import TaskId
from agentlink.core.supervision.digest import Digest
from agentlink.core.supervision.status import GOING_ON
from agentlink.lab import Lab
from tests.app.tails import whole_tail
from tests.core.supervision.test_tail import joined
from tests.host.front import Front


class Seen:
    """A listener that keeps every event of every session."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {}
        self.text = ""

    def on_event(self, session: str, event: Event) -> None:
        self.events.setdefault(session, []).append(event)

    def on_text(self, session: str, delta: TextDelta) -> None:  # noqa: ARG002  a listener's
        self.text = delta.text if delta.begins else self.text + delta.text

    def on_rewound(self, session: str, from_seq: int) -> None:
        raise AssertionError(f"{session} was never rewound, but {from_seq} is told again")


@pytest.fixture
async def front(host_lab: Lab) -> AsyncIterator[Front]:
    with Front(host_lab.host.port) as door:
        yield door


@pytest.fixture
async def through(front: Front, environment: dict[str, str], host_lab: Lab, tmp_path: Path) -> AsyncIterator[Runtime]:
    """A process whose every connection to the Host passes the door."""
    url = environment["AGENTLINK_HOST_URL"].replace(host_lab.host.origin, front.origin)
    runtime = open_runtime(environment | {"AGENTLINK_HOST_URL": url, "AGENTLINK_HOME": str(tmp_path / "through")})
    yield runtime
    await runtime.aclose()


async def told_in_parts(runtime: Runtime, task: TaskId, done: anyio.Event) -> list[Digest]:
    """What a caller has who asks for the tail all the time, and gets no answer whenever a connection was cut."""
    parts: list[Digest] = []
    cursor: str | None = None
    while True:
        last = done.is_set()
        try:
            one = await tail(runtime, task, cursor=cursor)
        except Failure:
            await anyio.sleep(0.02)
            continue
        assert one.rewound == ()
        parts += one.events
        cursor = one.cursor
        if last and not one.more:
            return joined(parts)
        await anyio.sleep(0.05)


async def watch_through_cuts(runtime: Runtime, front: Front, workspace: Path, *, cuts: int, every_s: float) -> None:
    work = '[[tool: bash {"command":"sleep 0.1; echo %d","description":"work"}]]'
    prompt = " ".join(work % number for number in range(cuts // 3)) + f" [[slow: {cuts * every_s / 2} a b c d e f g]]"
    request = DelegateRequest(prompt=prompt, cwd=str(workspace), preset="standard")
    task = TaskId((await delegate(runtime, request)).task_id)
    view = await runtime.store.task(task)
    assert view is not None
    done = anyio.Event()
    told: list[Digest] = []
    seen = Seen()

    async def cut() -> None:
        for _ in range(cuts):
            await anyio.sleep(every_s)
            await anyio.to_thread.run_sync(front.become, "forward")

    async def ask() -> None:
        told.extend(await told_in_parts(runtime, task, done))

    conversation = await read_conversation(runtime, view.launch)
    async with anyio.create_task_group() as group, following(runtime, conversation, listener=seen) as live:
        group.start_soon(ask)
        with anyio.fail_after(50):
            async with anyio.create_task_group() as cutting:
                cutting.start_soon(cut)
                while live.now().execution in GOING_ON:
                    with anyio.move_on_after(0.5):
                        await live.changed()
        answer = await wait(runtime, WaitRequest(tasks=(task,)))
        done.set()
    assert answer.execution == "turn_completed"
    assert answer.final_message == "a b c d e f g"

    whole, _ = await whole_tail(runtime, task)
    assert told[: len(whole)] == whole
    state = await runtime.host.session_state(view.launch.session or "")
    assert state is not None
    log, _ = await whole_log(runtime.host, view.launch.session or "", through=state.last_seq)
    events = seen.events[view.launch.session or ""]
    first = events[0].seq
    assert events == list(log[first : first + len(events)])
    assert events[-1].seq >= next(e.seq for e in reversed(log) if type(e).__name__ == "TurnEnded")


async def test_tails_and_a_live_listener_through_cut_connections_equal_the_history(
    through: Runtime, front: Front, workspace: Path
) -> None:
    await watch_through_cuts(through, front, workspace, cuts=12, every_s=0.2)


@pytest.mark.soak
@pytest.mark.timeout(200)
async def test_fifty_cuts_during_one_busy_task(through: Runtime, front: Front, workspace: Path) -> None:
    await watch_through_cuts(through, front, workspace, cuts=50, every_s=0.25)
    print(f"50 cuts, {front.seen.count(b'GET /api/remote.mux')} live connections, tails equal to the history")
