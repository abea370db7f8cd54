"""Delegate one task with the Python API, wait until it is done or needs a person, print what the agent said.

python examples/delegate_and_wait.py DIRECTORY PROMPT [PRESET]

Host, login and state home are those of the `agentlink` command (see docs/reference/settings.md).
Exit status: 0 the turn completed, 1 the delegation failed, 3 the turn ended otherwise or still waits for a person.
"""

import sys

import anyio

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.wait import Waited, WaitRequest, wait
from agentlink.core.errors import Failure
from agentlink.core.ids import TaskId


async def wait_to_the_end(runtime: Runtime, task: TaskId) -> Waited:
    """How it ended. One wait lasts 45 seconds at most, so it is repeated for as long as it only ran out of time."""
    while True:
        waited = await wait(runtime, WaitRequest(tasks=(task,)))
        if not waited.timed_out:
            return waited


async def work(directory: str, prompt: str, preset: str | None) -> int:
    runtime = open_runtime()
    try:
        answer = await delegate(runtime, DelegateRequest(prompt=prompt, cwd=directory, preset=preset))
        print(f"{answer.task_id}: preset {answer.routing.resolved_preset}, {answer.launch.stage}", file=sys.stderr)
        ended = await wait_to_the_end(runtime, TaskId(answer.task_id))
    except Failure as failure:
        print(f"{failure.code}: {failure.message}\nnext: {failure.next_step}", file=sys.stderr)
        return 1
    finally:
        await runtime.aclose()
    print(ended.final_message or f"no final message: {ended.execution}")
    return 0 if ended.execution == "turn_completed" else 3


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(anyio.run(work, sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else None))
