"""The live connection: nothing is missed or told twice, whatever breaks, and nothing ever spins."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
import pytest

from agentlink.core.host.values import (
    Address,
    AskedApproval,
    AskedQuestions,
    AssistantMessage,
    Attached,
    Event,
    EventBase,
    LinkLost,
    LiveItem,
    Snapshot,
    TextDelta,
    TurnEnded,
    UserMessage,
    Withdrawn,
)
from agentlink.core.ids import RequestId, SessionId
from agentlink.host.client import RemoteHost
from agentlink.host.cookies import Cookie, CookieFiles
from agentlink.host.stream import LiveFeed, LiveLink, Pace
from agentlink.lab import Lab, lab
from tests.host.front import Front
from tests.host.mux_door import QUICK, running, until

on_a_host = pytest.mark.host
SLOW = "[[slow: 1.5 one two three]]"


@asynccontextmanager
async def host_at(origin: str, launch_url: str, home: Path) -> AsyncIterator[RemoteHost]:
    cookies = CookieFiles(home / "cookies")
    host = RemoteHost(label="default", origin=origin, cookies=cookies, launch_token=launch_url.split("token=")[1])
    try:
        yield host
    finally:
        await host.aclose()


@asynccontextmanager
async def live(running_lab: Lab, home: Path, pace: Pace | None = None) -> AsyncIterator[tuple[RemoteHost, LiveLink]]:
    """A Host's calls and a live connection to it."""
    async with host_at(running_lab.host.origin, running_lab.host.launch_url, home) as host:
        link = LiveLink(host.origin, host._live_login, pace=pace)
        async with running(link):
            yield host, link


async def new_session(host: RemoteHost, directory: Path, preset: str = "minimal") -> str:
    session = f"session-{directory.name}"
    await host.create_session(SessionId(session), cwd=str(directory), preset=preset)
    return session


async def prompt(host: RemoteHost, session: str, text: str, *, number: int = 1) -> None:
    await host.send_prompt(session, request=RequestId(f"r{number}"), prompt=text)


async def history(host: RemoteHost, session: str) -> tuple[Event, ...]:
    state = await host.session_state(session)
    assert state is not None
    page = await host.page(session, through=state.last_seq, messages=1000)
    assert not page.has_more
    return page.events


class Stitched:
    """A session's log as a reader of the live stream puts it together."""

    def __init__(self, host: RemoteHost, session: str, feed: LiveFeed[LiveItem]) -> None:
        self.host, self.session, self.feed = host, session, feed
        self.events: list[Event] = []
        self.text = ""
        self.lost: list[str] = []
        self.snapshots = 0
        self._broken = True

    async def read(self) -> LiveItem:
        item = await self.feed.next()
        match item:
            case LinkLost():
                assert not self._broken or not self.events, "told twice of one loss"
                self._broken = True
                self.lost.append(item.reason)
            case Snapshot():
                assert self._broken
                self._broken = False
                self.snapshots += 1
                await self._join(item)
            case TextDelta():
                assert not self._broken
                self.text = item.text if item.begins else self.text + item.text
            case _:
                assert not self._broken
                assert isinstance(item, EventBase)
                assert item.seq == len(self.events)
                self.events.append(item)
        return item

    async def _join(self, snapshot: Snapshot) -> None:
        new = [event for event in snapshot.events if event.seq >= len(self.events)]
        first = new[0].seq if new else snapshot.state.last_seq + 1
        if first > len(self.events):
            page = await self.host.page(self.session, through=first - 1, messages=1000)
            self.events += [event for event in page.events if event.seq >= len(self.events)]
        self.events += new
        assert len(self.events) == snapshot.state.last_seq + 1

    async def is_history(self) -> bool:
        """Whether it is what the Host tells; a little may have come after the end of the turn."""
        whole = await history(self.host, self.session)
        return self.events == list(whole[: len(self.events)])

    async def to_turn_end(self, turn: int = 1) -> None:
        while not any(isinstance(event, TurnEnded) and event.turn == turn for event in self.events):
            await self.read()


@on_a_host
async def test_a_followed_turn_is_its_history_and_its_pieces_are_the_answer(
    real_lab: Lab, home: Path, workspace: Path
) -> None:
    async with live(real_lab, home) as (host, link):
        session = await new_session(host, workspace, "standard")
        async with link.follow(Address(session)) as feed:
            stitched = Stitched(host, session, feed)
            with anyio.fail_after(20):
                assert isinstance(await stitched.read(), Snapshot)
                tool = '[[tool: bash {"command":"echo hi","description":"d"}]]'
                await prompt(host, session, f"{tool} [[slow: 0.4 Hällo wörld]]")
                await stitched.to_turn_end()
        assert await stitched.is_history()
        assert stitched.snapshots == 1
        answers = [event.text for event in stitched.events if isinstance(event, AssistantMessage)]
        assert answers[-1] == stitched.text == "Hällo wörld"


@on_a_host
async def test_who_comes_during_an_answer_gets_its_beginning_too(real_lab: Lab, home: Path, workspace: Path) -> None:
    async with live(real_lab, home) as (host, link):
        session = await new_session(host, workspace)
        async with link.follow(Address(session)) as early:
            first = Stitched(host, session, early)
            with anyio.fail_after(20):
                await first.read()
                await prompt(host, session, SLOW)
                while len(first.text) < 4:
                    await first.read()
                async with link.follow(Address(session)) as late:
                    second = Stitched(host, session, late)
                    assert isinstance(await second.read(), Snapshot)
                    so_far = await second.read()
                    assert isinstance(so_far, TextDelta)
                    assert so_far.begins
                    assert so_far.text.startswith(first.text)
                    await second.to_turn_end()
                await first.to_turn_end()
        assert first.text == second.text == "one two three"
        assert await first.is_history()
        assert await second.is_history()


@pytest.mark.soak
@on_a_host
async def test_twenty_cuts_during_a_turn_lose_and_repeat_nothing(real_lab: Lab, home: Path, workspace: Path) -> None:
    with Front(real_lab.host.port) as door:
        async with host_at(door.origin, real_lab.host.launch_url, home) as host:
            link = LiveLink(host.origin, host._live_login, pace=QUICK)
            async with running(link), link.follow(Address(session := await new_session(host, workspace))) as feed:
                stitched = Stitched(host, session, feed)
                with anyio.fail_after(30):
                    await stitched.read()
                    await prompt(host, session, f"[[slow: 3 {'many words ' * 20}]]")
                    for cut in range(20):
                        for _ in range(cut % 4):
                            with anyio.move_on_after(0.2):
                                await stitched.read()
                        door.become("forward")
                        while len(stitched.lost) <= cut:
                            await stitched.read()
                        while stitched.snapshots < cut + 2:
                            await stitched.read()
                    await stitched.to_turn_end()
                assert await stitched.is_history()
                assert len(stitched.lost) == 20
                assert all(reason.startswith("host_unreachable: ") for reason in stitched.lost)


@on_a_host
async def test_giving_up_a_wait_again_and_again_loses_nothing(real_lab: Lab, home: Path, workspace: Path) -> None:
    async with live(real_lab, home) as (host, link):
        session = await new_session(host, workspace)
        async with link.follow(Address(session)) as feed:
            stitched = Stitched(host, session, feed)
            with anyio.fail_after(20):
                await stitched.read()
                await prompt(host, session, "[[slow: 0.5 some words]]")
                while not isinstance(stitched.events[-1], TurnEnded):
                    with anyio.move_on_after(0.002):
                        await stitched.read()
        assert await stitched.is_history()
        assert stitched.text == "some words"


@on_a_host
async def test_many_readers_that_come_and_go_leave_the_connection_alone(
    real_lab: Lab, home: Path, workspace: Path
) -> None:
    async with live(real_lab, home) as (host, link):
        session = await new_session(host, workspace)
        with anyio.fail_after(20):
            async with link.follow(Address(session)) as stays:
                assert isinstance(await stays.next(), Snapshot)
                since = link.state.since
                for _ in range(30):
                    async with link.follow(Address(session)) as leaves, link.offers():
                        assert isinstance(await leaves.next(), Snapshot)
                    async with link.follow(Address(session)), link.offers():
                        pass
                await prompt(host, session, "hello")
                while not isinstance(await stays.next(), TurnEnded):
                    pass
        assert link.state.connected
        assert link.state.since == since


@on_a_host
async def test_an_event_of_three_megabytes_is_taken(real_lab: Lab, home: Path, workspace: Path) -> None:
    async with live(real_lab, home) as (host, link):
        session = await new_session(host, workspace)
        async with link.follow(Address(session)) as feed:
            stitched = Stitched(host, session, feed)
            with anyio.fail_after(30):
                await stitched.read()
                await prompt(host, session, "[[say: ok]]\n" + "x" * (3 << 20))
                await stitched.to_turn_end()
        assert stitched.snapshots == 1
        assert any(isinstance(event, UserMessage) and len(event.text) > 3 << 20 for event in stitched.events)


@on_a_host
async def test_a_reader_that_is_too_slow_is_told_and_begins_again(real_lab: Lab, home: Path, workspace: Path) -> None:
    async with live(real_lab, home, Pace(unread_items=8)) as (host, link):
        session = await new_session(host, workspace)
        async with link.follow(Address(session)) as feed:
            stitched = Stitched(host, session, feed)
            with anyio.fail_after(20):
                await stitched.read()
                await prompt(host, session, "hello")
                await until(lambda: feed.held)
                assert feed.id is None, "nothing more is sent to a reader that does not read"
                assert isinstance(await stitched.read(), LinkLost)
                await stitched.to_turn_end()
        assert stitched.lost[0].startswith("too_slow: ")
        assert await stitched.is_history()
        assert link.state.connected


@on_a_host
async def test_a_session_that_is_not_there_is_told_once_and_asked_for_with_growing_pauses(
    real_lab: Lab, home: Path, workspace: Path
) -> None:
    async with live(real_lab, home, QUICK) as (host, link):
        session = f"session-{workspace.name}"
        with anyio.fail_after(20):
            async with link.follow(Address(session)) as feed:
                lost = await feed.next()
                assert isinstance(lost, LinkLost)
                assert lost.reason.startswith("session/not-found: ")
                await until(lambda: feed.failures >= 3)
                await new_session(host, workspace)
                assert isinstance(await feed.next(), Snapshot)
        assert link.state.connected


@on_a_host
async def test_a_connection_that_nobody_wants_is_closed_and_opened_again(
    real_lab: Lab, home: Path, workspace: Path
) -> None:
    async with live(real_lab, home, Pace(idle_s=0.05)) as (host, link):
        assert not link.state.connected
        assert link.state.last_frame is None
        session = await new_session(host, workspace)
        for _ in range(2):
            async with link.follow(Address(session)) as feed:
                with anyio.fail_after(10):
                    assert isinstance(await feed.next(), Snapshot)
                assert link.state.connected
            await until(lambda: not link.state.connected)
            assert link.state.reason == "idle: nobody wants a stream"
            assert link.state.failures == 0


@on_a_host
async def test_the_heartbeat_of_a_quiet_host_is_heard(real_lab: Lab, home: Path, workspace: Path) -> None:
    async with live(real_lab, home, Pace(ping_s=0.1)) as (_, link), link.offers() as feed:
        with anyio.fail_after(10):
            assert isinstance(await feed.next(), Attached)
        heard = link.state.last_frame
        await until(lambda: link.state.last_frame > heard)


async def next_asked(feed: Any) -> Any:
    with anyio.fail_after(20):
        while isinstance(item := await feed.next(), Attached):
            pass
        return item


@on_a_host
async def test_an_approval_is_offered_to_all_and_withdrawn_when_one_answers(
    real_lab: Lab, home: Path, workspace: Path
) -> None:
    async with live(real_lab, home) as (host, link), link.offers() as mine, link.offers() as other:
        session = await new_session(host, workspace, "standard")
        attached = await mine.next()
        assert isinstance(attached, Attached)
        arguments = {"command": "echo x > /opt/f", "description": "d", "justification": "need it"}
        asking = json.dumps(arguments | {"sandbox_permissions": "danger-full-access"})
        await prompt(host, session, f"[[tool: bash {asking}]] [[say: fin]]")
        asked, seen = await next_asked(mine), await next_asked(other)
        assert isinstance(asked, AskedApproval)
        assert (asked.session, asked.tool) == (session, "bash")
        assert asked.call
        async with link.offers() as late:
            assert await next_asked(late) == seen == asked
        await host.answer_offer(attached.client, asked.key, "rejected")
        assert await next_asked(other) == Withdrawn(asked.key)


@on_a_host
async def test_questions_are_offered_and_answered(real_lab: Lab, home: Path, workspace: Path) -> None:
    async with live(real_lab, home) as (host, link), link.offers() as feed:
        session = await new_session(host, workspace, "standard")
        attached = await feed.next()
        assert isinstance(attached, Attached)
        options = [{"label": "Red"}, {"label": "Blue"}]
        questions = [{"id": "q1", "question": "Which?", "header": "H", "options": options, "multi_select": False}]
        asking = json.dumps({"questions": questions})
        await prompt(host, session, f"[[tool: ask_user_question {asking}]] [[say: fin]]")
        asked = await next_asked(feed)
        assert isinstance(asked, AskedQuestions)
        assert asked.session == session
        assert msgspec.json.decode(asked.questions)[0]["options"] == options
        async with link.follow(Address(session)) as followed:
            stitched = Stitched(host, session, followed)
            answer = {"answers": [{"id": "q1", "selected": ["Blue"]}]}
            await host.answer_offer(attached.client, asked.key, answer)
            with anyio.fail_after(20):
                await stitched.to_turn_end()
        assert any("Blue" in getattr(event, "text", "") for event in stitched.events)


@on_a_host
async def test_an_expired_login_is_told_and_a_new_one_is_used_by_itself(
    real_lab: Lab, home: Path, workspace: Path
) -> None:
    cookies = CookieFiles(home / "cookies")
    async with host_at(real_lab.host.origin, real_lab.host.launch_url, home) as logged_in:
        await logged_in.roster()
        good = cookies.load(real_lab.host.origin)
        assert good is not None
    cookies.save(Cookie(good.origin, good.name, "v1.expired", "login-old"))
    host = RemoteHost(label="default", origin=good.origin, cookies=cookies)
    link = LiveLink(host.origin, host._live_login, pace=QUICK)
    async with running(link), link.offers() as feed:
        with anyio.fail_after(20):
            lost = await feed.next()
            assert isinstance(lost, LinkLost)
            assert lost.reason.startswith("login_required: ")
            await until(lambda: link.state.failures >= 3)
            cookies.save(good)
            assert isinstance(await feed.next(), Attached)
    await host.aclose()


@on_a_host
async def test_a_refused_login_is_renewed_once_with_the_launch_token(real_lab: Lab, home: Path) -> None:
    CookieFiles(home / "cookies").save(Cookie(real_lab.host.origin, "dsh-auth-x", "v1.expired", "login-old"))
    async with live(real_lab, home) as (_, link), link.offers() as feed:
        with anyio.fail_after(20):
            assert isinstance(await feed.next(), Attached)


@on_a_host
async def test_a_frozen_host_is_noticed_and_taken_up_again(own_lab: Lab, home: Path) -> None:
    async with live(own_lab, home, QUICK) as (host, link):
        (directory := own_lab.host.workspace / f"frozen-{secrets.token_hex(4)}").mkdir()
        session = await new_session(host, directory)
        async with link.follow(Address(session)) as feed:
            with anyio.fail_after(20):
                assert isinstance(await feed.next(), Snapshot)
                own_lab.host.pause()
                try:
                    lost = await feed.next()
                    assert isinstance(lost, LinkLost)
                    assert "nothing was heard" in lost.reason
                finally:
                    own_lab.host.resume()
                assert isinstance(await feed.next(), Snapshot)


@on_a_host
async def test_a_killed_host_that_comes_back_on_its_port_is_followed_again(own_lab: Lab, home: Path) -> None:
    async with live(own_lab, home, QUICK) as (host, link):
        (directory := own_lab.host.workspace / f"killed-{secrets.token_hex(4)}").mkdir()
        session = await new_session(host, directory)
        async with link.follow(Address(session)) as feed, link.offers() as offers:
            with anyio.fail_after(50):
                first = await offers.next()
                await prompt(host, session, "hello")  # what is younger than 200 ms, a blank session too, a kill undoes
                while not isinstance(await feed.next(), TurnEnded):
                    pass
                own_lab.host.kill()
                assert isinstance(await offers.next(), LinkLost)
                await until(lambda: link.state.failures >= 3)
                assert not link.state.connected
                await anyio.to_thread.run_sync(own_lab.host.restart)
                again = await offers.next()
                assert isinstance(again, Attached)
                assert again != first
                while not isinstance(await feed.next(), LinkLost):
                    pass
                assert isinstance(await feed.next(), Snapshot)
                await prompt(host, session, "hello", number=2)
                while not isinstance(await feed.next(), TurnEnded):
                    pass


@on_a_host
@pytest.mark.soak
async def test_a_frozen_host_is_noticed_within_fifteen_seconds_as_shipped(home: Path) -> None:
    with lab() as frozen:
        async with live(frozen, home) as (_, link), link.offers() as feed:
            assert isinstance(await feed.next(), Attached)
            frozen.host.pause()
            began = time.monotonic()
            with anyio.fail_after(15):
                assert isinstance(await feed.next(), LinkLost)
            print(f"noticed after {time.monotonic() - began:.1f} s")
            frozen.host.resume()
            began = time.monotonic()
            with anyio.fail_after(15):
                assert isinstance(await feed.next(), Attached)
            print(f"taken up after {time.monotonic() - began:.1f} s")
