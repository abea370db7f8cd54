"""What is new about a watched task, one line and one JSON value for each thing, as it happens."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from agentlink.cli.pending_text import answers, item_lines
from agentlink.cli.plain_text import indented
from agentlink.cli.sight import Sight
from agentlink.cli.story import INDENT, WHO, Story
from agentlink.core.host.timeline import FINISHED
from agentlink.core.host.values import AssistantMessage, Event, TextDelta, TurnEnded, TurnStarted
from agentlink.core.ids import TaskId
from agentlink.core.supervision.digest import digest
from agentlink.core.supervision.interactions import Pending

Emit = Callable[[str, dict[str, Any]], None]
_LIVE_TEXT = 8_000


class News:
    """Listens to the task's events and looks at its state; tells each change once."""

    def __init__(self, task: TaskId, emit: Emit, *, asks: bool) -> None:
        self.texts: dict[str, str] = {}
        """Session -> the answer that it is giving now."""
        self.turn_began_ms: int | None = None
        self.sight: Sight | None = None
        self.story = Story(task, day=None)
        self._task = task
        self._emit = emit
        self._asks = asks
        self._stages = 0
        self._caught_up = False
        self._told_seqs: set[int] = set()
        self._execution = "not_started"
        self._counts: tuple[int, int] = (0, 0)
        self._pending: tuple[Pending, ...] = ()
        self._away: str | None = None

    # -- what the live streams bring

    def on_event(self, session: str, event: Event) -> None:
        root = session == self._root
        match event:
            case AssistantMessage() | TurnEnded():
                self.texts.pop(session, None)
            case TurnStarted() if root and event.turn > 1:
                self.turn_began_ms = event.time_ms
            case _:
                pass
        told = digest(event, task=self._task, session=None if root else session)
        if told is None:
            return
        if root:
            self._told_seqs.add(event.seq)
        self._emit(self.story.lines(told), {"news": "event", "event": told})

    def on_text(self, session: str, delta: TextDelta) -> None:
        before = "" if delta.begins else self.texts.get(session, "")
        self.texts[session] = (before + delta.text)[-_LIVE_TEXT:]

    def on_rewound(self, session: str, from_seq: int) -> None:
        self.texts.clear()
        self._told_seqs.clear()
        whose = None if session == self._root else session
        of = "" if whose is None else f" of subagent {self.story.label(whose)}"
        self._line(
            "Host",
            f"lost the end of the history{of}; told again from there",
            news="rewound",
            session=whose,
            seq=from_seq,
        )

    @property
    def _root(self) -> str | None:
        view = None if self.sight is None else self.sight.view
        return None if view is None else view.launch.session

    # -- what a look at the state brings

    def look(self, sight: Sight) -> None:
        """Tells what changed since the last look."""
        self._launch(sight)
        self._host(sight)
        if not sight.known:
            return
        if not self._caught_up:
            self._caught_up = True
            self._catch_up(sight)
        now = sight.now()
        if now.execution != self._execution:
            self._execution = now.execution
            if now.execution not in FINISHED:
                self._line("task", now.execution.replace("_", " "), news="execution", execution=now.execution)
        if (now.queued, now.parked) != self._counts:
            self._counts = (now.queued, now.parked)
            self._line(
                "queue", f"{now.queued} queued, {now.parked} parked", news="queue", queued=now.queued, parked=now.parked
            )
        for item in now.pending:
            if item not in self._pending:
                self._waits(item)
        self._pending = now.pending

    def end(self, sight: Sight) -> None:
        """Tells how it ended, and the final message if it was not told yet."""
        now = sight.now()
        if now.final is not None and now.final.seq not in self._told_seqs:
            self._line("agent", now.final.text, news="final", text=now.final.text)
        launch = None if sight.view is None else sight.view.launch
        state: str = now.execution
        code = now.error_code
        if launch is not None and launch.failed:
            state, code = "launch failed", launch.code
        elif sight.over:
            state, code = "nothing more can be seen", sight.availability
        self._line(
            "end",
            state.replace("_", " ") + (f" ({code})" if code else ""),
            news="end",
            execution=now.execution,
            code=code,
        )

    def _launch(self, sight: Sight) -> None:
        path = sight.path
        for index in range(self._stages, len(path)):
            step = path[index]
            if step.source == step.state:
                continue
            began = datetime.fromisoformat(path[0].at)
            after = (datetime.fromisoformat(step.at) - began).total_seconds()
            again = f", attempt {step.attempt}" if step.attempt > 1 else ""
            self._emit(
                f"{datetime.fromisoformat(step.at).astimezone():%H:%M:%S}  {'launch':{WHO}} {step.state}"
                f"  (+{after:.3f} s{again})",
                {"news": "stage", "stage": step.state, "at": step.at, "attempt": step.attempt},
            )
        self._stages = len(path)

    def _host(self, sight: Sight) -> None:
        away = why_away(sight)
        if away == self._away:
            return
        was, self._away = self._away, away
        if away is None:
            self._line("Host", "is back", news="host", availability="connected")
            return
        self.texts.clear()
        said = f"is away: {away}; waiting" if was is None else away
        self._line("Host", said, news="host", availability=sight.availability, reason=away)

    def _catch_up(self, sight: Sight) -> None:
        """What was said before the watch began."""
        conversation = sight.conversation()
        root = conversation.root
        said = None if root is None else root.timeline.said
        if said is not None and sight.now().execution not in FINISHED:
            self._told_seqs.add(said.seq)
            self._line("agent", said.text, news="said", text=said.text)
        for child in conversation.descendants:
            self.story.name(child.ref.session, child.ref.label)

    def _waits(self, item: Pending) -> None:
        lines = [] if self._asks else [*item_lines(item), *answers(self._task, item)]
        if lines or not self._asks:
            self._line("waits", "\n".join(lines), news="pending", pending=item)

    def _line(self, who: str, words: str, /, **data: Any) -> None:
        moment = datetime.now().astimezone()
        self._emit(f"{moment:%H:%M:%S}  {who:{WHO}} {indented(words, by=INDENT)}", data)


def why_away(sight: Sight) -> str | None:
    """Why nothing can be seen of the task now; None when it can."""
    if sight.problem is not None:
        return f"{sight.problem.code.value}: {sight.problem.message}"
    if sight.lost_s is not None:
        return sight.lost_reason or "the connection is lost"
    return None if sight.availability == "connected" else sight.availability
