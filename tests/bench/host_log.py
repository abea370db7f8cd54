"""Long session logs for a real Host: written below a stopped Host in its own format, out of events that it made itself.

A log is one line of JSON for the session and one for each event, compressed. What is written here says that its blocks
are not compressed, which every reader of that format takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

_MAGIC = bytes.fromhex("28b52ffd")
_WINDOW_OF_128_KIB = b"\x00\x38"
_BLOCK = 1 << 17
_EVENTS_PER_FRAME = 500
_LEFT_OUT = ("session/title", "session/title-llm-request", "session-log-deepseek/delivery-accepted")

Event = dict[str, Any]


class Pattern:
    """The events of one turn with one tool call, as a real Host wrote them, to be told again under other numbers."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.first = list(events)
        """The session so far. It stays as it is: what its title says refers to its events."""
        kept = [event for event in events if event["type"] not in _LEFT_OUT]
        begin = next(n for n, event in enumerate(kept) if event["type"] == "agent/inbox/spliced")
        step = next(n for n, event in enumerate(kept) if event["type"] == "assistant/message")
        step_end = next(n for n, event in enumerate(kept) if event["type"] == "step/end")
        first = next(n for n, event in enumerate(kept) if event["type"] == "step/start")
        self.opening = kept[begin:step]
        """The prompt, the turn's start, and what comes before the model's first answer."""
        self.call = kept[step : step_end + 1]
        self.step_start = kept[first]
        self.ending = kept[step_end + 1 :]
        """The last answer and the turn's end."""

    def turns(self, count: int, *, calls: int) -> Iterator[Event]:
        """The first turn, and so many more with so many tool calls each."""
        yield from self.first
        for turn in range(2, count + 2):
            yield from (_renumbered(event, turn, 1) for event in self.opening)
            for step in range(1, calls + 1):
                if step > 1:
                    yield _renumbered(self.step_start, turn, step)
                yield from (_renumbered(event, turn, step) for event in self.call)
            yield from (_renumbered(event, turn, calls + 1) for event in self.ending)


def _renumbered(event: Event, turn: int, step: int) -> Event:
    text = (
        msgspec.json.encode(event).decode().replace("call_lab_1", f"call_{turn}_{step}").replace(".1.0", f".1.{turn}")
    )
    found = msgspec.json.decode(text, type=Event)
    numbers = {name: value for name, value in (("turn", turn), ("step", step)) if name in found["data"]}
    return {**found, "data": {**found["data"], **numbers}}


def with_text(event: Event, text: str) -> Event:
    """The same message with another text."""
    data = event["data"]
    holder = data.get("message", data)
    changed = {**holder, "content": [{"type": "text", "text": text}]}
    return {**event, "data": {**data, "message": changed} if "message" in data else changed}


def numbered(events: Iterator[Event], *, apart_ms: int = 10) -> list[Event]:
    """The events as they are in a log: numbered, and each a little later than the one before, the last one now."""
    found = list(events)
    begin = int(time.time() * 1_000) - len(found) * apart_ms
    return [{**event, "seq": seq, "time": begin + seq * apart_ms} for seq, event in enumerate(found)]


def session_log(host_home: Path, session: str) -> Path:
    """Where a Host keeps the events of this session."""
    (found,) = host_home.glob(f"sessions/*/{session}/session.v4.jsonl.zstd")
    return found


def write_log(host_home: Path, session: str, header: Event, events: Sequence[Event]) -> int:
    """Puts this log in the place of the session's own; the Host must be down. Gives the bytes of the lines."""
    first, *lines = (msgspec.json.encode(line) + b"\n" for line in (header, *events))
    # The Host asks that the first line be compressed alone.
    frames = [first, *(b"".join(lines[n : n + _EVENTS_PER_FRAME]) for n in range(0, len(lines), _EVENTS_PER_FRAME))]
    session_log(host_home, session).write_bytes(b"".join(_frame(frame) for frame in frames))
    for cached in host_home.glob(f"storages/session_projcache/sessions/{session}.json"):
        cached.unlink()
    return sum(len(frame) for frame in frames)


def _frame(data: bytes) -> bytes:
    blocks = [data[n : n + _BLOCK] for n in range(0, len(data), _BLOCK)] or [b""]
    parts = [_MAGIC, _WINDOW_OF_128_KIB]
    for block in blocks:
        parts += [(len(block) << 3 | (block is blocks[-1])).to_bytes(3, "little"), block]
    return b"".join(parts)
