"""Stopping a task: its running turn, what waits in its queue, or everything with its subagents (design section 6).

The Host's cancel stops the running turn only. What waited stays parked, and a subagent that settles wakes its parent.
"""

from typing import Literal

from agentlink.app.attempt import outcome_unknown
from agentlink.app.conversation import Conversation, read_conversation
from agentlink.app.results import Result
from agentlink.app.runtime import Runtime
from agentlink.app.to_the_end import Canceled
from agentlink.app.writing import Writing, prompted, writing
from agentlink.core.errors import Failure
from agentlink.core.facts.work import WriteKind, WriteOutcome
from agentlink.core.host.faults import HostFault, Refused
from agentlink.core.host.timeline import Execution
from agentlink.core.host.values import QueuedItem
from agentlink.core.ids import TaskId
from agentlink.core.launch.decide import failure_for

Scope = Literal["turn", "queue", "all"]
_KINDS: dict[Scope, WriteKind] = {"turn": "cancel-turn", "queue": "cancel-queue", "all": "cancel-all"}

QUIET_WITHIN_S = 10.0
"""How long `all` goes on stopping what wakes up again; a turn ends within 0.4 s of its cancel."""
_POLL_S = 0.05


class QueueCanceled(Result, frozen=True, kw_only=True):
    """Each waiting prompt is removed by a call of its own, so this is not atomic: every one of them is tried."""

    requested: int = 0
    removed: int = 0
    already_taken: int = 0
    failed: int = 0


class TaskCanceled(Result, frozen=True, kw_only=True):
    """What a cancel did, and what it left."""

    task_id: str
    session_id: str
    scope: Scope
    turn_canceled: bool = False
    execution: Execution
    parked: tuple[str, ...] = ()
    """Waiting prompts that stay: request ids, or the Host's ids of those that no client made."""
    children_running: tuple[str, ...] = ()
    queue: QueueCanceled | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


async def cancel(runtime: Runtime, task: TaskId, *, scope: Scope = "turn") -> TaskCanceled:
    """Stops what the scope names; needs no claim, and does no harm when nothing runs. Raises Failure."""
    await prompted(runtime, task)

    async def run(_: Canceled) -> TaskCanceled:
        async with writing(runtime, task) as writer:
            before = await _look(runtime, writer)
            request = await writer.intend(_KINDS[scope], needs_claim=False)
            stopping = _Stopping(runtime, writer)
            try:
                after = await stopping.stop(before, scope)
            except HostFault as fault:
                unknown = outcome_unknown(fault)
                outcome: WriteOutcome = "unknown" if unknown else "refused"
                await writer.settle(request, outcome, host_code=getattr(fault, "code", None))
                raise writer.located(failure_for(fault, prompt_sent=None if unknown else False)) from fault
            except Failure as failure:
                # The calls were made; only what they led to could not be read.
                await writer.settle(request, "unknown")
                raise failure.located(
                    stage=failure.stage, task=failure.task, session=failure.session, prompt_sent=None
                ) from failure
            await writer.settle(request, "receipt")
            return stopping.told(after, scope)

    return await runtime.to_the_end.run(run)


async def _look(runtime: Runtime, writer: Writing) -> Conversation:
    conversation = await read_conversation(runtime, writer.launch)
    if conversation.failure is not None:
        raise writer.located(conversation.failure)
    return conversation


class _Stopping:
    """One cancel under way."""

    def __init__(self, runtime: Runtime, writer: Writing) -> None:
        self._runtime = runtime
        self._writer = writer
        self._turn_canceled = False
        self._queue = QueueCanceled()

    async def stop(self, before: Conversation, scope: Scope) -> Conversation:
        """The conversation afterwards. Raises HostFault, Failure."""
        if scope != "turn":
            # First, or the end of the turn would begin the next one.
            await self._empty_queue(before)
        if scope != "queue":
            await self._cancel_turn(before)
        if scope == "queue":
            return await _look(self._runtime, self._writer)
        return await self._until_quiet(everything=scope == "all")

    async def _cancel_turn(self, now: Conversation) -> None:
        running = now.root is not None and now.root.timeline.in_turn
        try:
            await self._runtime.host.cancel_turn(self._writer.session)
        except Refused as refused:
            if refused.kind != "session_not_found":
                raise
            return  # not loaded, so nothing runs
        self._turn_canceled = self._turn_canceled or running

    async def _empty_queue(self, now: Conversation) -> None:
        timeline = None if now.root is None else now.root.timeline
        items = () if timeline is None else (*timeline.next_turn, *timeline.next_step)
        removed = taken = failed = 0
        for item in items:
            try:
                await self._runtime.host.remove_queued(self._writer.session, item.item)
                removed += 1
            except Refused as refused:
                if refused.kind == "not_queued":
                    taken += 1
                else:
                    failed += 1
            except HostFault:
                failed += 1
        queue = self._queue
        self._queue = QueueCanceled(
            requested=queue.requested + len(items),
            removed=queue.removed + removed,
            already_taken=queue.already_taken + taken,
            failed=queue.failed + failed,
        )

    async def _until_quiet(self, *, everything: bool) -> Conversation:
        """Waits for the turn's end in the log; with `everything` also stops what wakes up meanwhile. Bounded."""
        clock = self._runtime.clock
        deadline = clock.now() + QUIET_WITHIN_S
        while True:
            now = await _look(self._runtime, self._writer)
            timeline = None if now.root is None else now.root.timeline
            task = now.now()
            quiet = not task.goes_on if everything else timeline is None or not timeline.in_turn
            if everything and timeline is not None:
                quiet = quiet and not timeline.in_turn and not timeline.waiting
            if quiet or clock.now() >= deadline:
                return now
            if everything:
                await self._stop_again(now)
            await clock.sleep(_POLL_S)

    async def _stop_again(self, now: Conversation) -> None:
        timeline = None if now.root is None else now.root.timeline
        if timeline is not None and timeline.waiting:
            await self._empty_queue(now)
        busy = {child.session for child in now.now().running_children}
        for one in now.descendants:
            if one.ref.session in busy and one.timeline is not None and one.timeline.in_turn:
                try:
                    await self._runtime.host.interrupt_child(one.parent, one.ref.session, mode=one.ref.mode)
                except Refused:
                    continue  # it has just ended, or is no child that can be stopped: the next look tells
        if timeline is not None and timeline.in_turn:
            await self._cancel_turn(now)

    def told(self, after: Conversation, scope: Scope) -> TaskCanceled:
        now = after.now()
        timeline = None if after.root is None else after.root.timeline
        waiting = () if timeline is None else (*timeline.next_turn, *timeline.next_step)
        parked = tuple(_name(item) for item in waiting) if now.parked else ()
        children = tuple(child.session for child in now.running_children)
        return TaskCanceled(
            task_id=self._writer.task,
            session_id=self._writer.session,
            scope=scope,
            turn_canceled=self._turn_canceled,
            execution=now.execution,
            parked=parked,
            children_running=children,
            queue=None if scope == "turn" else self._queue,
            notes=_notes(len(parked), len(children)),
            warnings=tuple(self._writer.warnings),
        )


def _name(item: QueuedItem) -> str:
    return item.request or item.item


def _notes(parked: int, children: int) -> tuple[str, ...]:
    notes = ["Background jobs of the agent's tools go on."]
    if parked:
        notes.append(
            f"{parked} parked prompt{'s' if parked > 1 else ''} will run before the next prompt; "
            "remove them with scope queue."
        )
    if children:
        notes.append("Running subagents go on and wake the task when they settle; stop them with scope all.")
    return tuple(notes)
