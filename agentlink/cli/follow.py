"""Following one task to the end of its turn, by a bounded read of its exact state a few times a second."""

from collections.abc import Callable

import anyio

from agentlink.app.results import TaskStatus
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.host.timeline import Execution
from agentlink.core.ids import TaskId

POLL_S = 0.25
_HOPELESS = frozenset({"session_not_found", "host_changed", "login_required", "host_unsupported"})
"""What waiting alone does not mend."""
_GOING_ON: frozenset[Execution] = frozenset({"not_started", "unknown", "running", "queued"})


async def follow(runtime: Runtime, task: str, *, say: Callable[[str], None] | None) -> TaskStatus:
    """The task's status once its turn has ended, a person is needed, or its launch failed. Raises Failure.

    A Host that cannot be reached is waited for: the task may run on there. Interrupting ends the wait, not the task.
    """
    shown = ""
    while True:
        status = await task_status(runtime, TaskId(task))
        line = status.execution if status.availability == "connected" else f"Host: {status.availability}"
        if say is not None and line != shown:
            say(line)
            shown = line
        settled = status.launch.confirmed or status.launch.stage == "launch-failed"
        if settled and (status.execution not in _GOING_ON or _cannot_go_on(status)):
            return status
        await anyio.sleep(POLL_S)


def _cannot_go_on(status: TaskStatus) -> bool:
    return status.launch.stage == "launch-failed" or status.availability in _HOPELESS
