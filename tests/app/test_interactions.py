"""Questions and approvals on the real Host: what waits for a person is shown, answered once, and never by itself."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from agentlink.app.answer import answer_question, pending_item, resolve_approval
from agentlink.app.cancel import cancel
from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.release import release_workspace
from agentlink.app.tail import read_event, tail
from agentlink.core.errors import Code, Failure
from agentlink.core.host.values import ApprovalDecided
from agentlink.core.ids import TaskId
from agentlink.core.supervision.interactions import Answer, Outcome
from tests.app.supervised import (
    QUESTIONS,
    Desk,
    Person,
    asking,
    escalating,
    refused,
    until,
)
from tests.requirements import requirement

pytestmark = pytest.mark.host

GOOD = [Answer("q3", custom="text"), Answer("q1", custom="later"), Answer("q2", ("A", "C"), "also D")]
SENT = {
    "answers": [
        {"id": "q1", "selected": [], "custom": "later"},
        {"id": "q2", "selected": ["A", "C"], "custom": "also D"},
        {"id": "q3", "selected": [], "custom": "text"},
    ]
}
"""The good answer in the issued order."""
Q1, Q2, Q3 = Answer("q1", ("Yes",)), Answer("q2", ("A",)), Answer("q3", custom="text")
BAD: list[tuple[list[Answer], str, list[str]]] = [
    ([Answer("Which?", ("Yes",)), Q2, Q3], "Which?", ["q1", "q2", "q3"]),
    ([Answer("q1", ("Maybe",)), Q2, Q3], "q1", ["Yes", "No"]),
    ([Q1, Answer("q2", ("A", "A")), Q3], "q2", ["A", "B", "C"]),
    ([Q1, Q2], "q3", ["q1", "q2", "q3"]),
    ([Q1, Q2, Answer("q3", custom=" ")], "q3", []),
    ([Answer("q1", ("Yes",), "and more"), Q2, Q3], "q1", ["Yes", "No"]),
    ([Answer("q1", ("Yes", "No")), Q2, Q3], "q1", ["Yes", "No"]),
    ([Q1, Q1, Q2, Q3], "q1", []),
]


async def asked(desk: Desk, prompt: str) -> tuple[TaskId, str]:
    """A task that waits for a person, and the id of what it waits for."""
    task = await desk.task(prompt)
    waited = await desk.wait(task)
    (pending,) = waited.pending
    return task, pending.request_id


async def decided(desk: Desk, task: TaskId) -> list[str]:
    return [event.outcome for event in await desk.log(task) if isinstance(event, ApprovalDecided)]


@requirement("FR-13")
async def test_f13_a_good_answer_reaches_the_model_once_and_exactly_and_each_bad_one_leaves_the_question_pending(
    desk: Desk,
) -> None:
    task = await desk.task(asking())
    waited = await desk.wait(task)
    (pending,) = waited.pending
    assert (waited.execution, waited.timed_out, pending.kind) == ("awaiting_input", False, "question")
    shown = [msgspec.to_builtins(question) for question in pending.questions]
    assert [(one["id"], [o["label"] for o in one.get("options", [])]) for one in shown] == [
        (one["id"], [option["label"] for option in one.get("options", [])]) for one in QUESTIONS
    ]
    assert [one.get("multiSelect", False) for one in shown] == [False, True, False]
    for answers, question, allowed in BAD:
        failure = await refused(answer_question(desk.runtime, task, pending.request_id, answers))
        assert failure.code is Code.BAD_ANSWER
        assert failure.details == {"questionId": question, "allowed": allowed}
        assert failure.prompt_sent is False
    status = await desk.status(task)
    assert (status.execution, status.pending) == ("awaiting_input", waited.pending)
    assert await desk.intents(task) == [], "nothing was meant to be sent"
    answer = await answer_question(desk.runtime, task, pending.request_id, GOOD)
    assert (answer.delivery, answer.request_id) == ("in_history", pending.request_id)
    assert (await desk.wait(task)).final_message == "fin"
    assert [msgspec.json.decode(text) for text in await desk.tool_results(task)] == [SENT]
    assert [intent.kind for intent in await desk.intents(task)] == ["answer"]
    again = await refused(answer_question(desk.runtime, task, pending.request_id, GOOD))
    assert again.code is Code.NOT_PENDING
    assert len(await desk.intents(task)) == 1


async def test_skipping_every_question_is_an_answer_too(desk: Desk) -> None:
    task, request = await asked(desk, asking())
    await answer_question(desk.runtime, task, request, [Answer("q1"), Answer("q2"), Answer("q3")])
    assert (await desk.wait(task)).execution == "turn_completed"
    (result,) = await desk.tool_results(task)
    assert [one["selected"] for one in msgspec.json.decode(result)["answers"]] == [[], [], []]


@requirement("FR-13")
@pytest.mark.parametrize(("outcome", "told"), [("allow_once", "allowed-once"), ("reject", "rejected")])
async def test_an_approval_is_decided_as_the_person_said_and_only_then_does_the_turn_go_on(
    desk: Desk, outcome: Outcome, told: str
) -> None:
    task = await desk.task(escalating())
    waited = await desk.wait(task)
    (pending,) = waited.pending
    assert (waited.execution, waited.timed_out, pending.kind, pending.tool) == (
        "awaiting_approval", False, "approval", "bash",
    )  # fmt: skip
    assert "need it" in (pending.reason or "")
    resolved = await resolve_approval(desk.runtime, task, pending.request_id, outcome)
    assert (resolved.delivery, resolved.outcome) == ("in_history", told)
    assert (await desk.wait(task)).final_message == "fin"
    assert await decided(desk, task) == [told]
    again = await refused(resolve_approval(desk.runtime, task, pending.request_id, outcome))
    assert (again.code, (again.details or {}).get("settledAs")) == (Code.NOT_PENDING, told)


async def test_f11_a_wait_in_flight_returns_promptly_when_an_approval_comes(desk: Desk) -> None:
    task = await desk.task("[[slow: 0.7 thinking]] " + escalating())
    with anyio.fail_after(5):
        first = await desk.wait(task)
    # The first text ends the turn; the approval comes in a turn of its own, while a wait is already in flight.
    assert first.execution == "turn_completed"
    task = await desk.task('[[tool: bash {"command":"sleep 0.7","description":"d"}]] ' + escalating())
    seen: list[float] = []

    async def watch_the_log() -> None:
        await until(lambda: _asked_in_log(desk, task))
        seen.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        group.start_soon(watch_the_log)
        waited = await desk.wait(task)
        at = anyio.current_time()
        await until(lambda: _any(seen))
    assert waited.execution == "awaiting_approval"
    assert at - seen[0] < 0.5


async def _asked_in_log(desk: Desk, task: TaskId) -> bool:
    return (await desk.status(task)).execution == "awaiting_approval"


async def _any(seen: list[float]) -> bool:
    return bool(seen)


@requirement("SI-05")
async def test_nothing_is_ever_approved_by_itself_however_many_look_at_it(desk: Desk, person: Person) -> None:
    task, request = await asked(desk, escalating())
    looks = 0

    async def wait_for_news() -> None:
        await desk.wait(task, timeout_s=0.3, until="any", cursor=(await desk.status(task)).cursor)

    with anyio.move_on_after(2.5):
        while True:
            async with anyio.create_task_group() as group:
                group.start_soon(wait_for_news)
                group.start_soon(tail, desk.runtime, task)
                group.start_soon(desk.status, task)
            looks += 1
    assert looks >= 3
    status = await desk.status(task)
    assert (status.execution, [one.request_id for one in status.pending]) == ("awaiting_approval", [request])
    assert await decided(desk, task) == []
    assert await desk.intents(task) == []
    await cancel(desk.runtime, task)
    assert await decided(desk, task) == ["cancelled"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("allowed-once", "allow_once"), ("rejected", "allow_once"), ("allowed-once", "reject")],
)
async def test_f11_an_approval_answered_elsewhere_first_is_not_pending_and_says_what_it_was_settled_as(
    desk: Desk, person: Person, theirs: str, ours: Outcome
) -> None:
    task, request = await asked(desk, escalating())
    await person.answers(await desk.session(task), theirs)
    await desk.done(task)
    failure = await refused(resolve_approval(desk.runtime, task, request, ours))
    assert (failure.code, (failure.details or {}).get("settledAs")) == (Code.NOT_PENDING, theirs)
    assert await desk.intents(task) == [], "nothing was sent"
    assert await decided(desk, task) == [theirs]


async def test_a_question_answered_elsewhere_first_is_not_pending(desk: Desk, person: Person) -> None:
    task, request = await asked(desk, asking())
    theirs = {"answers": [{"id": one, "selected": [], "custom": "theirs"} for one in ("q1", "q2", "q3")]}
    await person.answers(await desk.session(task), theirs)
    await desk.done(task)
    failure = await refused(answer_question(desk.runtime, task, request, GOOD))
    assert failure.code is Code.NOT_PENDING
    assert (failure.details or {}).get("settledAs") == "answered"
    assert [msgspec.json.decode(text) for text in await desk.tool_results(task)] == [theirs]


async def _race(desk: Desk, person: Person, ours: Outcome, theirs: str, *, they_first: bool) -> None:
    """Both answer after our intent is on disk; `they_first` lets theirs arrive before ours is sent."""
    task, request = await asked(desk, escalating())
    session = await desk.session(task)
    host = desk.runtime.host
    original = host.answer_offer
    about_to_send, may_send = anyio.Event(), anyio.Event()
    results: list[Any] = []

    async def after_theirs(client: str, key: str, value: object) -> None:
        about_to_send.set()
        if they_first:
            await may_send.wait()
        await original(client, key, value)

    async def they_answer() -> None:
        await person.answers(session, theirs, after=about_to_send.wait)
        may_send.set()

    host.answer_offer = after_theirs  # type: ignore[method-assign]
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(they_answer)
            try:
                results.append(await resolve_approval(desk.runtime, task, request, ours))
            except Failure as failure:
                results.append(failure)
    finally:
        host.answer_offer = original  # type: ignore[method-assign]
    (outcome,) = await decided(desk, task)
    (told,) = results
    sent = {"allow_once": "allowed-once", "reject": "rejected"}[ours]
    if they_first:
        assert outcome == theirs
    if outcome == sent:
        assert (told.delivery, told.outcome) == ("in_history", sent)
    else:
        assert isinstance(told, Failure)
        assert (told.code, (told.details or {}).get("settledAs")) == (Code.NOT_PENDING, theirs)
    assert len(await desk.intents(task)) == 1


RACES: list[tuple[Outcome, str]] = [
    ("allow_once", "rejected"),
    ("reject", "allowed-once"),
    ("allow_once", "allowed-once"),
]


async def test_two_who_answer_at_once_both_hear_what_the_log_says(desk: Desk, person: Person) -> None:
    for ours, theirs in RACES:
        await _race(desk, person, ours, theirs, they_first=True)
        await _race(desk, person, ours, theirs, they_first=False)


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_many_races_for_an_answer_all_end_as_the_log_says(desk: Desk, person: Person) -> None:
    for _ in range(20):
        for ours, theirs in RACES:
            await _race(desk, person, ours, theirs, they_first=False)


async def test_a_question_answered_elsewhere_between_our_intent_and_our_answer_is_told_as_answered(
    desk: Desk, person: Person
) -> None:
    task, request = await asked(desk, asking())
    session = await desk.session(task)
    theirs = {"answers": [{"id": one, "selected": [], "custom": "theirs"} for one in ("q1", "q2", "q3")]}
    original = desk.runtime.host.answer_offer

    async def after_theirs(client: str, key: str, value: object) -> None:
        await person.answers(session, theirs)
        await original(client, key, value)

    desk.runtime.host.answer_offer = after_theirs  # type: ignore[method-assign]
    failure = await refused(answer_question(desk.runtime, task, request, GOOD))
    assert (failure.code, (failure.details or {}).get("settledAs")) == (Code.NOT_PENDING, "answered")
    assert [msgspec.json.decode(text) for text in await desk.tool_results(task)] == [theirs]


@requirement("SI-03")
async def test_allowing_needs_the_claim_and_rejecting_or_stopping_does_not(desk: Desk) -> None:
    tasks = [await asked(desk, escalating()) for _ in range(2)]
    for task, _ in tasks:
        await release_workspace(desk.runtime, task, force=True)
        view = await desk.runtime.store.task(task)
        assert view is not None
        await delegate(desk.runtime, DelegateRequest(prompt="[[hang]]", cwd=view.launch.cwd, preset="minimal"))
    (first, request), (second, _) = tasks
    failure = await refused(resolve_approval(desk.runtime, first, request, "allow_once"))
    assert failure.code is Code.WORKSPACE_CONFLICT
    assert await decided(desk, first) == []
    assert (await desk.status(first)).execution == "awaiting_approval"
    assert (await resolve_approval(desk.runtime, first, request, "reject")).outcome == "rejected"
    assert (await cancel(desk.runtime, second)).turn_canceled is True
    assert (await desk.status(second)).execution == "canceled"


async def test_allowing_takes_a_released_claim_again_when_it_is_free(desk: Desk) -> None:
    task, request = await asked(desk, escalating())
    await release_workspace(desk.runtime, task, force=True)
    assert (await desk.status(task)).claim.held is False
    await resolve_approval(desk.runtime, task, request, "allow_once")
    assert (await desk.wait(task)).claim.held is True


async def test_an_item_whose_turn_is_canceled_is_gone_and_was_not_declined(desk: Desk) -> None:
    for prompt in (asking(), escalating()):
        task, request = await asked(desk, prompt)
        await cancel(desk.runtime, task)
        status = await desk.status(task)
        assert (status.execution, status.pending) == ("canceled", ())
        late = (
            answer_question(desk.runtime, task, request, GOOD)
            if prompt == asking()
            else resolve_approval(desk.runtime, task, request, "reject")
        )
        failure = await refused(late)
        assert failure.code is Code.NOT_PENDING
        assert (failure.details or {}).get("settledAs") in ("cancelled", "ASK_ABORTED")


async def test_an_answer_that_comes_too_late_never_goes_to_the_next_question_that_looks_the_same(desk: Desk) -> None:
    one = [{"id": "q1", "question": "Continue?", "header": "H", "options": [{"label": "Yes"}, {"label": "No"}]}]
    asks = asking(one).replace("[[say: fin]]", "")
    task = await desk.task(f"{asks} {asks} [[say: fin]]")
    (first,) = (await desk.at(task, "awaiting_input")).pending
    told: dict[str, Any] = {}

    async def answers(label: str) -> None:
        try:
            told[label] = await answer_question(desk.runtime, task, first.request_id, [Answer("q1", (label,))])
        except Failure as failure:
            told[label] = failure

    async with anyio.create_task_group() as group:
        group.start_soon(answers, "Yes")
        group.start_soon(answers, "No")
    (late,) = [answer for answer in told.values() if isinstance(answer, Failure)]
    assert (late.code, late.prompt_sent) == (Code.NOT_PENDING, False)
    (second,) = (await desk.at(task, "awaiting_input")).pending
    assert second.request_id != first.request_id
    assert len(await desk.tool_results(task)) == 1
    await answer_question(desk.runtime, task, second.request_id, [Answer("q1", ("No",))])
    assert (await desk.done(task)).execution == "turn_completed"


async def test_an_answer_that_the_host_cuts_off_in_its_log_is_known_as_delivered(desk: Desk) -> None:
    task = await desk.task(asking([{"id": "q", "question": "Free?", "header": "H"}]))
    (item,) = (await desk.at(task, "awaiting_input")).pending
    long = "x" * 60_000
    answer = await answer_question(desk.runtime, task, item.request_id, [Answer("q", custom=long)])
    assert answer.delivery == "in_history"
    assert (await desk.done(task)).execution == "turn_completed"


async def test_half_a_character_in_an_answer_is_refused_before_its_intent(desk: Desk) -> None:
    task = await desk.task(asking([{"id": "q", "question": "Free?", "header": "H"}]))
    (item,) = (await desk.at(task, "awaiting_input")).pending
    bad = await refused(answer_question(desk.runtime, task, item.request_id, [Answer("q", custom="a\ud800")]))
    assert bad.code is Code.BAD_ANSWER
    assert await desk.intents(task) == []
    assert (await desk.status(task)).pending == (item,)
    await cancel(desk.runtime, task)


async def test_a_long_command_is_shown_in_part_with_its_size_and_told_whole(desk: Desk) -> None:
    hidden = "; echo HIDDEN-TAIL"
    task = await desk.task(escalating("echo " + "A" * 5_000 + hidden))
    (item,) = (await desk.at(task, "awaiting_approval")).pending
    assert item.cut
    assert hidden not in (item.arguments or "")
    assert item.sizes is not None
    assert item.event is not None
    whole = await pending_item(desk.runtime, task, item.request_id, "approval")
    assert hidden in (whole.arguments or "")
    read = await read_event(desk.runtime, task, item.event)
    assert read.text == whole.arguments
    assert item.sizes[1] == len(read.text)
    await resolve_approval(desk.runtime, task, item.request_id, "reject")
