"""What a Host does to a launch, asked of the simulator and of the real Host alike (dsh-wire 3-6, 11)."""

from typing import Any

import pytest

from agentlink.core.host.faults import Refused
from agentlink.core.host.find_prompt import Found, find_prompt
from agentlink.core.host.values import Event, InboxSpliced, TurnEnded, TurnStarted, UserMessage
from tests.contract.conftest import Subject


async def create(subject: Subject, preset: str | None = "minimal") -> Any:
    return await subject.host.create_session(subject.session, cwd=subject.cwd, preset=preset)  # type: ignore[arg-type]


async def prompt(subject: Subject, request: str, text: str = "hello") -> None:
    await subject.host.send_prompt(subject.session, request=request, prompt=text)  # type: ignore[arg-type]


async def events(subject: Subject) -> tuple[Event, ...]:
    state = await subject.host.session_state(subject.session)
    if state is None or state.last_seq < 0:
        return ()
    page = await subject.host.page(subject.session, through=state.last_seq, messages=200)
    assert not page.has_more
    return page.events


async def standing(subject: Subject, request: str) -> Found:
    return find_prompt(await events(subject), request)


async def delivered(subject: Subject, request: str) -> Any:
    async def look() -> Found | None:
        found = await standing(subject, request)
        return found if found.standing == "delivered" else None

    return await subject.until(look)


async def turns_ended(subject: Subject, count: int) -> Any:
    async def look() -> bool:
        return sum(isinstance(event, TurnEnded) for event in await events(subject)) >= count

    return await subject.until(look)


async def test_an_unknown_session_has_no_state(subject: Subject) -> None:
    assert await subject.host.session_state(subject.session) is None


async def test_a_page_of_an_unknown_session_is_refused(subject: Subject) -> None:
    with pytest.raises(Refused) as caught:
        await subject.host.page(subject.session, through=0, messages=10)
    assert caught.value.kind == "session_not_found"


async def test_a_create_answers_with_the_asked_id_and_the_resolved_preset(subject: Subject) -> None:
    created = await create(subject)
    assert (created.session, created.resolved) == (subject.session, "minimal")
    state = await subject.host.session_state(subject.session)
    assert state is not None
    assert (state.preset, state.blank, state.waiting) == ("minimal", True, ())
    assert state.last_seq >= 0


async def test_a_create_without_a_preset_resolves_the_default_of_the_roster(subject: Subject) -> None:
    created = await create(subject, None)
    default = next(preset.id for preset in await subject.host.roster() if preset.is_default)
    assert created.resolved == default


@pytest.mark.parametrize(("preset", "kind"), [("no-such", "preset_not_found"), ("broken-one", "preset_broken")])
async def test_a_refused_create_leaves_no_session_and_the_id_free(subject: Subject, preset: str, kind: str) -> None:
    with pytest.raises(Refused) as caught:
        await create(subject, preset)
    assert (caught.value.kind, caught.value.final) == (kind, True)
    assert await subject.host.session_state(subject.session) is None
    assert (await create(subject)).session == subject.session


async def test_the_roster_names_the_broken_preset_with_its_reason(subject: Subject) -> None:
    broken = {preset.id: preset.broken for preset in await subject.host.roster()}
    assert broken["minimal"] is None
    assert broken["broken-one"]


async def test_creating_a_blank_session_again_without_a_preset_resets_it_to_the_default(subject: Subject) -> None:
    await create(subject, "minimal")
    again = await create(subject, None)
    assert again.session == subject.session
    assert again.resolved != "minimal"


async def test_creating_a_session_that_ran_makes_another_one(subject: Subject) -> None:
    await create(subject)
    await prompt(subject, "r1")
    await turns_ended(subject, 1)
    again = await create(subject)
    assert again.session != subject.session


async def test_creating_with_another_directory_is_refused(subject: Subject) -> None:
    await create(subject)
    with pytest.raises(Refused):
        await subject.host.create_session(subject.session, cwd=f"{subject.cwd}-other", preset="minimal")  # type: ignore[arg-type]


async def test_a_preset_selected_by_a_person_shows_in_the_state(subject: Subject) -> None:
    await create(subject)
    await subject.select("team")
    state = await subject.host.session_state(subject.session)
    assert state is not None
    assert (state.preset, state.blank) == ("team", True)


async def test_an_accepted_prompt_is_in_log_or_inbox_at_once_and_delivered_soon(subject: Subject) -> None:
    await create(subject)
    await prompt(subject, "r1")
    assert (await standing(subject, "r1")).standing in ("waiting", "claimed", "delivered")
    found = await delivered(subject, "r1")
    assert found.seq > 0
    state = await subject.host.session_state(subject.session)
    assert state is not None
    assert state.blank is False


async def test_a_prompt_to_an_unknown_session_is_refused(subject: Subject) -> None:
    with pytest.raises(Refused) as caught:
        await prompt(subject, "r1")
    assert caught.value.kind == "session_not_found"


async def test_the_same_request_id_after_delivery_is_dropped(subject: Subject) -> None:
    await create(subject)
    await prompt(subject, "r1")
    await delivered(subject, "r1")
    await turns_ended(subject, 1)
    await prompt(subject, "r1")
    await prompt(subject, "r2")
    await delivered(subject, "r2")
    await turns_ended(subject, 2)
    state = await subject.host.session_state(subject.session)
    assert state is not None
    assert sum(isinstance(event, TurnEnded) for event in await events(subject)) == 2


async def test_an_unknown_request_is_absent(subject: Subject) -> None:
    await create(subject)
    assert (await standing(subject, "never")).standing == "absent"


async def test_a_finished_turn_ends_completed(subject: Subject) -> None:
    await create(subject)
    await prompt(subject, "r1")
    await turns_ended(subject, 1)
    ended = [event for event in await events(subject) if isinstance(event, TurnEnded)]
    assert [event.kind for event in ended] == ["completed"]


async def test_a_page_past_the_end_is_refused(subject: Subject) -> None:
    await create(subject)
    state = await subject.host.session_state(subject.session)
    assert state is not None
    with pytest.raises(Refused):
        await subject.host.page(subject.session, through=state.last_seq + 5, messages=10)


async def test_pages_are_contiguous_and_walk_back_to_the_beginning(subject: Subject) -> None:
    await create(subject)
    for number in range(3):
        await prompt(subject, f"r{number}")
        await turns_ended(subject, number + 1)
    state = await subject.host.session_state(subject.session)
    assert state is not None
    before, seqs = None, []
    while True:
        page = await subject.host.page(subject.session, through=state.last_seq, before=before, messages=2)
        seqs = [event.seq for event in page.events] + seqs
        if not page.has_more:
            break
        before = page.events[0].seq
    assert seqs == list(range(state.last_seq + 1))


async def test_what_was_on_disk_survives_a_kill(subject: Subject) -> None:
    await create(subject)
    await prompt(subject, "r1")
    await turns_ended(subject, 1)

    async def flushed() -> bool:
        page = await subject.host.page(subject.session, through=0, messages=1)
        last = (await events(subject))[-1]
        return page.host_now_ms is not None and page.host_now_ms - last.time_ms >= 1000

    await subject.until(flushed)
    before = await events(subject)
    await subject.kill_and_restart()
    after = await events(subject)
    assert after[: len(before)] == before
    assert (await standing(subject, "r1")).standing == "delivered"


async def running_turn(subject: Subject) -> None:
    """A session whose agent is at work, with two more prompts behind."""
    await create(subject)
    await prompt(subject, "r1", "[[slow: 20 a b c d e f]]")

    async def begun() -> bool:
        return any(isinstance(event, TurnStarted) for event in await events(subject))

    await subject.until(begun)
    await prompt(subject, "r2")
    await prompt(subject, "r3")


async def test_waiting_prompts_are_known_by_the_items_of_the_state_and_of_the_log_alike(subject: Subject) -> None:
    await running_turn(subject)
    state = await subject.host.session_state(subject.session)
    assert state is not None
    assert [item.request for item in state.next_turn] == ["r2", "r3"] == list(state.waiting)
    inserted = {e.inserted[0]: e.items[0] for e in await events(subject) if isinstance(e, InboxSpliced) and e.inserted}
    assert [item.item for item in state.next_turn] == [inserted["r2"], inserted["r3"]]
    await subject.host.cancel_turn(subject.session)


async def test_a_cancel_ends_the_turn_and_parks_what_waits_until_another_prompt_comes(subject: Subject) -> None:
    await running_turn(subject)
    await subject.host.cancel_turn(subject.session)
    await turns_ended(subject, 1)
    (ended,) = [event for event in await events(subject) if isinstance(event, TurnEnded)]
    assert ended.kind == "aborted"
    await subject.host.cancel_turn(subject.session)  # does no harm
    state = await subject.host.session_state(subject.session)
    assert state is not None
    assert state.waiting == ("r2", "r3")
    assert (await subject.host.running())[subject.session] is False
    await prompt(subject, "r4")
    await turns_ended(subject, 4)
    order = [event.request for event in await events(subject) if isinstance(event, UserMessage) and event.by_person]
    assert order[-3:] == ["r2", "r3", "r4"]


async def test_a_removed_prompt_never_runs_and_is_removed_once(subject: Subject) -> None:
    await running_turn(subject)
    state = await subject.host.session_state(subject.session)
    assert state is not None
    item = state.next_turn[0].item
    await subject.host.remove_queued(subject.session, item)
    with pytest.raises(Refused) as caught:
        await subject.host.remove_queued(subject.session, item)
    assert (caught.value.kind, caught.value.final) == ("not_queued", True)
    assert (await standing(subject, "r2")).standing == "removed"
    await subject.host.cancel_turn(subject.session)


async def test_a_session_runs_from_its_accepted_prompt_to_the_end_of_its_turn(subject: Subject) -> None:
    await create(subject)
    assert (await subject.host.running())[subject.session] is False
    await prompt(subject, "r1", "[[slow: 1 a b c]]")
    assert (await subject.host.running())[subject.session] is True
    await turns_ended(subject, 1)

    async def idle() -> bool:
        return not (await subject.host.running())[subject.session]

    await subject.until(idle)


async def test_a_cancel_of_an_unknown_session_is_refused(subject: Subject) -> None:
    with pytest.raises(Refused) as caught:
        await subject.host.cancel_turn(subject.session)
    assert caught.value.kind == "session_not_found"
