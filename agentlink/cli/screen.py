"""The live view of one task on a terminal: news scroll by, and the last lines say how the task stands."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agentlink.cli.news import News, why_away
from agentlink.cli.plain_text import one_line, safe, seconds
from agentlink.cli.sight import Sight
from agentlink.core.ids import TaskId
from agentlink.core.supervision.status import GOING_ON

_TEXT_LINES = 8
_STYLES = {"agent": "bold", "launch": "dim", "turn": "dim", "result": "dim", "Host": "yellow", "waits": "yellow"}
_SPINNER = "|/-\\"


@contextmanager
def no_echo() -> Iterator[None]:
    """Keys that are pressed while nothing is asked do not write into the view."""
    if sys.platform == "win32":
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class Screen:
    """Draws the view. While it is `paused`, news are kept for later."""

    def __init__(self, task: TaskId) -> None:
        self._task = task
        self._console = Console(file=sys.stdout, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._kept: list[str] = []
        self._paused = False
        self._frames = 0

    @contextmanager
    def shown(self) -> Iterator[None]:
        with no_echo():
            self._live.start()
            try:
                yield
            finally:
                self._live.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The terminal belongs to a question."""
        self._live.stop()
        self._paused = True
        try:
            with _echo():
                yield
        finally:
            self._paused = False
            for line in self._kept:
                self._print(line)
            self._kept.clear()
            self._live.update(Text(""))  # the frame of before the question is old
            self._live.start()

    def emit(self, line: str, _data: object) -> None:
        if self._paused:
            self._kept.append(line)
        else:
            self._print(line)

    def _print(self, line: str) -> None:
        words = line[8:].split(maxsplit=1)
        text = Text(safe(line), style=_STYLES.get(words[0] if words else "", ""))
        self._console.print(text, soft_wrap=True)

    def draw(self, sight: Sight, news: News) -> None:
        self._frames += 1
        self._live.update(Group(*self._frame(sight, news)), refresh=True)

    def _frame(self, sight: Sight, news: News) -> list[Text]:
        now, away = sight.now(), why_away(sight)
        lines = [*self._streamed(sight, news)]
        state = now.execution.replace("_", " ") if sight.known else (sight.path[-1].state if sight.path else "looking")
        turning = _SPINNER[self._frames % len(_SPINNER)] if now.execution in GOING_ON and away is None else "*"
        head = [f"{turning} {state}", seconds(_elapsed_s(sight, news))]
        if now.tool:
            head.append(f"tool {one_line(now.tool, most=40)}")
        if now.running_children:
            names = ", ".join(news.story.label(child.session) for child in now.running_children[:4])
            head.append(f"{len(now.running_children)} subagents: {names}")
        if now.queued:
            head.append(f"{now.queued} queued")
        if now.parked:
            head.append(f"{now.parked} parked")
        lines.append(Text("  ".join(head), style="bold cyan", no_wrap=True, overflow="ellipsis"))
        if away is not None:
            for_s = "" if sight.lost_s is None else f" for {seconds(sight.lost_s)}"
            lines.append(Text(f"  Host away{for_s}: {one_line(away, most=200)}", style="yellow", no_wrap=True))
        for item in now.pending:
            waits = f"  {item.kind} {one_line(item.request_id, most=60)} waits for a person"
            lines.append(Text(waits, style="yellow", no_wrap=True, overflow="ellipsis"))
        return lines

    def _streamed(self, sight: Sight, news: News) -> list[Text]:
        """The end of the answer that is being given."""
        root = None if sight.view is None else sight.view.launch.session
        text = news.texts.get(root or "") or next(reversed(news.texts.values()), "")
        if not text.strip():
            return []
        wrapped = Text(safe(text.rstrip())).wrap(self._console, max(20, self._console.width - 4))
        return [Text("  ").append_text(line) for line in wrapped[-_TEXT_LINES:]]


@contextmanager
def _echo() -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    termios.tcsetattr(terminal, termios.TCSADRAIN, [*before[:3], before[3] | termios.ECHO, *before[4:]])
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _elapsed_s(sight: Sight, news: News) -> float:
    """Since the turn began, or since the task was made when its first turn is watched."""
    now = datetime.now(UTC).timestamp()
    if news.turn_began_ms is not None:
        return now - news.turn_began_ms / 1000
    return 0.0 if sight.view is None else now - datetime.fromisoformat(sight.view.created_at).timestamp()
