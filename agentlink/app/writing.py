"""Writes to a task's session after its prompt: each is on disk as an intent before it is sent (design section 6).

Whoever writes holds the task lock, so an open intent under a free lock is one whose sender is gone.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentlink.app.attempt import NOT_RECORDED
from agentlink.app.launching import claim_rule
from agentlink.app.look import find_task, settle_task
from agentlink.app.ports import Rule
from agentlink.app.read_log import standing_of
from agentlink.app.runtime import Runtime
from agentlink.app.settle import other_host
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import ClaimTaken, TaskLineFact, WriteIntended, WriteKind, WriteOutcome, WriteSettled
from agentlink.core.host.faults import HostFault
from agentlink.core.ids import RequestId, TaskId, prompt_request_id
from agentlink.core.launch import machine
from agentlink.core.launch.decide import failure_for
from agentlink.core.launch.history import StaleTask, TaskView
from agentlink.core.launch.state import Launch

PATIENCE_S = 30.0
"""How long a write waits for another one of the same task: each is bounded by the timeouts of its Host calls."""


class Writing:
    """One writer of one task. Whoever makes one holds the task lock."""

    def __init__(self, runtime: Runtime, view: TaskView) -> None:
        self._runtime = runtime
        self.task: TaskId = view.task
        self.launch: Launch = view.launch
        self.n = view.n
        self.warnings: list[str] = []

    @property
    def session(self) -> str:
        return self.launch.session or ""

    async def intend(
        self,
        kind: WriteKind,
        *,
        needs_claim: bool,
        target: str | None = None,
        key: str | None = None,
        input_digest: str | None = None,
    ) -> RequestId:
        """Puts the intent on disk and gives its request id. Raises Failure; then nothing may be sent.

        A claim that was released is taken again in the same line, when it is needed and free.
        """
        launch = self.launch
        number = launch.writes.count + 1
        request = prompt_request_id(self.task, attempt=launch.attempt, number=number)
        intent = WriteIntended(kind=kind, request=request, target=target, key=key, input=input_digest)
        if needs_claim and not launch.claim_held:
            rule = claim_rule(self.task, launch.cwd, launch.claim_mode)
            await self.record(ClaimTaken(), intent, rule=rule)
        else:
            await self.record(intent)
        return request

    async def settle(self, request: str, outcome: WriteOutcome, *, host_code: str | None = None) -> None:
        """Records what became of a write. That it cannot be written is a warning: the next look settles it."""
        code = host_code if host_code is not None and len(host_code) <= 100 else None
        try:
            await self.record(WriteSettled(request=request, outcome=outcome, host_code=code))
        except Failure:
            self.warnings.append(NOT_RECORDED)

    async def record(self, *facts: TaskLineFact, rule: Rule | None = None) -> None:
        """Appends one line. Raises Failure, told from where the task stands."""
        try:
            view = await self._runtime.store.append(self.task, facts, expected_n=self.n, rule=rule)
        except StaleTask as stale:
            raise self.failure(Code.LAUNCH_IN_PROGRESS, "another process changed this task meanwhile") from stale
        except Failure as failure:
            raise self.located(failure) from failure
        self.launch, self.n = view.launch, view.n

    def failure(self, code: Code, message: str, *, details: dict[str, object] | None = None) -> Failure:
        return self.located(Failure(code, message, details=details))

    def located(self, failure: Failure) -> Failure:
        """The failure, told from this task; its own prompt was sent, whatever became of this write."""
        return located_at(failure, self.task, self.launch)


def located_at(failure: Failure, task: str, launch: Launch) -> Failure:
    """The failure of a later write. `promptSent` is about that write: False, or None while it is unknown."""
    return failure.located(stage=launch.state, task=task, session=launch.session, prompt_sent=failure.prompt_sent)


async def prompted(runtime: Runtime, task: TaskId) -> TaskView:
    """The task, settled as far as possible, whose session has its prompt on this Host. Raises Failure."""
    view, problem = await settle_task(runtime, await find_task(runtime, task))
    launch = view.launch
    if launch.state != machine.PROMPT_SENT:
        if problem is not None:
            raise located_at(problem, task, launch)
        raise located_at(not_prompted(launch), task, launch)
    other = other_host(runtime, launch)
    if other is not None:
        raise located_at(other, task, launch)
    return view


async def refuse_unless_it_runs(runtime: Runtime, task: str, launch: Launch) -> None:
    """A prompt that was removed or lost a moment ago leaves a launch that is about to fail: nothing follows it up.

    Raises Failure.
    """
    if launch.confirmed:
        return
    session, request = launch.session or "", launch.request or ""
    try:
        state = await runtime.host.session_state(session)
        if state is not None and request in state.waiting:
            return
        last_seq = -1 if state is None else state.last_seq
        found, _ = await standing_of(runtime.host, session, request, last_seq=last_seq)
    except HostFault as fault:
        raise located_at(failure_for(fault), task, launch) from fault
    if found.standing not in ("waiting", "claimed", "delivered"):
        message = f"the task's own prompt is not in the session any more ({found.standing})"
        raise located_at(Failure(Code.LAUNCH_IN_PROGRESS, message), task, launch)


def not_prompted(launch: Launch) -> Failure:
    """Why a task has no conversation that could be written to."""
    if launch.state == machine.CLAIMED:
        return Failure(Code.DELIVERY_UNKNOWN, "whether the session has its prompt is not known", prompt_sent=None)
    reason = f" ({launch.code})" if launch.code else ""
    return Failure(Code.NOT_PROMPTED, f"the task stands at {launch.state}{reason}")


@asynccontextmanager
async def writing(runtime: Runtime, task: TaskId) -> AsyncIterator[Writing]:
    """Holds the task lock for one write, after waiting for other writers. Raises Failure."""
    deadline = runtime.clock.now() + PATIENCE_S
    while True:
        entered = False
        try:
            async with runtime.store.drive(task):
                entered = True
                view = await find_task(runtime, task)
                if view.launch.state != machine.PROMPT_SENT:
                    raise located_at(not_prompted(view.launch), task, view.launch)
                yield Writing(runtime, view)
                return
        except Failure as failure:
            if entered or failure.code is not Code.LAUNCH_IN_PROGRESS or runtime.clock.now() >= deadline:
                raise
