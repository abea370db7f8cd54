"""A deterministic simulator of one Host on a virtual clock, with the measured traps of the "remote" wire.

It keeps, per session, a log of neutral events of which a prefix is on disk: writes are batched for 200 ms, and a
killed Host loses the rest. The contract suite in `tests/contract` holds it to the real Host.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from agentlink.app.runtime import Clock
from agentlink.core.host.faults import Refused, Unreachable
from agentlink.core.host.find_prompt import InboxFold
from agentlink.core.host.values import (
    AssistantMessage,
    ChildRef,
    CreatedSession,
    Event,
    InboxSpliced,
    ModelCatalog,
    ModelChoice,
    OtherEvent,
    Page,
    Preset,
    QueuedItem,
    SessionState,
    SubagentStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

FLUSH_S = 0.2
CALL_S = 0.004
EPOCH_MS = 1_800_000_000_000


class SimClock(Clock):
    """Virtual time: sleeping advances it at once and runs whatever was due meanwhile."""

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def now(self) -> float:
        return self._now

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._now + seconds, next(self._order), action))

    def advance(self, seconds: float) -> None:
        end = self._now + seconds
        while self._due and self._due[0][0] <= end:
            self._now, _, action = heapq.heappop(self._due)
            action()
        self._now = end

    async def sleep(self, seconds: float) -> None:
        self.advance(max(seconds, 0.001))


class Session:
    """One session: its log, how much of it is on disk, and the agent that works on it."""

    def __init__(self, cwd: str, preset: str) -> None:
        self.cwd = cwd
        self.preset_at_disk = self.preset = preset
        self.log: list[Event] = []
        self.on_disk = 0
        self.awake = False
        self.working = False
        self.turn = 0
        self.parent: str | None = None
        self.children: list[ChildRef] = []

    def waiting(self) -> list[str | None]:
        inbox, listed = InboxFold(), []
        for event in self.log:
            if isinstance(event, InboxSpliced):
                inbox.splice(event)
        for entries in inbox._lists.values():
            listed += entries
        return listed

    def has_turns(self) -> bool:
        return any(isinstance(event, TurnStarted) for event in self.log)

    def delivered(self) -> set[str | None]:
        return {event.request for event in self.log if isinstance(event, UserMessage)}


class SimHost:
    """The Host's own behaviour, by direct calls; `SimLink` is what a client sees of it."""

    def __init__(self, clock: SimClock, *, pickup_s: float = 0.001, message_s: float = 0.05) -> None:
        self.clock = clock
        self.up = True
        self.life = 0
        self.sessions: dict[str, Session] = {}
        self.presets = {"standard": None, "minimal": None, "team": None, "broken-one": "never started"}
        self.routable: tuple[str, ...] = ("provider",)
        self.runs: dict[str | None, int] = {}
        """How often each request reached the model: the ghost that the invariants look at."""
        self._pickup_s = pickup_s
        self._message_s = message_s

    # -- the log

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.clock.now() * 1000)

    def write(self, session: Session, event_type: type[Any], /, **fields: Any) -> None:
        if len(session.log) == session.on_disk:
            self._later(FLUSH_S, lambda: self.flush(session))
        session.log.append(event_type(seq=len(session.log), time_ms=self.now_ms(), **fields))

    def flush(self, session: Session) -> None:
        session.on_disk, session.preset_at_disk = len(session.log), session.preset

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        life = self.life
        self.clock.at(seconds, lambda: action() if self.up and self.life == life else None)

    # -- life and death

    def kill(self) -> None:
        """SIGKILL: what was not flushed is gone; a claimed prompt is closed when read; waiting ones stay parked."""
        self.up = False
        for name, session in list(self.sessions.items()):
            if session.on_disk == 0:
                del self.sessions[name]
                continue
            del session.log[session.on_disk :]
            session.preset = session.preset_at_disk
            session.awake = session.working = False

    def terminate(self) -> None:
        """SIGTERM: everything is flushed, waiting prompts are discarded."""
        for session in self.sessions.values():
            waiting = session.waiting()
            if waiting:
                self._splice(session, removed=len(waiting), canceled=True)
            self._close_turn(session)
            self.flush(session)
            session.awake = session.working = False
        self.up = False

    def restart(self) -> None:
        self.life += 1
        self.up = True
        for session in self.sessions.values():
            self._close_turn(session)

    def _close_turn(self, session: Session) -> None:
        turns = [event for event in session.log if isinstance(event, TurnStarted | TurnEnded)]
        if turns and isinstance(turns[-1], TurnStarted):
            self.write(session, TurnEnded, turn=turns[-1].turn, kind="interrupted")

    # -- calls

    def create(self, name: str, cwd: str, preset: str | None) -> CreatedSession:
        if preset is not None and preset not in self.presets:
            details = {"agentPreset": preset, "available": list(self.presets)}
            raise Refused("agent-preset/not-found", f"unknown {preset}", kind="preset_not_found", details=details)
        if preset is not None and self.presets[preset] is not None:
            details = {"agentPreset": preset, "reason": self.presets[preset]}
            raise Refused("agent-preset/invalid", "invalid", kind="preset_broken", details=details)
        session = self.sessions.get(name)
        if session is not None and session.cwd != cwd:
            raise Refused("session/conflict", "other cwd", kind="other")
        if session is not None and session.has_turns():
            return self.create(f"{name}-other", cwd, preset)
        if session is None:
            session = self.sessions[name] = Session(cwd, preset or "standard")
            self.write(session, OtherEvent, type="permission/preset")
        else:
            session.preset = preset or "standard"
        return CreatedSession(name, session.preset)

    def spawn(self, parent: str, name: str, *, label: str = "") -> Session:
        """A subagent of that session, with nothing in its log yet."""
        above = self.sessions[parent]
        child = self.sessions[name] = Session(above.cwd, above.preset)
        child.parent = parent
        above.children.append(ChildRef(name, label, "continuable", self.now_ms()))
        self.write(child, OtherEvent, type="subagent/descriptor")
        self.write(above, SubagentStarted, child=above.children[-1])
        return child

    def select(self, name: str, preset: str) -> None:
        """What a person does in the Host's page."""
        session = self.sessions[name]
        session.preset = preset
        self.write(session, OtherEvent, type="agent-preset/selected")

    def state(self, name: str) -> SessionState | None:
        session = self.sessions.get(name)
        if session is None:
            return None
        return SessionState(
            last_seq=len(session.log) - 1,
            preset=session.preset,
            model=None,
            waiting=tuple(session.waiting()),
            next_turn=tuple(QueuedItem(str(request), request) for request in session.waiting()),
            blank=not session.has_turns(),
            children=tuple(session.children),
        )

    def prompt(self, name: str, request: str | None) -> None:
        session = self.sessions.get(name)
        if session is None:
            raise Refused("session/not-found", "no such session", kind="session_not_found")
        session.awake = True
        if request is None or (request not in session.waiting() and request not in session.delivered()):
            self._splice(session, inserted=(request,))
        self._later(self._pickup_s, lambda: self._work(session))

    def remove_waiting(self, name: str) -> None:
        session = self.sessions[name]
        if session.waiting():
            self._splice(session, removed=1, canceled=True)

    def remove_item(self, name: str, item: str) -> None:
        session = self.sessions[name]
        waiting = [str(request) for request in session.waiting()]
        if item not in waiting:
            raise Refused("session/queue-item-not-found", "no longer pending", kind="not_queued")
        self._splice(session, removed=1, canceled=True, at=waiting.index(item))

    def cancel(self, name: str) -> None:
        """The running turn ends aborted; what waits stays until another prompt comes."""
        session = self.sessions.get(name)
        if session is None:
            raise Refused("session/not-found", "no such session", kind="session_not_found")
        if session.working:
            session.working = session.awake = False
            self.write(session, TurnEnded, turn=session.turn, kind="aborted")

    def running(self) -> dict[str, bool]:
        return {
            name: session.working or (session.awake and bool(session.waiting()))
            for name, session in self.sessions.items()
        }

    def _splice(
        self,
        session: Session,
        *,
        removed: int = 0,
        inserted: tuple[str | None, ...] = (),
        canceled: bool = False,
        at: int = 0,
    ) -> None:
        start = len(session.waiting()) if inserted else at
        self.write(
            session,
            InboxSpliced,
            target="next-turn",
            start=start,
            removed=removed,
            inserted=inserted,
            canceled=canceled,
            items=tuple(str(request) for request in inserted),
        )

    def _work(self, session: Session) -> None:
        """The agent takes the next waiting prompt, one turn for each."""
        if session.working or not session.awake or not session.waiting():
            return
        session.working = True
        turn = session.turn = sum(isinstance(event, TurnStarted) for event in session.log) + 1
        request = session.waiting()[0]
        self.write(session, TurnStarted, turn=turn)
        self._splice(session, removed=1)
        self._later(self._message_s, lambda: self._message(session, turn, request))

    def _message(self, session: Session, turn: int, request: str | None) -> None:
        if not session.working or session.turn != turn:
            return
        self.write(session, UserMessage, request=request, by_person=True)
        self.flush(session)
        self.runs[request] = self.runs.get(request, 0) + 1
        self._later(0.1, lambda: self._answer(session, turn))

    def _answer(self, session: Session, turn: int) -> None:
        if not session.working or session.turn != turn:
            return
        self.write(session, AssistantMessage, text="done", calls_tools=False)
        self.write(session, TurnEnded, turn=turn, kind="completed")
        session.working = False
        self._work(session)

    def page(self, name: str, *, through: int, before: int | None, messages: int, parent: str | None = None) -> Page:
        session = self.sessions.get(name)
        if session is None:
            raise Refused("session/not-found", "no such session", kind="session_not_found")
        if session.parent != parent:
            code = "session/agent-busy" if parent is None else "subagent/unauthorized"
            raise Refused(code, "a subagent is reached through its parent", kind="other")
        if through >= len(session.log):
            raise Refused("gateway/bad-request", "past cursor", kind="other")
        end = through + 1 if before is None else min(before, through + 1)
        start, left = end, messages
        while start > 0 and left > 0:
            start -= 1
            left -= isinstance(session.log[start], UserMessage | AssistantMessage)
        return Page(tuple(session.log[start:end]), start > 0, self.now_ms() // 1000 * 1000)


class SimLink:
    """The Host port over a simulated Host; `binding` is the login it came with."""

    label = "default"
    origin = "http://127.0.0.1:3080"
    wire = "remote"
    reports_presets = True

    def __init__(self, host: SimHost, *, binding: str | None = "login-1") -> None:
        self.host = host
        self.binding = binding

    async def call(self, name: str, action: Callable[[], Any]) -> Any:
        """One exchange. Subclasses lose, delay or kill here."""
        self.host.clock.advance(CALL_S)
        if not self.host.up:
            raise Unreachable(f"{name}: connection refused")
        return action()

    async def connect(self) -> None:
        await self.call("connect", lambda: None)

    async def ready(self) -> None:
        return

    async def roster(self) -> tuple[Preset, ...]:
        return await self.call(
            "roster",
            lambda: tuple(Preset(name, name == "standard", broken) for name, broken in self.host.presets.items()),
        )

    async def create_session(self, session: str, *, cwd: str, preset: str | None) -> CreatedSession:
        return await self.call("create_session", lambda: self.host.create(session, cwd, preset))

    async def session_state(self, session: str) -> SessionState | None:
        return await self.call("session_state", lambda: self.host.state(session))

    async def model_catalog(self) -> ModelCatalog:
        return await self.call(
            "model_catalog", lambda: ModelCatalog(ModelChoice("provider", "model"), self.host.routable)
        )

    async def send_prompt(
        self,
        session: str,
        *,
        request: str,
        prompt: str,  # noqa: ARG002  the port's
        mode: str = "queue",  # noqa: ARG002  the port's
    ) -> None:
        await self.call("send_prompt", lambda: self.host.prompt(session, request))

    async def rename(self, session: str, title: str) -> None:  # noqa: ARG002  the port's
        await self.call("rename", lambda: None)

    async def page(
        self,
        session: str,
        *,
        through: int,
        before: int | None = None,
        messages: int,
        whole_turn: bool = False,  # noqa: ARG002  the port's
        parent: str | None = None,
    ) -> Page:
        return await self.call(
            "page",
            lambda: self.host.page(session, through=through, before=before, messages=messages, parent=parent),
        )

    async def cancel_turn(self, session: str) -> None:
        await self.call("cancel_turn", lambda: self.host.cancel(session))

    async def remove_queued(self, session: str, item: str) -> None:
        await self.call("remove_queued", lambda: self.host.remove_item(session, item))

    async def running(self) -> dict[str, bool]:
        return await self.call("running", self.host.running)

    async def aclose(self) -> None:
        return


def summary(host: SimHost) -> Any:
    """What a Host holds, for messages of failed checks."""
    return {name: [msgspec.to_builtins(event) for event in session.log] for name, session in host.sessions.items()}
