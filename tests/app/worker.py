"""A process that delegates on command, many times at once: `python -m tests.app.worker`, one JSON request a line.

A request is `{"cwd", "prompt", "preset", "claim", "key", "times"}`; the answer is one line, a list of
`[code or "ok", task or null, session or null]`.
"""

import sys

import anyio
import anyio.to_thread
import msgspec

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.release import release_workspace
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.core.errors import Failure
from agentlink.core.facts.launch import ClaimMode
from agentlink.core.ids import TaskId


class Order(msgspec.Struct):
    cwd: str
    prompt: str
    preset: str | None = "minimal"
    claim: ClaimMode = "exclusive-write"
    key: str | None = None
    times: int = 1
    release: bool = False


async def one(runtime: Runtime, order: Order) -> list[str | None]:
    request = DelegateRequest(
        prompt=order.prompt, cwd=order.cwd, preset=order.preset, claim=order.claim, request_key=order.key
    )
    try:
        answer = await delegate(runtime, request)
        if order.release:
            await release_workspace(runtime, TaskId(answer.task_id), force=True)
    except Failure as failure:
        return [failure.code.value, failure.task, failure.session]
    return ["ok", answer.task_id, answer.session_id]


async def main() -> None:
    runtime = open_runtime()
    print("ready", flush=True)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        order = msgspec.json.decode(line, type=Order)
        results: list[list[str | None]] = []

        async def run(order: Order = order, results: list[list[str | None]] = results) -> None:
            results.append(await one(runtime, order))

        async with anyio.create_task_group() as group:
            for _ in range(order.times):
                group.start_soon(run)
        print(msgspec.json.encode(results).decode(), flush=True)


if __name__ == "__main__":
    anyio.run(main)
