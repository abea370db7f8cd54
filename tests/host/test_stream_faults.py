"""A live connection to a Host that misbehaves: every break is told once, and nothing ever spins."""

from __future__ import annotations

import json
import time

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from agentlink.core.host.values import (
    Address,
    Attached,
    LinkLost,
    OtherEvent,
    Snapshot,
)
from agentlink.host.stream import LiveLink, Pace
from tests.host.mux_door import QUICK, Door, any_login, begin, doors, event, running, until


async def test_a_gap_ends_the_opening_and_not_the_connection() -> None:
    opened: list[str] = []

    async def serve(door: Door) -> None:
        await door.accept()
        while True:
            frame = await door.frame()
            stream = frame["streamId"]
            if frame["type"] != "open":
                opened.append(f"no {stream}")
                continue
            opened.append(stream)
            await door.item(stream, begin(4))
            await door.item(stream, event(5))
            await door.item(stream, event(7 if len(opened) == 1 else 6))
            await door.item(stream, event(8))

    async with doors(serve) as origin, running(LiveLink(origin, any_login, pace=QUICK)) as link:
        async with link.follow(Address("s")) as feed:
            with anyio.fail_after(10):
                items = [await feed.next() for _ in range(6)]
        assert [type(item) for item in items] == [Snapshot, OtherEvent, LinkLost, Snapshot, OtherEvent, OtherEvent]
        assert "event 7 came after event 5" in str(items[2])
        assert link.state.connected
        assert opened[:3] == ["s1", "no s1", "s2"]


async def test_a_stream_that_always_fails_is_told_once_and_opened_ever_more_rarely() -> None:
    opened: list[str] = []

    async def serve(door: Door) -> None:
        await door.accept()
        while True:
            stream = (await door.frame())["streamId"]
            opened.append(stream)
            error = {"code": "session/migration-required", "message": "no"}
            await door.say(json.dumps({"type": "error", "streamId": stream, "error": error}))

    pace = Pace(first_pause_s=0.01, longest_pause_s=5.0)
    async with (
        doors(serve) as origin,
        running(LiveLink(origin, any_login, pace=pace, chance=lambda: 1.0)) as link,
        link.follow(Address("s")) as feed,
    ):
        began = time.monotonic()
        await until(lambda: len(opened) >= 6)
        assert time.monotonic() - began > 0.02 + 0.04 + 0.08 + 0.16 + 0.32 - 0.05
        assert await feed.next() == LinkLost("session/migration-required: no")
        with anyio.move_on_after(0.01) as waited:
            await feed.next()
        assert waited.cancelled_caught
    assert len(set(opened)) == len(opened), "an id is never used again"


async def test_a_session_that_a_host_forgot_while_it_was_away_is_told_beside_the_loss() -> None:
    connections = 0

    async def serve(door: Door) -> None:
        nonlocal connections
        connections += 1
        await door.accept()
        stream = (await door.frame())["streamId"]
        if connections == 1:
            await door.item(stream, begin(4))
            return
        error = {"code": "session/not-found", "message": "gone"}
        await door.say(json.dumps({"type": "error", "streamId": stream, "error": error}))
        await door.frame()

    async with doors(serve) as origin, running(LiveLink(origin, any_login, pace=QUICK)) as link:
        async with link.follow(Address("s")) as feed:
            with anyio.fail_after(10):
                items = [await feed.next() for _ in range(3)]
        assert [type(item) for item in items] == [Snapshot, LinkLost, LinkLost]
        assert items[2] == LinkLost("session/not-found: gone")


@pytest.mark.parametrize("size", [1000, 5000, 300_000, 2_000_000])
async def test_a_frame_that_is_too_large_is_left_out_and_its_stream_begins_again(size: int) -> None:
    opened: list[str] = []

    async def serve(door: Door) -> None:
        await door.accept()
        while True:
            frame = await door.frame()
            if frame["type"] != "open":
                continue
            stream = frame["streamId"]
            opened.append(stream)
            await door.item(stream, begin(4))
            await door.item(stream, event(5, text="y" * (size if len(opened) == 2 else 10)))
            await door.item(stream, event(6))

    pace = Pace(frame_chars=900, first_pause_s=0.01)
    async with doors(serve) as origin, running(LiveLink(origin, any_login, pace=pace)) as link:
        with anyio.fail_after(10):
            async with link.follow(Address("a")) as one:
                assert [type(await one.next()) for _ in range(3)] == [Snapshot, OtherEvent, OtherEvent]
                async with link.follow(Address("b")) as other:
                    assert isinstance(await other.next(), Snapshot)
                    lost = await other.next()
                    assert isinstance(lost, LinkLost)
                    assert lost.reason.startswith("bad_host_reply: a frame of more than 900")
                    assert [type(await other.next()) for _ in range(3)] == [Snapshot, OtherEvent, OtherEvent]
        assert link.state.connected
        assert opened == ["s1", "s2", "s3"]


@pytest.mark.parametrize("spoilt", ["not json", "[1]", "close"])
async def test_a_connection_that_cannot_be_read_is_made_anew(spoilt: str) -> None:
    connections = 0

    async def serve(door: Door) -> None:
        nonlocal connections
        connections += 1
        await door.accept()
        stream = (await door.frame())["streamId"]
        await door.item(stream, {"type": "ready", "clientId": f"c{connections}"})
        if connections == 1:
            await (door.close(1008) if spoilt == "close" else door.say(spoilt))
        await door.frame()

    async with doors(serve) as origin, running(LiveLink(origin, any_login, pace=QUICK)) as link:
        async with link.offers() as feed:
            with anyio.fail_after(10):
                items = [await feed.next() for _ in range(3)]
        assert items[0] == Attached("c1")
        assert isinstance(items[1], LinkLost)
        assert items[1].reason.startswith("host_unreachable: " if spoilt == "close" else "bad_host_reply: ")
        assert items[2] == Attached("c2")


async def test_a_refused_upgrade_asks_for_another_login_once_per_attempt() -> None:
    cookies: list[str] = []

    async def serve(door: Door) -> None:
        cookies.append(await door.accept(401))

    link: LiveLink
    attempts = 0

    async def sleep(_: float) -> None:
        nonlocal attempts
        attempts += 1
        await anyio.sleep_forever() if attempts == 2 else await anyio.lowlevel.checkpoint()

    async with doors(serve) as origin, running(link := LiveLink(origin, any_login, sleep=sleep)), link.offers() as feed:
        with anyio.fail_after(10):
            lost = await feed.next()
        await until(lambda: attempts == 2)
        assert isinstance(lost, LinkLost)
        assert lost.reason.startswith("login_required: ")
        assert cookies == ["dsh-auth-a=v1.first", "dsh-auth-a=v1.second"] * 2


async def test_a_host_without_a_live_connection_is_named() -> None:
    async def serve(door: Door) -> None:
        await door.accept(404)

    link: LiveLink
    async with doors(serve) as origin, running(link := LiveLink(origin, any_login)), link.offers() as feed:
        with anyio.fail_after(10):
            lost = await feed.next()
        assert isinstance(lost, LinkLost)
        assert "HTTP 404" in lost.reason
        assert link.state.reason == lost.reason
        assert lost.reason.startswith("host_unsupported: ")


async def test_pauses_grow_to_their_bound_and_an_absent_host_is_told_once() -> None:
    pauses: list[float] = []

    async def sleep(pause: float) -> None:
        pauses.append(pause)
        await anyio.lowlevel.checkpoint() if len(pauses) < 9 else await anyio.sleep_forever()

    async with doors(lambda _: anyio.lowlevel.checkpoint()) as origin:
        pass
    link = LiveLink(origin, any_login, chance=lambda: 1.0, sleep=sleep)
    async with running(link), link.offers() as feed:
        await until(lambda: len(pauses) == 9)
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
        assert link.state.failures == 9
        lost = await feed.next()
        assert isinstance(lost, LinkLost)
        assert lost.reason.startswith("host_unreachable: ")
        with anyio.move_on_after(0.01) as waited:
            await feed.next()
        assert waited.cancelled_caught
        async with link.offers() as later:
            assert isinstance(await later.next(), LinkLost)


async def test_a_host_that_does_not_answer_the_upgrade_is_not_waited_for_long() -> None:
    async with (
        doors(lambda _: anyio.sleep_forever()) as origin,
        running(LiveLink(origin, any_login, pace=Pace(connect_s=0.1))) as link,
        link.offers() as feed,
    ):
        with anyio.fail_after(5):
            assert isinstance(await feed.next(), LinkLost)


async def test_a_reader_is_told_when_the_connection_is_closed_here() -> None:
    link = LiveLink("http://127.0.0.1:9", any_login)
    async with link.offers() as feed:
        async with running(link):
            await anyio.lowlevel.checkpoint()
        with anyio.fail_after(5):
            assert isinstance(await feed.next(), LinkLost)
    assert not link.state.connected


async def test_leaving_a_stream_cancels_it_on_the_host() -> None:
    frames: list[tuple[str, str]] = []

    async def serve(door: Door) -> None:
        await door.accept()
        while True:
            frame = await door.frame()
            frames.append((frame["type"], frame["streamId"]))
            if frame["type"] == "open":
                await door.item(frame["streamId"], {"type": "ready", "clientId": "c"})

    async with doors(serve) as origin, running(LiveLink(origin, any_login)) as link:
        with anyio.fail_after(5):
            async with link.offers() as feed:
                await feed.next()
            await until(lambda: len(frames) == 2)
    assert frames == [("open", "s1"), ("cancel", "s1")]
