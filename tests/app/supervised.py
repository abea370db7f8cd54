"""What the tests of supervision share: tasks on a real Host, a caller's desk, and a person who uses the same Host."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import msgspec
import pytest

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.results import TaskStatus
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.status import task_status
from agentlink.app.wait import Waited, WaitRequest, wait
from agentlink.core.errors import Failure
from agentlink.core.facts.work import WriteIntended
from agentlink.core.host.timeline import FINISHED
from agentlink.core.host.values import (
    AskedApproval,
    AskedQuestions,
    Attached,
    Event,
    ToolEnded,
    TurnEnded,
    UserMessage,
)
from agentlink.core.ids import TaskId
from agentlink.lab import Lab
from tests.app.requests import log_of

BOUND_S = 20.0
QUESTIONS: list[dict[str, Any]] = [
    {"id": "q1", "question": "Which?", "header": "H", "options": [{"label": "Yes"}, {"label": "No"}]},
    {
        "id": "q2",
        "question": "More?",
        "header": "M",
        "options": [{"label": "A"}, {"label": "B"}, {"label": "C"}],
        "multi_select": True,
    },
    {"id": "q3", "question": "Free?", "header": "F"},
]
"""Field case F13: a single choice, a multiple choice, free text."""


def tool(name: str, **arguments: Any) -> str:
    """The model asks for this tool call."""
    return f"[[tool: {name} {msgspec.json.encode(arguments).decode()}]]"


def asking(questions: Sequence[Mapping[str, Any]] = QUESTIONS) -> str:
    """The agent asks a person, then says fin."""
    return tool("ask_user_question", questions=list(questions)) + " [[say: fin]]"


def escalating(command: str = "echo x > /opt/f") -> str:
    """The agent needs an approval, then says fin."""
    call = tool(
        "bash", command=command, description="d", sandbox_permissions="danger-full-access", justification="need it"
    )
    return call + " [[say: fin]]"


def with_child(prompt: str) -> str:
    """The agent starts a subagent with this prompt and ends its turn; the subagent wakes it when it settles."""
    return tool("subagent", description="c", prompt=prompt) + " [[say: started]]"


async def until(look: Callable[[], Awaitable[Any]], *, bound_s: float = BOUND_S) -> Any:
    """The first true thing that `look` sees."""
    with anyio.fail_after(bound_s):
        while not (found := await look()):
            await anyio.sleep(0.02)
    return found


async def refused(call: Awaitable[Any]) -> Failure:
    """The failure that the call ends with."""
    with pytest.raises(Failure) as caught:
        await call
    return caught.value


class Desk:
    """A caller's place: a runtime with live connections, and tasks that each have a directory of their own."""

    def __init__(self, running: Lab, runtime: Runtime) -> None:
        self.lab = running
        self.runtime = runtime

    async def task(self, prompt: str, *, preset: str | None = "standard", **more: Any) -> TaskId:
        place = self.lab.host.workspace / f"w-{secrets.token_hex(4)}"
        place.mkdir()
        asked = DelegateRequest(prompt=prompt, cwd=str(place), preset=preset, **more)
        return TaskId((await delegate(self.runtime, asked)).task_id)

    async def wait(self, *tasks: TaskId, timeout_s: float = BOUND_S, **more: Any) -> Waited:
        return await wait(self.runtime, WaitRequest(tasks=tasks, timeout_s=timeout_s, **more))

    async def status(self, task: TaskId) -> TaskStatus:
        return await task_status(self.runtime, task)

    async def at(self, task: TaskId, *executions: str) -> TaskStatus:
        """The status once the task has come to one of these states."""

        async def look() -> TaskStatus | None:
            status = await self.status(task)
            return status if status.execution in executions else None

        found: TaskStatus = await until(look)
        return found

    async def done(self, task: TaskId) -> TaskStatus:
        return await self.at(task, *FINISHED)

    async def session(self, task: TaskId) -> str:
        view = await self.runtime.store.task(task)
        assert view is not None
        assert view.launch.session is not None
        return view.launch.session

    async def log(self, task: TaskId) -> tuple[Event, ...]:
        return await log_of(self.runtime, await self.session(task))

    async def messages(self, task: TaskId) -> list[tuple[str | None, str]]:
        """Request id and text of each message of a client that reached the model, in order."""
        return [(e.request, e.text) for e in await self.log(task) if isinstance(e, UserMessage) and e.by_person]

    async def tool_results(self, task: TaskId) -> list[str]:
        return [event.text for event in await self.log(task) if isinstance(event, ToolEnded)]

    async def turn_ends(self, task: TaskId) -> list[str]:
        return [event.kind for event in await self.log(task) if isinstance(event, TurnEnded)]

    async def intents(self, task: TaskId) -> list[WriteIntended]:
        """Every write to the task's session that was intended, in order."""
        lines = await self.runtime.store.history(task)
        return [fact for line in lines for fact in line.facts if isinstance(fact, WriteIntended)]


@asynccontextmanager
async def desk_at(running: Lab, environment: Mapping[str, str], *, behind_calls: bool = True) -> AsyncIterator[Desk]:
    """A desk; with `behind_calls` one live connection serves all calls, as in a server, else each has its own."""
    runtime = open_runtime(environment)
    try:
        async with anyio.create_task_group() as group:
            if behind_calls:
                runtime.to_the_end.group = group
            yield Desk(running, runtime)
            group.cancel_scope.cancel()
    finally:
        await runtime.aclose()


class Person:
    """Somebody who uses the Host's own page: a client that is not Agentlink's caller, on the same sessions."""

    def __init__(self, runtime: Runtime) -> None:
        self.host = runtime.host
        self._number = 0

    async def says(self, session: str, prompt: str, *, mode: Literal["queue", "steer"] = "queue") -> None:
        self._number += 1
        await self.host.send_prompt(session, request=f"person-{self._number}", prompt=prompt, mode=mode)

    async def selects(self, session: str, model: str) -> None:
        """Chooses the session's model, which the Host then takes as its default too: choose back afterwards."""
        args = {"request": {"sessionId": session, "provider": "deepseek-official", "model": model}}
        await self.host._read("session/selectModel", args)  # type: ignore[attr-defined]

    async def answers(self, session: str, value: object, *, after: Callable[[], Awaitable[None]] | None = None) -> None:
        """Answers what the agent of this session asks, as soon as it is offered (and `after` returned)."""
        link = self.host.link()
        async with anyio.create_task_group() as group:
            group.start_soon(link.run)
            with anyio.fail_after(BOUND_S):
                async with link.offers() as feed:
                    client, key = "", ""
                    while not key:
                        match await feed.next():
                            case Attached(client=client):
                                pass
                            case (
                                AskedApproval(session=found, key=offered) | AskedQuestions(session=found, key=offered)
                            ) if found == session:
                                key = offered
                            case _:
                                pass
                    if after is not None:
                        await after()
                    await self.host.answer_offer(client, key, value)
            group.cancel_scope.cancel()


@asynccontextmanager
async def person_at(running: Lab, environment: Mapping[str, str]) -> AsyncIterator[Person]:
    """A person at the same Host, with a login of their own."""
    own = {**environment, "AGENTLINK_HOME": f"{environment['AGENTLINK_HOME']}-person"}
    runtime = open_runtime({**own, "AGENTLINK_HOST_URL": running.host.launch_url})
    try:
        yield Person(runtime)
    finally:
        await runtime.aclose()
