"""A Host as lists of events, with the paging of a real one, and a journal that holds one task."""

from typing import Any

from agentlink.app.runtime import Runtime
from agentlink.core.host.faults import BadReply, Refused
from agentlink.core.host.values import (
    AssistantMessage,
    ChildRef,
    Event,
    OtherEvent,
    Page,
    SessionState,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch

TASK = TaskId("dsh_0123456789ab")
ORIGIN = "http://127.0.0.1:3080"


class ScriptedHost:
    """Sessions as lists of events, with the paging of a real Host; counts what is asked of it."""

    origin = ORIGIN
    binding = "login-1"

    def __init__(self, **logs: list[Event]) -> None:
        self.logs = logs
        self.children: dict[str, tuple[ChildRef, ...]] = {}
        self.calls = 0
        self.asked: set[str] = set()
        self.events_read = 0
        self.too_large = 1 << 30
        self.fault: Exception | None = None

    async def session_state(self, session: str) -> SessionState | None:
        self._count()
        self.asked.add(session)
        if session not in self.logs:
            return None
        last = len(self.logs[session]) - 1
        return SessionState(
            last_seq=last, preset=None, model=None, waiting=(), blank=False, children=self.children.get(session, ())
        )

    async def page(
        self, session: str, *, through: int, before: int | None = None, messages: int, parent: str | None = None
    ) -> Page:
        self._count()
        log = self.logs[session]
        assert (parent is None) == (session == "root")
        if through >= len(log):
            raise Refused("gateway/bad-request", "past cursor", kind="other")
        end = start = through + 1 if before is None else before
        while start > 0 and messages > 0:
            start -= 1
            messages -= isinstance(log[start], UserMessage | AssistantMessage)
        if sum(len(getattr(event, "text", "")) for event in log[start:end]) > self.too_large:
            raise BadReply("the answer is too large")
        self.events_read += end - start
        return Page(tuple(log[start:end]), start > 0, None)

    def _count(self) -> None:
        self.calls += 1
        if self.fault is not None:
            raise self.fault


class OneTask:
    """A journal that holds one task."""

    def __init__(self, launch: Launch) -> None:
        self._view = TaskView(TASK, launch, 1)

    async def task(self, task: str) -> TaskView | None:
        return self._view if task == TASK else None

    async def sibling_sessions(self, **_: Any) -> tuple[str, ...]:
        return ()


PROMPTED = Launch(state=machine.PROMPT_SENT, session="root", origin=ORIGIN, binding="login-1")


def runtime_over(host: Any, launch: Launch = PROMPTED) -> Runtime:
    return Runtime(store=OneTask(launch), host=host, secret=lambda: b"s" * 32)  # type: ignore[arg-type]


def turns(count: int, *, text: str = "said", steps: int = 1, first: int = 1, at_ms: int = 0) -> list[Event]:
    """A log of that many turns, in the density of a real one."""
    log: list[Event] = []

    def add(kind: type[Any], /, **fields: Any) -> None:
        log.append(kind(seq=len(log), time_ms=at_ms + 300 * len(log), **fields))

    for turn in range(first, first + count):
        add(TurnStarted, turn=turn)
        add(UserMessage, request=f"{TASK}.1.{turn}", by_person=True, text=f"do {turn}")
        for _ in range(steps):
            add(OtherEvent, type="step/start")
            add(OtherEvent, type="request/header")
            add(AssistantMessage, text=text, calls_tools=False)
            add(ToolEnded, call="c", text=text)
            add(OtherEvent, type="step/end")
        add(TurnEnded, turn=turn, kind="completed")
    return log
