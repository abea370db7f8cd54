"""A task kept in sight for as long as a view lasts: while it is launched, at work, at rest, and while its Host is away.

It reads and never writes to the session. What happened is not told here: a view asks `app.tail` or brings a listener.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from agentlink.app.conversation import NOTHING_YET, Conversation, read_within
from agentlink.app.live import Listener, LiveTask, following
from agentlink.app.look import find_task, settle_task
from agentlink.app.runtime import Runtime
from agentlink.cli.follow import Patience
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import Stage, TaskView, stages
from agentlink.core.supervision.status import TaskNow

AWAY_S = 5.0
"""After this long without the live connection the Host is asked why."""
_JOURNAL_POLL_S = 0.05
_SETTLE_EVERY_S = 1.0
_AGAIN_S = 0.5
_TICK_S = 1.0


class Sight:
    """What is known of the task, always the newest. `over` says that nothing more will come."""

    def __init__(self, runtime: Runtime, task: TaskId, listener: Listener | None) -> None:
        self.task = task
        self.view: TaskView | None = None
        self.path: tuple[Stage, ...] = ()
        self.availability = "connected"
        self.problem: Failure | None = None
        """Why the launch cannot be settled or the conversation not be read now."""
        self.over = False
        self.error: Failure | None = None
        self.returns = 0
        """How often the Host came back."""
        self._runtime = runtime
        self._listener = listener
        self._patience = Patience(runtime.clock)
        self._live: LiveTask | None = None
        self._conversation = NOTHING_YET
        self._changed = anyio.Event()

    # -- what is known

    def now(self) -> TaskNow:
        return self._live.now() if self._live is not None else self._conversation.now()

    def conversation(self) -> Conversation:
        return self._live.conversation() if self._live is not None else self._conversation

    @property
    def known(self) -> bool:
        """Whether the conversation was read."""
        return self._live is not None

    @property
    def news(self) -> int:
        """Grows with everything that a tail may have to tell."""
        return (self._live.news if self._live is not None else 0) + self.returns

    @property
    def has_subagents(self) -> bool:
        return self._live is not None and bool(self._live.conversation().descendants)

    @property
    def lost_s(self) -> float | None:
        """How long the live connection has been down."""
        since = None if self._live is None else self._live.lost_since
        return None if since is None else self._runtime.clock.now() - since

    @property
    def lost_reason(self) -> str | None:
        return None if self._live is None else self._live.lost_reason

    @property
    def launch_failed(self) -> bool:
        return self.view is not None and self.view.launch.failed

    async def changed(self) -> None:
        """Returns when anything may have changed since the last call, and at least every second of a live task."""
        await self._changed.wait()
        self._changed = anyio.Event()

    # -- keeping it so

    async def run(self) -> None:
        try:
            await self._run()
        except Failure as failure:
            self.error = failure
        self.over = True
        self._changed.set()

    async def _run(self) -> None:
        while await self._launched():
            conversation = await self._read()
            if conversation.root is not None:
                await self._follow(conversation)
                return
            if self._away(conversation):
                return
            await self._runtime.clock.sleep(_AGAIN_S)

    async def _launched(self) -> bool:
        """Waits for the prompt to be sent, by whichever process drives the launch; False when the launch failed."""
        clock = self._runtime.clock
        settle_at = clock.now()
        while True:
            await self._look(await find_task(self._runtime, self.task))
            view = self.view
            assert view is not None
            if clock.now() >= settle_at and not view.launch.settled:
                view, problem = await settle_task(self._runtime, view)
                driven = problem is not None and problem.code is Code.LAUNCH_IN_PROGRESS
                self.problem = None if driven else problem
                await self._look(view)
                self._changed.set()
                settle_at = clock.now() + _SETTLE_EVERY_S
                if problem is not None and self._patience.is_over(problem.code.value):
                    self.availability = problem.code.value
                    return False
            if view.launch.state == machine.PROMPT_SENT or view.launch.failed:
                return not view.launch.failed
            await clock.sleep(_JOURNAL_POLL_S)

    async def _look(self, view: TaskView) -> None:
        if self.view is None or view.n != self.view.n:
            self.path = stages(await self._runtime.store.history(self.task))
            self._changed.set()
        self.view = view

    async def _read(self) -> Conversation:
        assert self.view is not None
        return await read_within(self._runtime, self.view.launch, AWAY_S)

    def _away(self, conversation: Conversation) -> bool:
        """Notes why nothing can be read; whether waiting does not mend it."""
        self.availability, self.problem = conversation.availability, conversation.failure
        self._changed.set()
        return self._patience.is_over(conversation.availability)

    async def _follow(self, conversation: Conversation) -> None:
        """Follows the task until nothing more can come."""
        clock = self._runtime.clock
        async with following(self._runtime, conversation, listener=self._listener) as live:
            self._live, self.availability, self.problem = live, "connected", None
            self._changed.set()
            was_lost, ask_at = False, 0.0
            try:
                while True:
                    with anyio.move_on_after(_TICK_S):
                        await live.changed()
                    if live.lost_since is not None:
                        ask_at = ask_at if was_lost else live.lost_since + AWAY_S
                        was_lost = True
                        if clock.now() >= ask_at:
                            looked = await self._read()
                            ask_at = clock.now() + AWAY_S
                            if looked.root is None and live.lost_since is not None and self._away(looked):
                                return
                    elif was_lost:
                        was_lost, self.availability, self.problem = False, "connected", None
                        self.returns += 1
                        if await self._lost_its_prompt():
                            return
                    self._changed.set()
            finally:
                self._conversation, self._live = live.conversation(), None

    async def _lost_its_prompt(self) -> bool:
        """A Host that crashed may have lost the prompt itself; only the launch's own check tells."""
        view, _ = await settle_task(self._runtime, await find_task(self._runtime, self.task))
        await self._look(view)
        return view.launch.failed


@asynccontextmanager
async def watching(runtime: Runtime, task: TaskId, *, listener: Listener | None = None) -> AsyncIterator[Sight]:
    """The task in sight, over one live connection that everything in the context shares."""
    error: Exception | None = None
    async with anyio.create_task_group() as group:
        runtime.to_the_end.group = group
        sight = Sight(runtime, task, listener)
        group.start_soon(sight.run)
        try:
            yield sight
        except Exception as raised:  # noqa: BLE001
            error = raised  # raised below as itself: out of the group it would come wrapped
        finally:
            group.cancel_scope.cancel()
            runtime.to_the_end.group = None
    if error is not None:
        raise error
