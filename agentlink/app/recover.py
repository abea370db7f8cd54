"""Recovery: settle what was interrupted, list what can be used again, and prompt, abandon or give up one session."""

from collections.abc import Callable, Sequence

import anyio
import msgspec

from agentlink.app.attempt import Attempt
from agentlink.app.delegate import check_prompt
from agentlink.app.launching import Asked, claim_look, launch_anew, reach_host, recover_into
from agentlink.app.look import find_task, settle_task
from agentlink.app.results import Delegated, Result
from agentlink.app.runtime import Runtime
from agentlink.app.to_the_end import Canceled
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import LaunchAbandoned
from agentlink.core.host.faults import HostFault
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch
from agentlink.core.routing.router import Choice
from agentlink.core.routing.rules import Reason

AT_ONCE = 128
"""Launches settled at the same time: each holds its task lock for up to 3 s while its absence is proven."""
MAX_ROWS = 50
MAX_UNFINISHED = 5_000
MAX_STRAYS = 200

Progress = Callable[[int, int], None]
"""Told (settled so far, all)."""


class Unprompted(Result, frozen=True, kw_only=True):
    """A session without a prompt, and what can be done about it."""

    task_id: str
    session_id: str
    cwd: str
    preset: str | None = None
    code: str | None = None
    can: tuple[str, ...] = ("prompt", "abandon")


class Unsettled(Result, frozen=True, kw_only=True):
    """A launch that could not be settled now, and why."""

    task_id: str
    stage: str
    code: str


class Stray(Result, frozen=True, kw_only=True):
    """A session that appeared on the Host only after its launch had been settled without one."""

    task_id: str
    session_id: str


class Recovered(Result, frozen=True, kw_only=True):
    """What a look at every unfinished launch found. Lists are cut at 50 rows; the counts are of all."""

    settled: int
    unprompted_count: int
    unprompted: tuple[Unprompted, ...] = ()
    unsettled_count: int = 0
    unsettled: tuple[Unsettled, ...] = ()
    strays: tuple[Stray, ...] = ()
    host: str | None = None
    """Why strays could not be looked for, when the Host cannot be read."""


class Closed(Result, frozen=True, kw_only=True):
    """Where a task stands after it was abandoned or its session was declared lost."""

    task_id: str
    stage: str
    session_id: str | None = None
    abandoned: bool = False
    prompt_sent: bool | None = False


async def recover(
    runtime: Runtime,
    task: TaskId | None,
    *,
    prompt: str | None = None,
    give_up: bool = False,
    session_lost: bool = False,
    progress: Progress | None = None,
) -> Recovered | Delegated | Closed:
    """What the tool and the command do: everything without a task, one thing with a task. Raises Failure."""
    wishes = [name for name, wish in _wishes(prompt, give_up=give_up, session_lost=session_lost) if wish]
    if task is None:
        if wishes:
            raise Failure(Code.INVALID_REQUEST, f"{wishes[0]} needs a task", details={"argument": "taskId"})
        return await recover_all(runtime, progress=progress)
    if len(wishes) != 1:
        raise Failure(
            Code.INVALID_REQUEST,
            "with a task give exactly one of prompt, abandon, sessionLost",
            details={"argument": "prompt"},
        )
    if prompt is not None:
        check_prompt(prompt)
        return await recover_task(runtime, task, prompt)
    view = await (abandon if give_up else confirm_lost)(runtime, task)
    launch = view.launch
    return Closed(
        task_id=task,
        stage=launch.state,
        session_id=launch.session,
        abandoned=launch.abandoned,
        prompt_sent=launch.prompt_sent,
    )


def _wishes(prompt: str | None, *, give_up: bool, session_lost: bool) -> tuple[tuple[str, bool], ...]:
    return ("prompt", prompt is not None), ("abandon", give_up), ("sessionLost", session_lost)


async def recover_all(runtime: Runtime, *, progress: Progress | None = None) -> Recovered:
    """Settles every unfinished launch, by reads only, and lists the sessions that were left without a prompt."""
    unfinished = await runtime.store.page(limit=MAX_UNFINISHED, kind="unfinished")
    unfinished += await runtime.store.page(limit=MAX_UNFINISHED, kind="unprompted")
    settled, unsettled = await _settle_many(runtime, unfinished, progress)
    left = await runtime.store.page(limit=MAX_UNFINISHED, kind="unprompted")
    strays, trouble = await _strays(runtime)
    return Recovered(
        settled=settled,
        unprompted_count=len(left),
        unprompted=tuple(_unprompted(view) for view in left[:MAX_ROWS]),
        unsettled_count=len(unsettled),
        unsettled=tuple(unsettled[:MAX_ROWS]),
        strays=strays,
        host=trouble,
    )


async def settle_unfinished(runtime: Runtime, *, limit: int) -> int:
    """Settles at most the `limit` newest unfinished launches; how many it could. Raises Failure journal_*."""
    views = await runtime.store.page(limit=limit, kind="unfinished")
    settled, _ = await _settle_many(runtime, views, None)
    return settled


async def _settle_many(
    runtime: Runtime, views: Sequence[TaskView], progress: Progress | None
) -> tuple[int, list[Unsettled]]:
    limiter = anyio.CapacityLimiter(AT_ONCE)
    unsettled: list[Unsettled] = []
    counts = {"looked": 0, "settled": 0}

    async def settle(view: TaskView) -> None:
        async with limiter:
            after, failure = await settle_task(runtime, view)
        counts["looked"] += 1
        if not after.launch.settled:
            code = _reason(after.launch, failure)
            unsettled.append(Unsettled(task_id=view.task, stage=after.launch.state, code=code))
        elif not view.launch.settled:
            counts["settled"] += 1
        if progress is not None:
            progress(counts["looked"], len(views))

    async with anyio.create_task_group() as group:
        for view in views:
            group.start_soon(settle, view)
    return counts["settled"], sorted(unsettled, key=lambda row: row.task_id)


def _reason(launch: Launch, failure: Failure | None) -> str:
    if failure is not None:
        return failure.code.value
    if launch.state == machine.PROMPT_SENT:
        return "not_confirmed_yet"
    return Code.DELIVERY_UNKNOWN.value if launch.state == machine.CLAIMED else Code.HOST_CHANGED.value


def _unprompted(view: TaskView) -> Unprompted:
    launch = view.launch
    return Unprompted(
        task_id=view.task,
        session_id=launch.session or "",
        cwd=launch.cwd,
        preset=launch.resolved or launch.preset,
        code=launch.code,
    )


async def _strays(runtime: Runtime) -> tuple[tuple[Stray, ...], str | None]:
    """Intended sessions that were settled as absent and exist all the same, among the newest 200 such attempts."""
    found: list[Stray] = []
    for view in await runtime.store.page(limit=MAX_STRAYS, kind="absent"):
        if view.launch.origin != runtime.host.origin:
            continue
        for session in view.launch.absent_sessions:
            try:
                if await runtime.host.session_state(session) is not None:
                    found.append(Stray(task_id=view.task, session_id=session))
            except HostFault as fault:
                return tuple(found), fault.message
    return tuple(found), None


async def recover_task(runtime: Runtime, task: TaskId, prompt: str) -> Delegated:
    """Sends the prompt into the task's unprompted session, as a new attempt; a lost session is launched anew.

    Preset, claim and model route are proven again. Raises Failure.
    """
    view = await _settled(runtime, task)
    asked = _asked_before(view.launch, prompt)
    catalog = None
    if view.launch.session is None:
        await claim_look(runtime, asked)
        catalog = await reach_host(runtime)

    async def launch(canceled: Canceled) -> Delegated:
        async with runtime.store.drive(task):
            fresh = await find_task(runtime, task)
            _refuse_unless_recoverable(fresh)
            if fresh.launch.unprompted:
                return await recover_into(runtime, asked, fresh)
            return await launch_anew(runtime, asked, fresh, canceled, catalog)

    answer = await runtime.to_the_end.run(launch)
    return msgspec.structs.replace(answer, repeated=False)


async def _settled(runtime: Runtime, task: TaskId, *, person_confirms: bool = False) -> TaskView:
    view, failure = await settle_task(runtime, await find_task(runtime, task), person_confirms=person_confirms)
    if failure is not None:
        raise failure.located(
            stage=view.launch.state,
            task=task,
            session=view.launch.session or view.launch.intended_session,
            prompt_sent=view.launch.prompt_sent,
        )
    _refuse_unless_recoverable(view)
    return view


def _refuse_unless_recoverable(view: TaskView) -> None:
    launch = view.launch
    if launch.failed and not launch.abandoned:
        return
    if launch.state == machine.PROMPT_SENT:
        code, message = Code.NOT_RECOVERABLE, "the prompt of this task was sent; there is nothing to recover"
    elif launch.abandoned:
        code, message = Code.NOT_RECOVERABLE, "this task was abandoned"
    elif launch.state == machine.CLAIMED:
        code, message = Code.DELIVERY_UNKNOWN, "whether the prompt was delivered cannot be told yet"
    else:
        code, message = Code.HOST_CHANGED, "the Host that answers is not known to be the one that was asked"
    raise Failure(
        code,
        message,
        stage=launch.state,
        task=view.task,
        session=launch.session or launch.intended_session,
        prompt_sent=launch.prompt_sent,
    )


def _asked_before(launch: Launch, prompt: str) -> Asked:
    """What the task was asked at first: nothing is chosen anew."""
    return Asked(
        prompt=prompt,
        cwd=launch.cwd,
        mode=launch.mode,
        preset=None if launch.mode == "automatic" else launch.preset or launch.asked_preset,
        claim=launch.claim_mode,
        chosen=_chosen_before(launch),
        key=launch.key,
        input=launch.input,
    )


def _chosen_before(launch: Launch) -> Choice | None:
    """The rule's choice that an automatic launch goes on with. Raises Failure when none was made."""
    if launch.mode != "automatic":
        return None
    if launch.preset is None or launch.rule is None:
        raise Failure(
            Code.NOT_RECOVERABLE,
            "the launch failed before a rule had chosen; its hints are not kept",
            stage=launch.state,
            next_step="Delegate again with the same hints.",
        )
    reason: Reason = launch.reason  # type: ignore[assignment]  # written by the router
    return Choice(launch.rule, launch.preset, reason)


async def abandon(runtime: Runtime, task: TaskId) -> TaskView:
    """Closes the task's unprompted session for good; the Host's session itself is not touched. Raises Failure."""
    await _settled(runtime, task)
    async with runtime.store.drive(task):
        attempt = Attempt(runtime, await find_task(runtime, task))
        if not attempt.launch.unprompted:
            raise attempt.failure(Code.NOT_RECOVERABLE, "the task has no unprompted session to abandon")
        await attempt.record(LaunchAbandoned())
        return TaskView(task, attempt.launch, attempt.n)


async def confirm_lost(runtime: Runtime, task: TaskId) -> TaskView:
    """On a person's word, what the reachable Host does not show counts as absent. Raises Failure."""
    view = await _settled(runtime, task, person_confirms=True)
    if view.launch.session is not None:
        message = "the Host still has the session of this task; nothing is lost"
        raise Failure(Code.NOT_RECOVERABLE, message, stage=view.launch.state, task=task, session=view.launch.session)
    return view
