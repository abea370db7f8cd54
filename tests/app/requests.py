"""Short ways to ask for things in tests of the use cases."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread

from agentlink.app.delegate import DelegateRequest
from agentlink.app.read_log import whole_log
from agentlink.app.results import TaskStatus
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.host.values import Event, UserMessage
from agentlink.core.ids import TaskId
from agentlink.lab import Lab


def asked(workspace: Path, prompt: str = "do it", **more: Any) -> DelegateRequest:
    return DelegateRequest(prompt=prompt, cwd=str(workspace), preset=more.pop("preset", "minimal"), **more)


async def log_of(runtime: Runtime, session: str) -> tuple[Event, ...]:
    state = await runtime.host.session_state(session)
    if state is None:
        return ()
    events, _ = await whole_log(runtime.host, session, through=state.last_seq)
    return events


async def prompts_in(runtime: Runtime, session: str) -> list[str | None]:
    """The client requests whose message reached the model, in order."""
    return [
        event.request for event in await log_of(runtime, session) if isinstance(event, UserMessage) and event.by_person
    ]


async def prompts_once_run(runtime: Runtime, session: str, count: int = 1) -> list[str | None]:
    """The same, once at least `count` have reached the model; whatever is there after 10 s."""
    found: list[str | None] = []
    with anyio.move_on_after(10):
        while len(found := await prompts_in(runtime, session)) < count:
            await anyio.sleep(0.05)
    return found


async def model_ran(running: Lab, prompt: str, times: int = 1) -> bool:
    """Whether the model was asked for this prompt exactly `times` times, once the Host has got round to it."""
    with anyio.move_on_after(10):
        while await to_thread.run_sync(running.model.runs, prompt) < times:
            await anyio.sleep(0.05)
    return await to_thread.run_sync(running.model.runs, prompt) == times


async def status_of(runtime: Runtime, task: str) -> TaskStatus:
    return await task_status(runtime, TaskId(task))


def as_json(value: Any) -> Any:
    return msgspec.to_builtins(value)
