"""Answering what an agent asks a person: typed questions, and approvals of single tool calls (003 FR-13).

Nothing is ever answered by itself. The Host's receipt proves nothing, so the log is read for who won.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import anyio

from agentlink.app.attempt import outcome_unknown
from agentlink.app.conversation import Conversation, read_conversation
from agentlink.app.ports import Feed
from agentlink.app.read_log import events_after
from agentlink.app.results import Result
from agentlink.app.runtime import Runtime
from agentlink.app.stale import refuse_if_stale
from agentlink.app.to_the_end import Canceled
from agentlink.app.writing import Writing, located_at, prompted, writing
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import WriteKind
from agentlink.core.host.faults import HostFault
from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AskedApproval,
    AskedQuestions,
    Attached,
    Event,
    Offer,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    Withdrawn,
)
from agentlink.core.ids import TaskId
from agentlink.core.launch.decide import stop_for_fault
from agentlink.core.launch.state import Launch
from agentlink.core.supervision.interactions import (
    APPROVAL_VALUES,
    Answer,
    BadAnswer,
    Outcome,
    Pending,
    Question,
    checked_answers,
    offers_for,
    question_id,
    questions_in_offer,
    request_id_of,
    says_the_same,
)

OFFER_WAIT_S = 2.0
"""How long the Host may take to offer what its log shows as pending."""
PROOF_WAIT_S = 5.0
_PROOF_POLL_S = 0.05
_SETTLED_MESSAGES = 60
"""How far back the log is searched for what an item was settled as."""


class Resolved(Result, frozen=True, kw_only=True):
    """What became of an answer; `delivery` is in_history when the log shows it, unknown while it does not yet."""

    task_id: str
    session_id: str
    request_id: str
    delivery: Literal["in_history", "unknown"]
    outcome: str | None = None
    """Of an approval, as the log has it: allowed-once, rejected."""
    warnings: tuple[str, ...] = ()


Prepare = Callable[[AskedApproval | AskedQuestions], Any]
"""Makes the value that is sent from what the Host offers. Raises Failure; then nothing is sent."""


async def answer_question(
    runtime: Runtime, task: TaskId, request_id: str, answers: Sequence[Answer], *, since_cursor: str | None = None
) -> Resolved:
    """Answers every question of one request. Raises Failure bad_answer, not_pending, ambiguous_request, …"""
    launch, pending = await _pending(runtime, task, request_id, "question", since_cursor)
    if pending.questions and all(question.id for question in pending.questions):
        _checked(task, launch, pending.questions, answers)

    def prepare(offer: AskedApproval | AskedQuestions) -> Any:
        questions = questions_in_offer(offer.questions) if isinstance(offer, AskedQuestions) else ()
        return {"answers": _checked(task, launch, questions, answers)}

    return await _resolve(runtime, task, pending, kind="answer", needs_claim=True, prepare=prepare)


async def resolve_approval(
    runtime: Runtime, task: TaskId, request_id: str, outcome: Outcome, *, since_cursor: str | None = None
) -> Resolved:
    """Allows one tool call once, or rejects it, as a person decided. Raises Failure not_pending, ambiguous_request, …

    Allowing needs the workspace claim; rejecting is always possible.
    """
    _, pending = await _pending(runtime, task, request_id, "approval", since_cursor)
    allow = outcome == "allow_once"
    kind: WriteKind = "approval-allow" if allow else "approval-reject"
    return await _resolve(
        runtime, task, pending, kind=kind, needs_claim=allow, prepare=lambda _: APPROVAL_VALUES[outcome]
    )


def _checked(
    task: str, launch: Launch, questions: Sequence[Question], answers: Sequence[Answer]
) -> list[dict[str, Any]]:
    try:
        return checked_answers(questions, answers)
    except BadAnswer as bad:
        details = {"questionId": bad.question, "allowed": list(bad.allowed)}
        message = f"question {bad.question!r}: {bad.reason}"
        raise located_at(Failure(Code.BAD_ANSWER, message, details=details), task, launch) from None


async def pending_item(runtime: Runtime, task: TaskId, request_id: str, kind: str) -> Pending:
    """The item that waits for a person, whole: what is shown before a decision must hide nothing. Raises Failure."""
    return (await _pending(runtime, task, request_id, kind, None))[1]


async def _pending(
    runtime: Runtime, task: TaskId, request_id: str, kind: str, since_cursor: str | None
) -> tuple[Launch, Pending]:
    """The item as the log shows it now. Raises Failure."""
    view = await prompted(runtime, task)
    await refuse_if_stale(runtime, view, since_cursor)
    conversation = await read_conversation(runtime, view.launch)
    if conversation.failure is not None:
        raise located_at(conversation.failure, task, view.launch)
    found = [one for one in conversation.now().pending if one.request_id == request_id and one.kind == kind]
    if len(found) > 1:
        raise located_at(_ambiguous(request_id), task, view.launch)
    if not found:
        settled = await _settled_as(runtime, conversation.session, request_id, kind)
        raise located_at(_not_pending(request_id, conversation, settled), task, view.launch)
    return view.launch, found[0]


def _not_pending(request_id: str, conversation: Conversation, settled: str | None) -> Failure:
    now = conversation.now()
    pending = [{"requestId": one.request_id, "kind": one.kind} for one in now.pending]
    details: dict[str, object] = {"execution": now.execution, "pending": pending}
    how = ""
    if settled is not None:
        details["settledAs"] = settled
        how = f": it was settled as {settled}"
    message = f"{request_id} does not wait for an answer{how}; the task is {now.execution}"
    return Failure(Code.NOT_PENDING, message, details=details)


async def _settled_as(runtime: Runtime, session: str, request_id: str, kind: str) -> str | None:
    """How the log says that the item ended; None when its end part does not show that, or cannot be read."""
    try:
        state = await runtime.host.session_state(session)
        if state is None or state.last_seq < 0:
            return None
        page = await runtime.host.page(session, through=state.last_seq, messages=_SETTLED_MESSAGES)
    except HostFault:
        return None
    asked = call = settled = None
    for event in page.events:
        match event:
            case ApprovalAsked() if kind == "approval" and request_id_of(event) == request_id:
                asked, call = event.approval, event.call
            case ToolCalled() if kind == "question" and question_id(event) == request_id:
                asked = call = event.call
            case ApprovalDecided() if event.approval == asked:
                settled = event.outcome
            case ToolEnded() if asked is not None and event.call == call:
                settled = settled or event.error_code or ("answered" if kind == "question" else None)
            case _:
                pass
    return settled


def _ambiguous(request_id: str) -> Failure:
    return Failure(Code.AMBIGUOUS_REQUEST, f"more than one item goes by {request_id}")


async def _resolve(
    runtime: Runtime, task: TaskId, pending: Pending, *, kind: WriteKind, needs_claim: bool, prepare: Prepare
) -> Resolved:
    async def run(_: Canceled) -> Resolved:
        async with (
            writing(runtime, task) as writer,
            runtime.link() as link,
            link.offers() as feed,
        ):
            client, offer = await _offered(runtime, writer, feed, pending)
            state = await _still_pending(runtime, writer, pending)
            value = prepare(offer)
            target = hashlib.blake2b(pending.request_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            request = await writer.intend(kind, needs_claim=needs_claim, target=target)
            answer = _Sent(runtime, writer, pending, request, after=state)
            return await answer.send(lambda: runtime.host.answer_offer(client, offer.key, value), value)

    return await runtime.to_the_end.run(run)


async def _still_pending(runtime: Runtime, writer: Writing, pending: Pending) -> int:
    """Proves that the very item still waits, after the Host offered what is now about to be answered, and gives the
    end of the log. Raises Failure.

    The item was read before this write had its turn: since then it may have been answered, and another one asked
    that looks the same.
    """
    conversation = await read_conversation(runtime, writer.launch)
    if conversation.failure is not None:
        raise writer.located(conversation.failure)
    if conversation.root is None or not any(
        (one.request_id, one.kind) == (pending.request_id, pending.kind) for one in conversation.now().pending
    ):
        settled = await _settled_as(runtime, writer.session, pending.request_id, pending.kind)
        raise writer.located(_not_pending(pending.request_id, conversation, settled))
    return conversation.root.timeline.last_seq


async def _offered(
    runtime: Runtime, writer: Writing, feed: Feed[Offer], pending: Pending
) -> tuple[str, AskedApproval | AskedQuestions]:
    """The Host's own offer of the item, to this client. Raises Failure not_pending, ambiguous_request, …"""
    client: str | None = None
    offers: dict[str, AskedApproval | AskedQuestions] = {}
    lost = "the Host did not answer"
    deadline = runtime.clock.now() + OFFER_WAIT_S
    # Once one is there, those that were offered with it follow at once: only then is it known to be the only one.
    while (left := deadline - runtime.clock.now()) > 0:
        item: Offer | None = None
        with anyio.move_on_after(left):
            item = await feed.next()
        match item:
            case Attached():
                client = item.client
                offers.clear()
            case AskedApproval() | AskedQuestions():
                offers[item.key] = item
                if offers_for(pending, list(offers.values()), session=writer.session):
                    deadline = min(deadline, runtime.clock.now() + _SETTLE_S)
            case Withdrawn():
                offers.pop(item.key, None)
            case None:
                break
            case _:
                lost, client = item.reason, None
                offers.clear()
    if client is None:
        raise writer.failure(Code.HOST_UNREACHABLE, f"the Host's offers cannot be read: {lost}")
    fitting = offers_for(pending, list(offers.values()), session=writer.session)
    if len(fitting) > 1:
        raise writer.located(_ambiguous(pending.request_id))
    if not fitting:
        settled = await _settled_as(runtime, writer.session, pending.request_id, pending.kind)
        message = f"the Host does not offer {pending.request_id} for an answer any more"
        details: dict[str, object] = {} if settled is None else {"settledAs": settled}
        raise writer.failure(Code.NOT_PENDING, message, details=details or None)
    return client, fitting[0]


_SETTLE_S = 0.1


class _Sent:
    """An answer on its way, and the proof of what became of it."""

    def __init__(self, runtime: Runtime, writer: Writing, pending: Pending, request: str, *, after: int) -> None:
        self._runtime = runtime
        self._writer = writer
        self._pending = pending
        self._request = request
        self._after = after

    async def send(self, call: Callable[[], Awaitable[None]], value: Any) -> Resolved:
        writer = self._writer
        try:
            await call()
        except HostFault as fault:
            if not outcome_unknown(fault):
                await writer.settle(self._request, "refused", host_code=getattr(fault, "code", None))
                stop = stop_for_fault(fault)
                raise writer.failure(stop.code, stop.message, details=dict(stop.details or {})) from fault
        proof = await self._proof()
        if proof is None:
            await writer.settle(self._request, "unknown")
            return self._answer("unknown", None)
        decided = self._judged(proof, value)
        if decided == "unknown":
            await writer.settle(self._request, "unknown")
            return self._answer("unknown", None)
        if decided is None:
            await writer.settle(self._request, "refused")
            raise writer.failure(
                Code.NOT_PENDING,
                f"{self._pending.request_id} was settled otherwise: {_told(proof)}",
                details={"settledAs": _told(proof)},
            )
        await writer.settle(self._request, "history")
        return self._answer("in_history", decided or None)

    async def _proof(self) -> ToolEnded | ApprovalDecided | TurnEnded | None:
        """The event that ended the item; None when the log shows none in time or cannot be read."""
        deadline = self._runtime.clock.now() + PROOF_WAIT_S
        while self._runtime.clock.now() < deadline:
            try:
                events = await events_after(self._runtime.host, self._writer.session, self._after)
            except HostFault:
                events = ()
            found = self._ending(events)
            if found is not None:
                return found
            await self._runtime.clock.sleep(_PROOF_POLL_S)
        return None

    def _ending(self, events: Sequence[Event]) -> ToolEnded | ApprovalDecided | TurnEnded | None:
        for event in events:
            match event:
                case ApprovalDecided() if (
                    self._pending.kind == "approval" and event.approval == self._pending.request_id
                ):
                    return event
                case ToolEnded() if event.call == self._pending.call_id:
                    return event
                case TurnEnded():
                    return event
                case _:
                    pass
        return None

    def _judged(self, proof: ToolEnded | ApprovalDecided | TurnEnded, value: Any) -> str | None:
        """What the log says of this very answer ("" for a question's); None when another one won, "unknown" when the
        log does not tell whose it was."""
        match proof:
            case ApprovalDecided():
                return proof.outcome if proof.outcome == value else None
            case ToolEnded() if self._pending.kind == "question":
                same = says_the_same(proof.text, value)
                if same is None and not proof.failed and proof.error_code is None:
                    return "unknown"
                return "" if same else None
            case _:
                return None

    def _answer(self, delivery: Literal["in_history", "unknown"], outcome: str | None) -> Resolved:
        return Resolved(
            task_id=self._writer.task,
            session_id=self._writer.session,
            request_id=self._pending.request_id,
            delivery=delivery,
            outcome=outcome,
            warnings=tuple(self._writer.warnings),
        )


def _told(proof: ToolEnded | ApprovalDecided | TurnEnded) -> str:
    match proof:
        case ApprovalDecided():
            return proof.outcome
        case ToolEnded():
            return proof.error_code or "answered"
        case TurnEnded():
            return f"the turn ended ({proof.kind})"
