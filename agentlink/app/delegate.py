"""Delegating a task: everything that can be refused without the Host first, then one staged launch (003 FR-06)."""

from pathlib import Path

import anyio.to_thread
import msgspec

from agentlink.app.attempt import Attempt
from agentlink.app.look import settle_task
from agentlink.app.ports import JournalView, Rule
from agentlink.app.results import Delegated, Routing, claim_info, launch_brief
from agentlink.app.runtime import Runtime
from agentlink.app.to_the_end import Canceled
from agentlink.app.workspace import canonical_directory
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import ClaimMode, LaunchRecovered, LaunchRequested, LaunchSelected, Mode
from agentlink.core.host.faults import HostFault
from agentlink.core.ids import TaskId, is_request_key
from agentlink.core.launch import machine
from agentlink.core.launch.claims import Claim, first_conflict
from agentlink.core.launch.decide import Stop, stop_for_fault
from agentlink.core.launch.history import TaskView, verification_of
from agentlink.core.launch.state import Launch

MAX_PROMPT_BYTES = 8 << 20
MAX_TITLE_CHARACTERS = 200


class DelegateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks. `root` is the directory that a relative `cwd` starts from, if the caller declared one."""

    prompt: str
    cwd: str
    preset: str | None = None
    claim: ClaimMode = "exclusive-write"
    title: str | None = None
    request_key: str | None = None
    root: Path | None = None


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request."""

    prompt: str
    cwd: str
    mode: Mode
    preset: str | None
    claim: ClaimMode
    title: str | None
    key: str | None
    input: str | None


class _KeyTaken(Exception):
    def __init__(self, owner: TaskView) -> None:
        super().__init__(owner.task)
        self.owner = owner


async def delegate(runtime: Runtime, request: DelegateRequest) -> Delegated:
    """Hands the task to the Host and returns once its prompt is accepted. Raises Failure.

    Cancelling it stops a launch that is not selected yet; after that the launch runs on to its final fact (rule 12).
    """
    asked = await _checked(runtime, request)
    if asked.key is not None:
        owner = await runtime.store.key_owner(asked.key)
        if owner is not None:
            return await _join(runtime, asked, owner)
    await _claim_look(runtime, asked)
    session = runtime.new_session_id()
    await _reach_host(runtime, session)
    view = TaskView(runtime.new_task_id(), Launch(), 0)

    async def launch(canceled: Canceled) -> Delegated:
        async with runtime.store.drive(view.task):
            return await _launch(runtime, asked, view, canceled)

    try:
        return await runtime.to_the_end.run(launch)
    except _KeyTaken as taken:
        return await _join(runtime, asked, taken.owner)


async def _checked(runtime: Runtime, request: DelegateRequest) -> _Asked:
    _check_arguments(request)
    cwd = await anyio.to_thread.run_sync(lambda: canonical_directory(request.cwd, root=request.root))
    key = digest = None
    if request.request_key is not None:
        key = runtime.key_digest(request.request_key)
        parts = (request.prompt, cwd, request.preset, request.claim, request.title)
        digest = await anyio.to_thread.run_sync(runtime.input_digest, parts)
    return _Asked(
        prompt=request.prompt,
        cwd=cwd,
        mode="dsh-default" if request.preset is None else "manual",
        preset=request.preset,
        claim=request.claim,
        title=request.title,
        key=key,
        input=digest,
    )


def _check_arguments(request: DelegateRequest) -> None:
    if not request.prompt.strip():
        raise _invalid("prompt", "the prompt is empty")
    try:
        size = len(request.prompt.encode())
    except UnicodeEncodeError:
        raise _invalid("prompt", "the prompt holds half a surrogate pair and cannot be sent as it is") from None
    if size > MAX_PROMPT_BYTES:
        raise _invalid("prompt", f"the prompt has {size} bytes; at most {MAX_PROMPT_BYTES} are sent")
    if request.preset is not None and not request.preset.strip():
        raise _invalid("agentPreset", "the preset id is empty; leave it out for the Host's default")
    if request.title is not None and not 0 < len(request.title.strip()) <= MAX_TITLE_CHARACTERS:
        raise _invalid("title", f"a title has 1 to {MAX_TITLE_CHARACTERS} characters")
    if request.request_key is not None and not is_request_key(request.request_key):
        raise _invalid("requestKey", "a request key has 1 to 128 characters out of A-Z a-z 0-9 . _ : -")


def _invalid(argument: str, message: str) -> Failure:
    return Failure(Code.INVALID_REQUEST, message, details={"argument": argument})


# -- the workspace claim


def _claim_rule(task: str, asked_cwd: str, mode: ClaimMode) -> Rule:
    """Refuses a claim beside which another one may not stand."""

    def rule(journal: JournalView) -> None:
        conflict = first_conflict(Claim(task, asked_cwd, mode), journal.held_claims())
        if conflict is not None:
            raise _ClaimConflict(conflict)

    return rule


class _ClaimConflict(Failure):
    def __init__(self, claim: Claim) -> None:
        super().__init__(
            Code.WORKSPACE_CONFLICT,
            f"task {claim.task} holds {claim.cwd} ({claim.mode})",
            details={"taskId": claim.task, "cwd": claim.cwd, "mode": claim.mode},
        )
        self.claim = claim


async def _claim_look(runtime: Runtime, asked: _Asked) -> None:
    """An early answer before anything is made; decided again inside the journal lock.

    A conflict with a task whose driver is gone settles that task first (design section 6).
    """
    seen: set[str] = set()
    while True:
        try:
            await runtime.store.check(_claim_rule("", asked.cwd, asked.claim))
            return
        except _ClaimConflict as conflict:
            view = await runtime.store.task(TaskId(conflict.claim.task))
            if view is None or view.launch.settled or view.task in seen:
                raise
            seen.add(view.task)
            await settle_task(runtime, view)


# -- the Host


async def _reach_host(runtime: Runtime, session: str) -> None:
    """One read that proves reachability, wire, login and that the new session id is free."""
    try:
        taken = await runtime.host.session_state(session) is not None
    except HostFault as fault:
        stop = stop_for_fault(fault)
        raise Failure(stop.code, stop.message, details=stop.details) from fault
    if taken:  # pragma: no cover  (a fresh random id)
        raise Failure(Code.SESSION_IDENTITY_MISMATCH, f"the Host already has a session {session}")


# -- the launch


async def _launch(runtime: Runtime, asked: _Asked, view: TaskView, canceled: Canceled) -> Delegated:
    """A new attempt from launch/requested on. The task lock is held."""
    attempt = Attempt(runtime, view)
    await attempt.record(_requested(runtime, asked, view), rule=_key_rule(view.task, asked.key))
    if canceled.is_set:
        raise await attempt.fail(Stop(code=Code.CANCELED, message="canceled before anything was made on the Host"))
    await _select(runtime, asked, attempt)
    await attempt.create()
    await attempt.verify()
    await _send(asked, attempt)
    return delegated(attempt.task, attempt.launch, warnings=tuple(attempt.warnings))


def _requested(runtime: Runtime, asked: _Asked, view: TaskView) -> LaunchRequested:
    return LaunchRequested(
        attempt=view.launch.attempt + 1,
        mode=asked.mode,
        cwd=asked.cwd,
        claim=asked.claim,
        host=runtime.host.label,
        origin=runtime.host.origin,
        binding=runtime.host.binding,
        preset=asked.preset,
        key=asked.key,
        input=asked.input,
    )


def _key_rule(task: str, key: str | None) -> Rule | None:
    if key is None:
        return None

    def rule(journal: JournalView) -> None:
        owner = journal.key_owner(key)
        if owner is not None and owner.task != task:
            raise _KeyTaken(owner)

    return rule


async def _select(runtime: Runtime, asked: _Asked, attempt: Attempt) -> None:
    """requested -> selected: the claim is decided here, inside the lock, before anything is made on the Host."""
    selected = LaunchSelected(
        session=runtime.new_session_id(),
        reason="dsh_default" if asked.preset is None else "explicit_preset",
        preset=asked.preset,
    )
    try:
        await attempt.record(selected, rule=_claim_rule(attempt.task, asked.cwd, asked.claim))
    except Failure as failure:
        if failure.code is not Code.WORKSPACE_CONFLICT:
            raise
        raise await attempt.fail(Stop(code=failure.code, message=failure.message, details=failure.details)) from failure


async def _send(asked: _Asked, attempt: Attempt) -> None:
    await attempt.claim()
    if await attempt.check_again():
        await attempt.send(asked.prompt)
    if asked.title is not None and attempt.launch.state == machine.PROMPT_SENT:
        await attempt.title(asked.title)


# -- request keys (rule 8)


async def _join(runtime: Runtime, asked: _Asked, owner: TaskView) -> Delegated:
    """The same request key again: the task's state, or the attempt that its failed launch still needs."""
    if owner.launch.input != asked.input:
        raise Failure(
            Code.REQUEST_KEY_CONFLICT,
            f"this requestKey belongs to task {owner.task}, which was asked something else",
            task=owner.task,
            prompt_sent=owner.launch.prompt_sent,
        )
    view, problem = await settle_task(runtime, owner)
    if not view.launch.failed:
        if problem is not None and view.launch.state != machine.PROMPT_SENT and problem.code is not _BUSY:
            raise problem.located(
                stage=view.launch.state,
                task=view.task,
                session=view.launch.session or view.launch.intended_session,
                prompt_sent=view.launch.prompt_sent,
            )
        return delegated(view.task, view.launch, repeated=True)
    if view.launch.session is None:
        await _claim_look(runtime, asked)
        await _reach_host(runtime, runtime.new_session_id())
    return await _next_attempt(runtime, asked, view)


_BUSY = Code.LAUNCH_IN_PROGRESS


async def _next_attempt(runtime: Runtime, asked: _Asked, view: TaskView) -> Delegated:
    async def launch(canceled: Canceled) -> Delegated:
        async with runtime.store.drive(view.task):
            fresh = await runtime.store.task(view.task) or view
            if not fresh.launch.failed:
                return delegated(fresh.task, fresh.launch, repeated=True)
            if fresh.launch.unprompted:
                return await _recover_into(runtime, asked, fresh)
            return await _launch(runtime, asked, fresh, canceled)

    try:
        return await runtime.to_the_end.run(launch)
    except Failure as failure:
        if failure.code is not _BUSY or failure.stage is not None:
            raise
        fresh = await runtime.store.task(view.task) or view
        return delegated(fresh.task, fresh.launch, repeated=True)


async def _recover_into(runtime: Runtime, asked: _Asked, view: TaskView) -> Delegated:
    """A new attempt in the unprompted session of the one before; preset, claim and model are proven anew (rule 9)."""
    attempt = Attempt(runtime, view)
    launch = view.launch

    resolved = await attempt.look_before_recovery()
    again = LaunchRecovered(attempt=launch.attempt + 1, resolved=resolved, binding=runtime.host.binding)
    await attempt.record(again, rule=_claim_rule(view.task, launch.cwd, launch.claim_mode))
    await attempt.verify()
    await _send(asked, attempt)
    return delegated(attempt.task, attempt.launch, repeated=True, warnings=tuple(attempt.warnings))


def delegated(task: str, launch: Launch, *, repeated: bool = False, warnings: tuple[str, ...] = ()) -> Delegated:
    """The launch as the answer to a delegation."""
    return Delegated(
        task_id=task,
        session_id=launch.session,
        launch=launch_brief(launch),
        routing=Routing(
            mode=launch.mode,
            requested_preset=launch.preset or launch.asked_preset,
            resolved_preset=launch.resolved,
            verification=verification_of(launch),
            reason=launch.reason,
        ),
        claim=claim_info(launch),
        repeated=repeated,
        warnings=warnings,
    )
