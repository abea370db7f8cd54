"""A write that names what its caller saw is refused when that is out of date, and then reaches the Host not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from agentlink.app.answer import answer_question, resolve_approval
from agentlink.app.cancel import cancel
from agentlink.app.followup import FollowUp, follow_up
from agentlink.core.errors import Code
from agentlink.core.ids import TaskId
from agentlink.core.supervision.interactions import Answer
from agentlink.lab import Lab
from tests.app.supervised import Desk, Person, asking, escalating, refused, tool, until
from tests.requirements import requirement

pytestmark = pytest.mark.host

SLEEPS = '[[tool: bash {"command":"sleep 0.3","description":"d"}]] '


@pytest.fixture
def host_lab(own_lab: Lab) -> Lab:
    """A model that is selected becomes the Host's default, in the file that tests of the shared Host change."""
    return own_lab


async def a_turn_ends(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task("[[slow: 0.4 one two]]")
    cursor = (await desk.at(task, "running")).cursor
    await desk.done(task)
    return task, cursor or ""


async def a_question_comes(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task(SLEEPS + asking())
    cursor = (await desk.at(task, "running")).cursor
    await desk.at(task, "awaiting_input")
    return task, cursor or ""


async def an_approval_comes(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task(SLEEPS + escalating())
    cursor = (await desk.at(task, "running")).cursor
    await desk.at(task, "awaiting_approval")
    return task, cursor or ""


async def an_approval_goes(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task(escalating().replace("[[say: fin]]", "[[slow: 20 after]]"))
    cursor = (await desk.at(task, "awaiting_approval")).cursor
    await person.answers(await desk.session(task), "rejected")
    await desk.at(task, "running")
    return task, cursor or ""


async def a_question_goes(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task(asking().replace("[[say: fin]]", "[[slow: 20 after]]"))
    cursor = (await desk.at(task, "awaiting_input")).cursor
    skipped = {"answers": [{"id": one, "selected": []} for one in ("q1", "q2", "q3")]}
    await person.answers(await desk.session(task), skipped)
    await desk.at(task, "running")
    return task, cursor or ""


async def somebody_else_writes(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task('[[tool: bash {"command":"sleep 0.5","description":"d"}]] [[slow: 20 after]]')
    cursor = (await desk.at(task, "running")).cursor
    await person.says(await desk.session(task), "and this", mode="steer")

    async def reached() -> bool:
        return len(await desk.messages(task)) == 2

    await until(reached)
    return task, cursor or ""


async def the_model_changes(desk: Desk, person: Person) -> tuple[TaskId, str]:
    task = await desk.task("[[say: one]]")
    session = await desk.session(task)
    cursor = (await desk.done(task)).cursor
    await person.selects(session, "deepseek-v4-pro")
    await person.selects(session, "deepseek-flash")
    return task, cursor or ""


Change = Callable[[Desk, Person], Awaitable[tuple[TaskId, str]]]
CHANGES: list[Change] = [
    a_turn_ends,
    a_question_comes,
    an_approval_comes,
    an_approval_goes,
    a_question_goes,
    somebody_else_writes,
    the_model_changes,
]


@requirement("FR-13")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_write_for_an_older_view_is_refused_with_the_present_cursor_and_nothing_is_sent(
    desk: Desk, person: Person, change: Change
) -> None:
    task, cursor = await change(desk, person)
    before = await desk.log(task)
    failure = await refused(follow_up(desk.runtime, task, FollowUp(prompt="late", since_cursor=cursor)))
    assert (failure.code, failure.prompt_sent) == (Code.STALE_VIEW, False)
    status = await desk.status(task)
    assert (failure.details or {})["cursor"] is not None
    assert (failure.details or {})["execution"] == status.execution
    assert await desk.intents(task) == []
    assert (await desk.log(task))[: len(before)] == before
    assert "late" not in [text for _, text in await desk.messages(task)]
    fresh = FollowUp(prompt="in time", since_cursor=(failure.details or {})["cursor"])
    assert (await follow_up(desk.runtime, task, fresh)).delivery == "accepted"


async def test_answers_for_an_older_view_are_refused_too_and_leave_the_item_pending(desk: Desk, person: Person) -> None:
    skip = [Answer("q1"), Answer("q2"), Answer("q3")]
    question, since = await a_question_comes(desk, person)
    (pending,) = (await desk.status(question)).pending
    failure = await refused(answer_question(desk.runtime, question, pending.request_id, skip, since_cursor=since))
    assert failure.code is Code.STALE_VIEW
    assert (await desk.status(question)).pending == (pending,)
    cursor = (await desk.status(question)).cursor
    await answer_question(desk.runtime, question, pending.request_id, skip, since_cursor=cursor)
    approval, since = await an_approval_comes(desk, person)
    (pending,) = (await desk.status(approval)).pending
    late = resolve_approval(desk.runtime, approval, pending.request_id, "allow_once", since_cursor=since)
    assert (await refused(late)).code is Code.STALE_VIEW
    assert (await desk.status(approval)).pending == (pending,)
    cursor = (await desk.status(approval)).cursor
    await resolve_approval(desk.runtime, approval, pending.request_id, "reject", since_cursor=cursor)


async def test_own_follow_ups_and_the_noise_of_tools_make_no_view_stale(desk: Desk) -> None:
    noise = tool("bash", command="echo 1", description="d") + tool("bash", command="sleep 0.4", description="d")
    task = await desk.task(noise + "[[slow: 20 after]]")
    cursor = (await desk.at(task, "running")).cursor
    for number in range(3):
        mode = FollowUp(prompt=f"ours {number}", mode="steer", since_cursor=cursor)
        assert (await follow_up(desk.runtime, task, mode)).delivery == "accepted"

    async def taken() -> bool:
        return len(await desk.messages(task)) == 4

    await until(taken)
    last = FollowUp(prompt="ours at last", since_cursor=cursor)
    assert (await follow_up(desk.runtime, task, last)).delivery == "accepted"


async def test_a_cursor_of_another_task_or_of_nothing_is_refused_and_nothing_is_sent(desk: Desk) -> None:
    one, other = await desk.task("[[say: one]]"), await desk.task("[[say: other]]")
    cursor = (await desk.done(other)).cursor
    await desk.done(one)
    for wrong in (cursor, "x", ""):
        failure = await refused(follow_up(desk.runtime, one, FollowUp(prompt="no", since_cursor=wrong)))
        assert (failure.code, failure.prompt_sent) == (Code.CURSOR_INVALID, False)
    assert await desk.intents(one) == []


async def test_a_request_key_that_was_used_before_does_not_let_an_older_view_through(desk: Desk) -> None:
    task = await desk.task("[[slow: 20 a b c]]")
    since = (await desk.at(task, "running")).cursor
    asked = FollowUp(prompt="later", request_key="k", since_cursor=since)
    await follow_up(desk.runtime, task, asked)
    await cancel(desk.runtime, task, scope="all")

    async def told() -> bool:
        return bool((await desk.status(task)).undelivered)

    await until(told)
    assert [one.outcome for one in (await desk.status(task)).undelivered] == ["discarded"]
    failure = await refused(follow_up(desk.runtime, task, asked))
    assert failure.code is Code.STALE_VIEW
    assert len(await desk.intents(task)) == 2
