"""Telling a story from its cursor on: printed as it is read, and again whenever the live connection rings."""

import msgspec

from agentlink.app.runtime import Runtime
from agentlink.app.tail import DEFAULT_BYTES, Rewound, Tailed, tail
from agentlink.cli.follow import HOPELESS
from agentlink.cli.output import print_json, say, tell
from agentlink.cli.pending_text import pending_lines
from agentlink.cli.plain_text import command
from agentlink.cli.sight import Sight, watching
from agentlink.cli.story import Parts, Story
from agentlink.core.errors import Code, Failure
from agentlink.core.host.timeline import FINISHED
from agentlink.core.ids import TaskId
from agentlink.core.supervision.digest import Digest

_PASSING = frozenset({Code.HOST_UNREACHABLE, Code.BAD_HOST_REPLY, Code.HOST_ERROR, Code.HOST_UNSUPPORTED})
_AGAIN_S = 0.5
_RESTING_S, _ANYWAY_S = 5.0, 60.0
"""A subagent at rest that is given work is not followed at once: its log is read anew this often, the others rarely."""


def joined(first: Tailed, second: Tailed) -> Tailed:
    """Two replies, one after the other, as one; a text that was cut between them is whole again."""
    parts = Parts()
    events = (*parts.whole((*first.events, *second.events)), *parts.flush())
    return msgspec.structs.replace(second, events=events, rewound=(*first.rewound, *second.rewound))


class Printed:
    """What was printed of a task's story: as lines (`as_json` False), as JSON lines (True), or not at all (None)."""

    def __init__(self, task: TaskId, *, as_json: bool | None) -> None:
        self.cursor: str | None = None
        """Goes on after what was printed."""
        self._task = task
        self._as_json = as_json
        self._story = Story(task)
        self._parts = Parts()
        self._read_cursor: str | None = None
        self._state: tuple[object, ...] = ()

    @property
    def read_cursor(self) -> str | None:
        """Goes on after what was read: the beginning of a text may wait here for its end."""
        return self._read_cursor or self.cursor

    def take(self, reply: Tailed) -> None:
        """Prints one reply."""
        if self._as_json is None:
            return
        for rewound in reply.rewound:
            for event in self._parts.flush():
                self._print(event)
            self._print_rewound(rewound)
        for event in self._parts.whole(reply.events):
            self._print(event)
        self._read_cursor = reply.cursor
        if not self._parts.open:
            self.cursor = reply.cursor

    def _print(self, event: Digest) -> None:
        if self._as_json:
            print_json(event)
        else:
            tell(self._story.lines(event))

    def _print_rewound(self, rewound: Rewound) -> None:
        if self._as_json:
            print_json({"rewound": rewound})
            return
        whose = "" if rewound.session is None else f" of subagent {self._story.label(rewound.session)}"
        tell(f"== the Host lost the end of the history{whose}; told again from event {rewound.from_seq} on ==")

    def state(self, sight: Sight) -> None:
        """Tells how the task stands, when that is known and news."""
        if not sight.known and sight.availability == "connected":
            return
        now, lost = sight.now(), sight.lost_s is not None or sight.availability != "connected"
        state = (self.cursor, now.execution, now.pending, now.parked, lost, sight.availability)
        before, self._state = self._state, state
        if state == before:
            return
        if self._as_json:
            away = sight.availability if sight.availability != "connected" else "host_unreachable"
            print_json(
                {"cursor": self.cursor, "execution": now.execution, "availability": away if lost else "connected"}
            )
            return
        if lost != (bool(before) and before[4]):
            say(f"== the Host is away: {_reason(sight)} ==" if lost else "== the Host is back ==")
        if not lost and before[1:4] != state[1:4]:
            if now.execution in FINISHED:
                say(f"== {now.execution}" + (f" ({now.error_code})" if now.error_code else "") + " ==")
            if now.parked and now.execution in FINISHED:
                say(f"== {now.parked} parked ==")
            for line in pending_lines(self._task, now.pending):
                say(line)

    def over(self, code: str) -> None:
        """Tells that the launch failed, after which nothing can come."""
        if self._as_json:
            print_json({"launch": "launch-failed", "code": code})
        else:
            say(f"== the launch failed: {code} ==  {command('status', self._task)}")

    def finish(self) -> None:
        """Prints also a text whose end lies behind the bound of the reply."""
        for event in self._parts.flush():
            self._print(event)
        self.cursor = self.read_cursor

    def end(self) -> None:
        """Says where to go on."""
        if self._as_json is False and self.cursor is not None:
            say(f"cursor: {self.cursor}")


def _reason(sight: Sight) -> str:
    if sight.problem is not None:
        return f"{sight.problem.code.value}: {sight.problem.message}"
    return sight.lost_reason or sight.availability


async def follow_story(runtime: Runtime, task: TaskId, printed: Printed) -> None:
    """Prints everything after the cursor, and goes on as it happens; ends only when nothing more can come.

    What is printed comes from the cursor alone, so nothing is lost or told twice; the live connection only says when.
    """
    async with watching(runtime, task) as sight:
        while True:
            seen, read_at = (sight.news, sight.known), runtime.clock.now()
            again = False
            if sight.view is not None and sight.view.launch.session is not None and sight.lost_s is None:
                again = not await _read_on(runtime, task, printed, over=sight.over)
            printed.state(sight)
            if sight.over:
                break
            if again:
                await runtime.clock.sleep(_AGAIN_S)
                continue
            while seen == (sight.news, sight.known) and not sight.over:
                await sight.changed()
                if seen == (sight.news, sight.known):  # else what led to the state is told first
                    printed.state(sight)
                if runtime.clock.now() - read_at > (_RESTING_S if sight.has_subagents else _ANYWAY_S):
                    break
        if sight.error is not None:
            raise sight.error
        _tell_over(sight, printed)


async def _read_on(runtime: Runtime, task: TaskId, printed: Printed, *, over: bool) -> bool:
    """Prints what there is now; False when the Host could not be read just then."""
    while True:
        try:
            reply = await tail(runtime, task, cursor=printed.read_cursor, max_bytes=DEFAULT_BYTES)
        except Failure as failure:
            if failure.code in _PASSING or (over and failure.code.value in HOPELESS):
                return False
            raise
        printed.take(reply)
        if not reply.more:
            return True


def _tell_over(sight: Sight, printed: Printed) -> None:
    """Says why nothing more can come. Raises Failure when that is no fact of the task's own."""
    launch = None if sight.view is None else sight.view.launch
    if launch is not None and launch.failed:
        printed.over(launch.code or "launch_failed")
    elif sight.problem is not None:
        raise sight.problem
