"""Delegate one task with the Python API, follow it to the end of its turn, print what the agent said.

python examples/delegate_and_wait.py DIRECTORY PROMPT [PRESET]

Host, login and state home are those of the `agentlink` command (see docs/reference/settings.md).
Exit status: 0 the turn completed, 1 the delegation failed, 3 the turn ended otherwise or still waits for a person.
"""

import sys

import anyio

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.results import TaskStatus
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.status import task_status
from agentlink.core.errors import Failure
from agentlink.core.ids import TaskId

POLL_S = 0.25
LIMIT_S = 600.0
GOING_ON = ("not_started", "queued", "running", "unknown")


async def wait_for_turn(runtime: Runtime, task: TaskId) -> TaskStatus:
    """The status once nothing goes on by itself any more, or as it is after LIMIT_S seconds."""
    with anyio.move_on_after(LIMIT_S):
        while True:
            status = await task_status(runtime, task)
            failed = status.launch.stage == "launch-failed"
            if failed or (status.launch.confirmed and status.execution not in GOING_ON):
                return status
            await anyio.sleep(POLL_S)
    return await task_status(runtime, task)


async def work(directory: str, prompt: str, preset: str | None) -> int:
    runtime = open_runtime()
    try:
        answer = await delegate(runtime, DelegateRequest(prompt=prompt, cwd=directory, preset=preset))
        print(f"{answer.task_id}: preset {answer.routing.resolved_preset}, {answer.launch.stage}", file=sys.stderr)
        status = await wait_for_turn(runtime, TaskId(answer.task_id))
    except Failure as failure:
        print(f"{failure.code}: {failure.message}\nnext: {failure.next_step}", file=sys.stderr)
        return 1
    finally:
        await runtime.aclose()
    print(status.final_message or f"no final message: {status.execution}")
    return 0 if status.execution == "turn_completed" else 3


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(anyio.run(work, sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else None))
