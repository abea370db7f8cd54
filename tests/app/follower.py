"""A process that sends follow-ups on command: `python -m tests.app.follower [MOMENT]`, one JSON order a line.

An order is `{"task", "prompt", "mode", "key"}`; the answer is one line, `[code or "ok", request id or null]`. With a
MOMENT (see `tests.app.child`) it kills itself there.
"""

import sys

import anyio
import anyio.to_thread
import msgspec

from agentlink.app.followup import FollowUp, Mode, follow_up
from agentlink.app.runtime import open_runtime
from agentlink.core.errors import Failure
from agentlink.core.ids import TaskId
from tests.app.child import arm


class Order(msgspec.Struct):
    task: str
    prompt: str
    mode: Mode = "queue"
    key: str | None = None


async def main(moment: str = "none") -> None:
    arm(moment)
    runtime = open_runtime()
    print("ready", flush=True)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        order = msgspec.json.decode(line, type=Order)
        asked = FollowUp(prompt=order.prompt, mode=order.mode, request_key=order.key)
        answer: list[str | None]
        try:
            answer = ["ok", (await follow_up(runtime, TaskId(order.task), asked)).request_id]
        except Failure as failure:
            answer = [failure.code.value, None]
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
