"""Questions and approvals that wait for a person, as the log shows them, and the check of an answer (field case F13).

The newer Host takes any answer and hands it to the model: what is wrong with one is found here, before it is sent.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agentlink.core.host.timeline import Timeline
from agentlink.core.host.values import ApprovalAsked, AskedApproval, AskedQuestions, Offer, ToolCalled
from agentlink.core.supervision.digest import event_id

MAX_REASON = 2_000
MAX_ARGUMENTS = 4_000
_NAMED, _MOST_NAMED = 200, 50
"""Characters of a label, and how many labels, that a refusal names."""
_TELLING = 1_000
"""So many equal characters at the beginning of an answer that the log cut off are proof enough."""
MAX_SHOWN = 16_000
"""Characters of all questions of a request that a reply carries."""

Outcome = Literal["allow_once", "reject"]
APPROVAL_VALUES: dict[Outcome, str] = {"allow_once": "allowed-once", "reject": "rejected"}
"""What a Host is told, and what its log says afterwards."""


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One choice of a question; its label is what an answer names."""

    label: str
    description: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One question as it was issued. Without options it is answered in free text."""

    id: str = ""
    question: str = ""
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


class Pending(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something the agent waits for.

    `requestId` is never that of another item, whatever ids a model gives its calls: an approval's own id, and for a
    question its call with the number of the event. Both survive in the log.
    """

    request_id: str
    kind: Literal["approval", "question"]
    tool: str
    call_id: str | None = None
    reason: str | None = None
    arguments: str | None = None
    """Of an approval: what the tool would be called with, JSON text."""
    questions: tuple[Question, ...] = ()
    cut: bool = False
    """Whether a reply carries less than all of it; `sizes` tells the characters of the whole reason and arguments."""
    sizes: tuple[int, int] | None = None
    event: str | None = None
    """Where the whole of what was cut is: the event of the tool call, which `dsh_tail` reads."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one question: chosen labels, own text, or neither to skip it."""

    id: str
    selected: tuple[str, ...] = ()
    custom: str | None = None


def _short(text: str) -> str:
    return text[:_NAMED].encode("utf-8", "replace").decode()


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class BadAnswer(Exception):
    """An answer that does not fit its question; `question` is the id of the one it is about."""

    def __init__(self, reason: str, *, question: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.question = question
        self.allowed = tuple(_short(one) for one in allowed[:_MOST_NAMED])


class _FromLog(msgspec.Struct):
    """A question in the tool call's own spelling."""

    id: str = ""
    question: str = ""
    header: str = ""
    options: list[Option] = []
    multi_select: bool = False


class _Asked(msgspec.Struct):
    questions: list[_FromLog] = []


def pending_items(timeline: Timeline) -> tuple[Pending, ...]:
    """What waits for a person now: approvals first, as they block what was asked before them."""
    calls = {call.call: call for call in timeline.tools}
    approvals = [
        Pending(
            request_id=request_id_of(asked),
            kind="approval",
            tool=asked.tool,
            call_id=asked.call,
            reason=asked.reason or None,
            arguments=calls[asked.call].arguments or None if asked.call in calls else None,
            event=event_id(None, calls[asked.call].seq) if asked.call in calls else None,
        )
        for asked in timeline.approvals
    ]
    questions = [
        Pending(
            request_id=question_id(call),
            kind="question",
            tool=call.name,
            call_id=call.call,
            questions=questions_in_call(call.arguments),
            event=event_id(None, call.seq),
        )
        for call in timeline.questions
    ]
    return (*approvals, *questions)


def shown(pending: Sequence[Pending]) -> tuple[Pending, ...]:
    """The items as a reply carries them; what is left out of one is said, and where the whole is."""
    return tuple(_shown(item) for item in pending)


def _shown(item: Pending) -> Pending:
    reason, arguments = item.reason or "", item.arguments or ""
    questions = _cut(item.questions)
    if len(reason) <= MAX_REASON and len(arguments) <= MAX_ARGUMENTS and questions == item.questions:
        return replace(item, event=None)
    return replace(
        item,
        reason=reason[:MAX_REASON] or None,
        arguments=arguments[:MAX_ARGUMENTS] or None,
        questions=questions,
        cut=True,
        sizes=(len(reason), len(arguments)) if item.kind == "approval" else None,
    )


def _cut(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    if sum(len(q.question) + len(q.header) + sum(_size(o) for o in q.options) for q in questions) <= MAX_SHOWN:
        return questions
    share = MAX_SHOWN // (3 * sum(1 + len(q.options) for q in questions)) + 1
    return tuple(
        replace(
            q,
            question=q.question[:share],
            header=q.header[:share],
            options=tuple(Option(option.label[:share], option.description[:share]) for option in q.options),
        )
        for q in questions
    )


def _size(option: Option) -> int:
    return len(option.label) + len(option.description)


def request_id_of(asked: ApprovalAsked) -> str:
    """How an approval is named to callers: not by its call, whose id a model may use again."""
    return asked.approval


def question_id(call: ToolCalled) -> str:
    """How a question is named to callers."""
    return f"{call.call}@{call.seq}"


def questions_in_call(arguments: str) -> tuple[Question, ...]:
    """The questions of a tool call's JSON arguments; none when the call is not of the known form."""
    try:
        asked = msgspec.json.decode(arguments, type=_Asked)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ()
    return tuple(
        Question(id=q.id, question=q.question, header=q.header, options=tuple(q.options), multi_select=q.multi_select)
        for q in asked.questions
    )


def questions_in_offer(raw: bytes) -> tuple[Question, ...]:
    """The questions that a Host offers to a client; none when they are not of the known form."""
    try:
        return tuple(msgspec.json.decode(raw, type=list[Question]))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ()


def offers_for(pending: Pending, offers: Sequence[Offer], *, session: str) -> list[AskedApproval | AskedQuestions]:
    """The Host's offers that are this pending item: approvals by their call, questions by session and content."""
    if pending.kind == "approval":
        return [
            offer
            for offer in offers
            if isinstance(offer, AskedApproval)
            and offer.session == session
            and (offer.call == pending.call_id if offer.call else (offer.reason or None) == pending.reason)
        ]
    wanted = [_content(question) for question in pending.questions]
    return [
        offer
        for offer in offers
        if isinstance(offer, AskedQuestions)
        and offer.session == session
        and [_content(question) for question in questions_in_offer(offer.questions)] == wanted
    ]


def _content(question: Question) -> tuple[Any, ...]:
    return (question.question, tuple(option.label for option in question.options), question.multi_select)


def checked_answers(questions: Sequence[Question], answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The answers in the issued order, ready to be sent. Raises BadAnswer; then nothing may be sent."""
    issued = [question.id for question in questions]
    given: dict[str, Answer] = {}
    for answer in answers:
        if not all(map(_is_text, (answer.id, *answer.selected, answer.custom or ""))):
            raise BadAnswer("the answer is not text in UTF-8", question=_short(answer.id))
        if answer.id not in issued:
            raise BadAnswer(f"no question has the id {_short(answer.id)!r}", question=_short(answer.id), allowed=issued)
        if answer.id in given:
            raise BadAnswer(f"question {answer.id!r} is answered twice", question=answer.id)
        given[answer.id] = answer
    for question in questions:
        if question.id not in given:
            raise BadAnswer(f"question {question.id!r} is not answered", question=question.id, allowed=issued)
    return [_checked(question, given[question.id]) for question in questions]


def _checked(question: Question, answer: Answer) -> dict[str, Any]:
    labels = [option.label for option in question.options]
    for label in answer.selected:
        if label not in labels:
            raise BadAnswer(f"{_short(label)!r} is no option of it", question=question.id, allowed=labels)
        if answer.selected.count(label) > 1:
            raise BadAnswer(f"{_short(label)!r} is chosen twice", question=question.id, allowed=labels)
    if answer.custom is not None and not answer.custom.strip():
        raise BadAnswer("own text is empty", question=question.id, allowed=labels)
    if not question.multi_select:
        if len(answer.selected) > 1:
            raise BadAnswer("it takes one choice only", question=question.id, allowed=labels)
        if answer.selected and answer.custom is not None:
            raise BadAnswer("it takes a choice or own text, not both", question=question.id, allowed=labels)
    sent: dict[str, Any] = {"id": question.id, "selected": list(answer.selected)}
    if answer.custom is not None:
        sent["custom"] = answer.custom
    return sent


def says_the_same(text: str, value: Any) -> bool | None:
    """Whether the text that a question's tool call ended with is this very answer; None when that cannot be told.

    Of a very long answer the Host's log keeps the beginning only.
    """
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        begins = text[:_TELLING]
        whole = msgspec.json.encode(value).decode()
        return True if len(begins) == _TELLING and whole.startswith(begins) else None
