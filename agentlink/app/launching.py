"""One staged launch, new or into an unprompted session, with the checks that come before it (003 FR-06)."""

import hashlib

import msgspec

from agentlink.app.attempt import Attempt, CatalogRead
from agentlink.app.look import settle_task
from agentlink.app.ports import JournalView, Rule
from agentlink.app.results import Delegated, Routing, claim_info, launch_brief
from agentlink.app.runtime import Runtime
from agentlink.app.to_the_end import Canceled
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import ClaimMode, LaunchRecovered, LaunchRequested, LaunchSelected, Mode, RosterRead
from agentlink.core.host.faults import HostFault
from agentlink.core.ids import TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.claims import Claim, first_conflict
from agentlink.core.launch.decide import Stop, failure_for, stop_for_fault
from agentlink.core.launch.history import TaskView, verification_of
from agentlink.core.launch.state import Launch
from agentlink.core.routing.hints import Hints, canonical
from agentlink.core.routing.router import Choice, not_configured, route
from agentlink.core.routing.rules import Rules
from agentlink.core.supervision.cursor import START, cursor_at, encode


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request. The prompt is in memory only; `key` and `input` are digests."""

    prompt: str
    cwd: str
    mode: Mode
    preset: str | None
    claim: ClaimMode
    hints: Hints | None = None
    rules: Rules | None = None
    chosen: Choice | None = None
    """What an earlier attempt of an automatic launch chose: a recovery never chooses anew."""
    title: str | None = None
    key: str | None = None
    input: str | None = None


class KeyTaken(Exception):
    """Another task got the request key first."""

    def __init__(self, owner: TaskView) -> None:
        super().__init__(owner.task)
        self.owner = owner


# -- the workspace claim


def claim_rule(task: str, asked_cwd: str, mode: ClaimMode) -> Rule:
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


async def claim_look(runtime: Runtime, asked: Asked) -> None:
    """An early answer before anything is made; decided again inside the journal lock.

    A conflict with a task whose driver is gone settles that task first (design section 6).
    """
    seen: set[str] = set()
    while True:
        try:
            await runtime.store.check(claim_rule("", asked.cwd, asked.claim))
            return
        except _ClaimConflict as conflict:
            view = await runtime.store.task(TaskId(conflict.claim.task))
            if view is None or view.launch.settled or view.task in seen:
                raise
            seen.add(view.task)
            await settle_task(runtime, view)


# -- the Host


async def reach_host(runtime: Runtime) -> CatalogRead:
    """Proves reachability, wire and login by a read; what it read serves the model check a moment later."""
    try:
        await runtime.host.ready()
        catalog = await runtime.host.model_catalog()
    except HostFault as fault:
        raise failure_for(fault) from fault
    return CatalogRead(catalog, runtime.clock.now())


# -- the launch


async def launch_anew(
    runtime: Runtime, asked: Asked, view: TaskView, canceled: Canceled, catalog: CatalogRead | None
) -> Delegated:
    """A new attempt from launch/requested on. The task lock is held."""
    attempt = Attempt(runtime, view, catalog)
    await attempt.record(_requested(runtime, asked, view), rule=_key_rule(view.task, asked.key))
    if canceled.is_set:
        raise await attempt.fail(Stop(code=Code.CANCELED, message="canceled before anything was made on the Host"))
    await _select(runtime, asked, attempt)
    await attempt.create()
    await attempt.verify()
    await _send(asked, attempt)
    return delegated(attempt.task, attempt.launch, warnings=tuple(attempt.warnings))


def _requested(runtime: Runtime, asked: Asked, view: TaskView) -> LaunchRequested:
    return LaunchRequested(
        attempt=view.launch.attempt + 1,
        mode=asked.mode,
        cwd=asked.cwd,
        claim=asked.claim,
        host=runtime.host.label,
        origin=runtime.host.origin,
        binding=runtime.host.binding,
        preset=asked.preset,
        hints=None if asked.hints is None else _digest(canonical(asked.hints)),
        key=asked.key,
        input=asked.input,
    )


def _key_rule(task: str, key: str | None) -> Rule | None:
    if key is None:
        return None

    def rule(journal: JournalView) -> None:
        owner = journal.key_owner(key)
        if owner is not None and owner.task != task:
            raise KeyTaken(owner)

    return rule


async def _select(runtime: Runtime, asked: Asked, attempt: Attempt) -> None:
    """requested -> selected: the claim is decided here, inside the lock, before anything is made on the Host."""
    session = runtime.new_session_id()
    if asked.mode == "automatic":
        choice = await _choose(runtime, asked, attempt)
        selected = LaunchSelected(session=session, reason=choice.reason, preset=choice.preset, rule=choice.rule)
    else:
        reason = "dsh_default" if asked.preset is None else "explicit_preset"
        selected = LaunchSelected(session=session, reason=reason, preset=asked.preset)
    try:
        await attempt.record(selected, rule=claim_rule(attempt.task, asked.cwd, asked.claim))
    except Failure as failure:
        if failure.code is not Code.WORKSPACE_CONFLICT:
            raise
        raise await attempt.fail(Stop(code=failure.code, message=failure.message, details=failure.details)) from failure


async def _choose(runtime: Runtime, asked: Asked, attempt: Attempt) -> Choice:
    """requested -> roster-read, and the one choice for hints, rules and that roster (003 FR-03, FR-05)."""
    try:
        roster = await runtime.host.roster()
    except HostFault as fault:
        raise await attempt.fail(stop_for_fault(fault)) from fault
    broken = sum(preset.broken is not None for preset in roster)
    await attempt.record(RosterRead(presets=len(roster), broken=broken, wire=runtime.host.wire or "unknown"))
    if asked.chosen is not None:
        return asked.chosen
    try:
        if asked.hints is None or asked.rules is None:
            raise not_configured(exists=False)
        return route(asked.hints, asked.rules, roster)
    except Failure as failure:
        stop = Stop(code=failure.code, message=failure.message, details=failure.details)
        raise await attempt.fail(stop) from failure


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


async def _send(asked: Asked, attempt: Attempt) -> None:
    await attempt.claim()
    if await attempt.check_again():
        await attempt.send(asked.prompt)
    if asked.title is not None and attempt.launch.state == machine.PROMPT_SENT:
        await attempt.title(asked.title)


async def recover_into(runtime: Runtime, asked: Asked, view: TaskView) -> Delegated:
    """A new attempt in the unprompted session of the one before; preset, claim and model are proven anew (rule 9)."""
    attempt = Attempt(runtime, view)
    launch = view.launch

    resolved = await attempt.look_before_recovery()
    again = LaunchRecovered(attempt=launch.attempt + 1, resolved=resolved, binding=runtime.host.binding)
    await attempt.record(again, rule=claim_rule(view.task, launch.cwd, launch.claim_mode))
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
            rule_id=launch.rule,
            requested_preset=launch.preset or launch.asked_preset,
            resolved_preset=launch.resolved,
            verification=verification_of(launch),
            reason=launch.reason,
        ),
        claim=claim_info(launch),
        repeated=repeated,
        cursor=encode(cursor_at(task, START)),
        warnings=warnings,
    )
