"""A task's conversation in bounded replies, from real Hosts: subagents, long messages, and Hosts that were killed."""

import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.to_thread import run_sync

from agentlink.app.delegate import delegate
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.tail import Tailed, tail
from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import TurnStarted
from agentlink.core.ids import RequestId, TaskId
from agentlink.core.supervision.cursor import anchor_of, decode
from agentlink.core.supervision.digest import Digest
from agentlink.lab import Lab
from tests.app.requests import asked, log_of
from tests.app.tails import read_whole, whole_tail
from tests.core.supervision.test_tail import joined

pytestmark = pytest.mark.host


async def _until_quiet(runtime: Runtime, task: TaskId, turns: int) -> list[Digest]:
    """The whole tail, once so many turns of the root session have ended."""
    with anyio.fail_after(40):
        while True:
            told, _ = await whole_tail(runtime, task)
            if sum(part.kind == "turn_ended" and part.session is None for part in told) >= turns:
                return told
            await anyio.sleep(0.05)


_ECHO = '[[tool: bash {"command":"echo kid","description":"d"}]]'
_KID = msgspec.json.encode({"description": "kid", "prompt": f"child {_ECHO} [[say: kid done]]"}).decode()
_WORK = '[[tool: bash {"command":"seq 2000","description":"count"}]]'


async def test_a_real_tasks_tail_with_a_subagent_is_whole_in_small_parts_and_over_a_restart_of_ours(
    workspace: Path, new_runtime: Callable[[], Runtime]
) -> None:
    runtime = new_runtime()
    prompt = f"work {_WORK} [[tool: subagent {_KID}]] [[say: started]]"
    task = TaskId((await delegate(runtime, asked(workspace, prompt, preset="standard"))).task_id)
    whole = await _until_quiet(runtime, task, 2)
    kinds = [(part.session is None, part.kind, part.sender) for part in whole]
    for expected in (
        (True, "message", "agentlink"),
        (True, "tool_called", None),
        (True, "subagent_started", None),
        (False, "message", "parent"),
        (False, "answer", None),
        (True, "message", "subagent"),
    ):
        assert expected in kinds
    assert [part.sender for part in whole].count("host") == 0
    cursor, parts = None, list[Digest]()
    while True:
        other = new_runtime()
        one = await tail(other, task, cursor=cursor, max_bytes=1_000)
        assert len(msgspec.json.encode(one)) <= 1_100
        cursor, parts = one.cursor, [*parts, *one.events]
        if not one.more:
            break
    assert joined(parts) == whole
    count = next(part for part in whole if part.kind == "tool_ended")
    if count.size is not None:  # where the Host has no sandbox the tool fails with a short text
        text, _ = await read_whole(runtime, task, count.id, max_bytes=1_000)
        assert text.startswith(count.text)
        assert len(text) == count.size


async def test_a_message_of_four_hundred_kilobytes_comes_back_unchanged(workspace: Path, runtime: Runtime) -> None:
    text = "".join(f'line {number}: grüße 世界 😀 \\ "q" \t\n' for number in range(12_000)).strip()
    assert len(text.encode()) > 400_000
    prompt = f"[[say: {text}]]"
    task = TaskId((await delegate(runtime, asked(workspace, prompt))).task_id)
    await _until_quiet(runtime, task, 1)
    told, replies = await whole_tail(runtime, task, max_bytes=40_000)
    assert next(part.text for part in told if part.kind == "message") == prompt
    answer = next(part for part in told if part.kind == "answer")
    assert answer.text == text
    assert len(replies) > 20
    assert all(len(msgspec.json.encode(reply)) <= 40_000 for reply in replies)
    read, _ = await read_whole(runtime, task, answer.id, max_bytes=100_000)
    assert read == text


@pytest.fixture
async def own_runtime(own_lab: Lab, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = open_runtime({"AGENTLINK_HOME": str(tmp_path / "home"), "AGENTLINK_HOST_URL": own_lab.host.launch_url})
    yield runtime
    await runtime.aclose()


async def _begun(running: Lab, runtime: Runtime) -> tuple[TaskId, str]:
    directory = running.host.workspace / f"w-{secrets.token_hex(4)}"
    directory.mkdir()
    answer = await delegate(runtime, asked(directory, "warm"))
    await _until_quiet(runtime, TaskId(answer.task_id), 1)
    return TaskId(answer.task_id), answer.session_id or ""


async def _mid_turn(runtime: Runtime, task: TaskId, session: str, *, tools: int) -> str:
    """A cursor in the middle of a turn that runs many tools and then waits for its model."""
    steps = " ".join('[[tool: bash {"command":"true","description":"d"}]]' for _ in range(60))
    request = RequestId(f"{task}.1.1")
    await runtime.host.send_prompt(session, request=request, prompt=f"go {steps} [[hang: on]]")
    with anyio.fail_after(20):
        while True:
            told, replies = await whole_tail(runtime, task)
            if sum(part.kind == "tool_ended" for part in told) >= tools:
                return replies[-1].cursor
            await anyio.sleep(0.02)


async def _answered(runtime: Runtime, task: TaskId, session: str, cursor: str, *, request: str) -> list[Tailed]:
    """The replies after the cursor, once the session has answered another prompt."""
    await runtime.host.send_prompt(session, request=RequestId(request), prompt="again [[say: ok]]")
    with anyio.fail_after(20):
        while True:
            news, replies = await whole_tail(runtime, task, cursor=cursor)
            if news and news[-1].outcome == "completed":
                return replies
            await anyio.sleep(0.05)


def _from(told: list[Digest], seq: int) -> list[Digest]:
    return [part for part in told if int(part.id.split(":")[1]) >= seq]


@pytest.mark.soak
async def test_after_a_kill_the_tail_goes_on_and_is_rewound_only_if_something_was_lost(
    own_lab: Lab, own_runtime: Runtime
) -> None:
    runtime = own_runtime
    task, session = await _begun(own_lab, runtime)
    cursor = await _mid_turn(runtime, task, session, tools=20)
    await run_sync(own_lab.host.kill)
    assert (await _refusal(runtime, task, cursor)).code is Code.HOST_UNREACHABLE
    await run_sync(own_lab.host.restart)
    after = await tail(runtime, task, cursor=cursor, max_bytes=1_000_000)
    log, mark = await log_of(runtime, session), decode(cursor, task=task).root
    lost = mark.seq >= len(log) or anchor_of(log[mark.seq]) != mark.anchor
    assert bool(after.rewound) == lost
    start = after.rewound[0].from_seq if lost else mark.seq + 1
    told, _ = await whole_tail(runtime, task)
    assert list(after.events) == _from(told, start)
    assert [part.outcome for part in told if part.kind == "turn_ended"] == ["completed", "interrupted"]
    # The closing events, which are on no disk yet, keep their times: over reads, over a further restart, and when a
    # prompt loads the session and they are written.
    await run_sync(own_lab.host.restart)
    still = await tail(runtime, task, cursor=after.cursor)
    assert (still.events, still.rewound) == ((), ())
    more = await _answered(runtime, task, session, after.cursor, request=f"{task}.2.0")
    assert [reply.rewound for reply in more] == [()] * len(more)


async def test_a_host_whose_disk_kept_less_than_was_told_tells_it_anew_from_a_turn(
    own_lab: Lab, own_runtime: Runtime
) -> None:
    runtime = own_runtime
    task, session = await _begun(own_lab, runtime)
    await anyio.sleep(1.0)  # what the Host batches is on disk
    file = next(own_lab.host.home.glob(f"sessions/*/{session}/session.*"))
    kept = file.read_bytes()
    short = await log_of(runtime, session)
    cursor = await _mid_turn(runtime, task, session, tools=20)
    await run_sync(own_lab.host.kill)
    file.write_bytes(kept)
    await run_sync(own_lab.host.restart)
    assert await log_of(runtime, session) == short
    after = await tail(runtime, task, cursor=cursor)
    assert [reply.session for reply in after.rewound] == [None]
    assert after.rewound[0].from_seq == next(event.seq for event in short if isinstance(event, TurnStarted))
    assert [part.kind for part in after.events] == ["turn_started", "message", "answer", "turn_ended"]
    # Another turn grows over the place where the old cursor stands: everything new is told, to old and new cursors.
    more = await _answered(runtime, task, session, after.cursor, request=f"{task}.2.0")
    assert [reply.rewound for reply in more] == [()] * len(more)
    told, _ = await whole_tail(runtime, task)
    again = await tail(runtime, task, cursor=cursor)
    assert list(again.events) == _from(told, again.rewound[0].from_seq)
    assert again.rewound[0].from_seq == after.rewound[0].from_seq


async def _refusal(runtime: Runtime, task: TaskId, cursor: str) -> Failure:
    with pytest.raises(Failure) as caught:
        await tail(runtime, task, cursor=cursor)
    return caught.value
