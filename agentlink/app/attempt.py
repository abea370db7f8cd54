"""One launch attempt, driven step by step: each fact is on disk before the effect that it names."""

import msgspec

from agentlink.app.ports import Rule
from agentlink.app.read_log import whole_log
from agentlink.app.runtime import Runtime
from agentlink.app.settle import facts_from_host
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.base import fact_type
from agentlink.core.facts.launch import (
    LaunchClaimed,
    LaunchFailed,
    PresetVerified,
    PromptSent,
    SessionCreated,
    Verified,
)
from agentlink.core.facts.work import TaskFact, TaskLineFact
from agentlink.core.host.faults import BadReply, HostFault, Refused, ReplyLost
from agentlink.core.host.find_prompt import find_prompt, others_took_part
from agentlink.core.host.values import CreatedSession, ModelCatalog, SessionState
from agentlink.core.ids import RequestId, SessionId, TaskId, prompt_request_id
from agentlink.core.launch import machine
from agentlink.core.launch.decide import (
    Stop,
    failed,
    judge_identity,
    judge_model_route,
    judge_preset,
    stop_for_fault,
)
from agentlink.core.launch.history import StaleTask, TaskView
from agentlink.core.launch.settle import Look
from agentlink.core.launch.state import GUARDS, Launch, apply
from agentlink.core.statechart.engine import Engine

NOT_RECORDED = "not_recorded"
TITLE_FAILED = "title_failed"

_engine: Engine[Launch] = Engine(machine.TABLE, GUARDS)


def outcome_unknown(fault: HostFault) -> bool:
    """Whether a write that raised this may have taken effect."""
    return isinstance(fault, ReplyLost | BadReply) or (isinstance(fault, Refused) and not fault.final)


CATALOG_FRESH_S = 1.0
"""A catalog older than this is read again before the model route is judged."""


class CatalogRead(msgspec.Struct, frozen=True):
    """A model catalog and the monotonic second at which it was read."""

    catalog: ModelCatalog
    at: float


class Attempt:
    """The driver of one task's launch. Whoever makes one holds the task lock (design section 3, rule 1)."""

    def __init__(self, runtime: Runtime, view: TaskView, catalog: CatalogRead | None = None) -> None:
        self._runtime = runtime
        self._catalog = catalog
        self.task: TaskId = view.task
        self.launch = view.launch
        self.n = view.n
        self.warnings: list[str] = []

    async def record(self, *facts: TaskLineFact, rule: Rule | None = None) -> None:
        """Appends one line. Raises Failure, told from where the launch stands; then no effect may follow."""
        launch = self.launch
        for fact in facts:
            if not isinstance(fact, TaskFact):
                _engine.step(launch.state, fact_type(fact), launch)
                break  # later facts of one line are checked by the store's own fold, state by state
        try:
            view = await self._runtime.store.append(self.task, facts, expected_n=self.n, rule=rule)
        except (Failure, StaleTask) as error:
            await self._read_again()
            if isinstance(error, StaleTask):
                raise self.failure(Code.LAUNCH_IN_PROGRESS, "another process changed this task meanwhile") from error
            raise self.located(error) from error
        self.launch, self.n = view.launch, view.n

    async def _read_again(self) -> None:
        """After a failed append its line may stand all the same."""
        try:
            view = await self._runtime.store.task(self.task)
        except Failure:
            return  # what cannot be read cannot be written either: the append's own failure stands
        if view is not None:
            self.launch, self.n = view.launch, view.n

    def failure(self, code: Code, message: str) -> Failure:
        return self.located(Failure(code, message))

    def located(self, failure: Failure) -> Failure:
        """The failure, told from where the launch stands now."""
        launch = self.launch
        return failure.located(
            stage=launch.state,
            task=self.task if self.n else None,
            session=launch.session or launch.intended_session,
            prompt_sent=launch.prompt_sent,
        )

    async def fail(self, stop: Stop) -> Failure:
        """Ends the attempt with launch/failed; the Failure to raise. Nothing was sent."""
        stage, session = self.launch.state, self.launch.session
        details = dict(stop.details or {})
        if session is None and self.launch.intended_session is not None and stage == machine.SELECTED:
            details["intendedSessionId"] = self.launch.intended_session
        try:
            await self.record(failed(self.launch, stop))
        except Failure as unwritten:
            # The first code stands; that the end is not on disk is said beside it, and the next look settles it.
            details[NOT_RECORDED] = unwritten.code.value
        return Failure(
            stop.code,
            stop.message,
            stage=stage,
            task=self.task,
            session=session,
            prompt_sent=False,
            details=details or None,
        )

    # -- the stages, in order

    async def create(self) -> None:
        """selected -> session-created, and the create's answer compared (rules 3, 6, 7)."""
        launch, host = self.launch, self._runtime.host
        session = SessionId(launch.intended_session or "")
        try:
            created = await host.create_session(session, cwd=launch.cwd, preset=launch.preset)
        except HostFault as fault:
            if not outcome_unknown(fault):
                raise await self.fail(stop_for_fault(fault)) from fault
            created = await self._look_for_session(session, fault)
        await self.record(SessionCreated(session=created.session, resolved=created.resolved))
        stop = judge_identity(self.launch, created)
        if stop is not None:
            raise await self.fail(stop)

    async def _look_for_session(self, session: str, fault: HostFault) -> CreatedSession:
        """The session of a create whose answer was lost. It is never asked for again: that could make a second one."""
        quiet_since = self._runtime.clock.now()
        try:
            state = await self._runtime.host.session_state(session)
        except HostFault as unreadable:
            raise self._unsettled("create", unreadable) from unreadable
        if state is not None:
            return CreatedSession(session, state.preset)
        if isinstance(fault, Refused):
            # The Host has answered, so nothing is on its way: a refused create leaves no session (dsh-wire section 3).
            raise await self.fail(stop_for_fault(fault))
        try:
            facts = await facts_from_host(self._runtime, self.launch, Look.SESSION, quiet_since=quiet_since)
        except HostFault as unreadable:
            raise self._unsettled("create", unreadable) from unreadable
        match facts:
            case (SessionCreated() as late, *_):
                return CreatedSession(late.session, late.resolved)
            case None:
                raise self.failure(Code.HOST_CHANGED, "the Host that answers is not known to be the one that was asked")
            case _:
                raise await self.fail(stop_for_fault(fault))

    def _unsettled(self, call: str, unreadable: HostFault) -> Failure:
        stop = stop_for_fault(unreadable)
        return self.failure(stop.code, f"the answer to the {call} was lost and cannot be settled now: {stop.message}")

    async def look_before_recovery(self) -> str | None:
        """The preset that the unprompted session has now. Raises Failure; the task stays as it was."""
        try:
            state = await self._runtime.host.session_state(self.launch.session or "")
        except HostFault as fault:
            stop = stop_for_fault(fault)
            raise self.failure(stop.code, stop.message) from fault
        if state is None:
            raise self.failure(Code.SESSION_NOT_FOUND, "the Host does not have the unprompted session")
        return state.preset

    async def verify(self) -> None:
        """session-created -> preset-verified: the create's answer against what was asked (rules 3, 4)."""
        verdict = self._judge(self.launch.resolved)
        if isinstance(verdict, Stop):
            raise await self.fail(verdict)
        await self.record(PresetVerified(verification=verdict))

    def _judge(self, resolved: str | None) -> Stop | Verified:
        return judge_preset(self.launch, resolved, host_reports_presets=self._runtime.host.reports_presets)

    async def claim(self) -> None:
        """preset-verified -> claimed: the claim still stands, and the prompt's request id is on disk (rules 7, 9)."""
        if not self.launch.claim_held:
            raise await self.fail(
                Stop(code=Code.WORKSPACE_CLAIM_MISSING, message="the workspace was released while the launch ran")
            )
        earlier = self.launch.earlier_requests
        request = earlier[-1] if earlier else prompt_request_id(self.task, attempt=self.launch.attempt, number=0)
        await self.record(LaunchClaimed(request=request))

    async def check_again(self) -> bool:
        """Model route, then the preset afresh, right before the prompt (rule 2).

        False when an earlier prompt of this task turned up in the log: nothing is left to send (rule 9).
        """
        host, launch = self._runtime.host, self.launch
        try:
            catalog = await self._model_catalog()
            state = await host.session_state(launch.session or "")
            if state is None:
                raise await self.fail(Stop(code=Code.SESSION_NOT_FOUND, message="the Host lost the session"))
            sent_before = await self._turned_up(state) if launch.earlier_requests else False
        except HostFault as fault:
            raise await self.fail(stop_for_fault(fault)) from fault
        if sent_before:
            return False
        stop = judge_model_route(catalog, state)
        if stop is not None:
            raise await self.fail(stop)
        verdict = self._judge(state.preset)
        if isinstance(verdict, Stop):
            raise await self.fail(verdict)
        if not launch.earlier_requests and not state.blank:
            raise await self.fail(_NOT_BLANK)
        return True

    async def _model_catalog(self) -> ModelCatalog:
        """The catalog that the Host was reached with a moment ago, or a fresh one."""
        read = self._catalog
        if read is not None and self._runtime.clock.now() - read.at < CATALOG_FRESH_S:
            return read.catalog
        return await self._runtime.host.model_catalog()

    async def _turned_up(self, state: SessionState) -> bool:
        launch = self.launch
        events, _ = await whole_log(self._runtime.host, launch.session or "", through=state.last_seq)
        if others_took_part(events, frozenset(launch.earlier_requests)):
            raise await self.fail(_NOT_BLANK)
        for request in dict.fromkeys(launch.earlier_requests):
            if find_prompt(events, request).standing in ("waiting", "claimed", "delivered"):
                await self.record(PromptSent(request=request, evidence="log"))
                return True
        return False

    async def send(self, prompt: str) -> None:
        """claimed -> prompt-sent. The prompt leaves once; a lost answer is settled from the Host's history."""
        launch = self.launch
        request = RequestId(launch.request or "")
        try:
            await self._runtime.host.send_prompt(launch.session or "", request=request, prompt=prompt)
        except HostFault as fault:
            if not outcome_unknown(fault):
                raise await self.fail(stop_for_fault(fault)) from fault
            await self._look_for_prompt(fault)
            return
        sent = PromptSent(request=request, evidence="receipt")
        try:
            await self.record(sent)
        except Failure:
            # The Host has it: the delegation succeeded, and the next look finds it in the log (rule 11).
            self.warnings.append(NOT_RECORDED)
            if self.launch.state == machine.CLAIMED:
                self.launch = apply(self.launch, sent)

    async def _look_for_prompt(self, fault: HostFault) -> None:
        """Settles a prompt whose answer was lost. Returns when the Host has it; raises Failure otherwise."""
        lost = stop_for_fault(fault)
        try:
            facts = await facts_from_host(
                self._runtime, self.launch, Look.PROMPT, quiet_since=self._runtime.clock.now()
            )
        except HostFault:
            facts = None
        match facts:
            case None:
                raise self.failure(Code.DELIVERY_UNKNOWN, f"the prompt was sent, its answer was lost: {lost.message}")
            case (LaunchFailed(code=code), *_) if code != Code.INTERRUPTED:
                raise await self.fail(Stop(code=Code(code), message="the Host took the prompt, but it will not run"))
            case (LaunchFailed(), *_):
                raise await self.fail(lost)
            case _:
                await self.record(*facts)

    async def title(self, title: str) -> None:
        """Names the session after its prompt is sent; failing is only a warning (rule 10)."""
        try:
            await self._runtime.host.rename(self.launch.session or "", title)
        except HostFault:
            self.warnings.append(TITLE_FAILED)


_NOT_BLANK = Stop(code=Code.SESSION_NOT_BLANK, message="somebody else has begun to use the session")
