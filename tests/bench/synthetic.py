"""Journals of any size: complete launches, chained and encoded as the product does it, without waiting for a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentlink.core.facts.launch import (
    LaunchClaimed,
    LaunchFact,
    LaunchRequested,
    LaunchSelected,
    PresetVerified,
    PromptConfirmed,
    PromptSent,
    SessionCreated,
)
from agentlink.core.facts.record import FIRST_SUM, VERSION, Line, encode_line
from agentlink.core.facts.work import ClaimReleased
from agentlink.core.ids import SessionId, TaskId, make_task_id, prompt_request_id
from agentlink.files.private import FILE_MODE, ensure_private_dir
from agentlink.journal.head import Head, write_head

AT = "2026-01-01T00:00:00.000Z"
CWD = "/home/me/project"
LINES_PER_TASK = 7


class Journal(msgspec.Struct, frozen=True):
    """A written journal."""

    file: Path
    tasks: int
    lines: int
    bytes: int


def numbered_task(number: int) -> TaskId:
    """The number-th synthetic task."""
    return make_task_id(number.to_bytes(6, "big"))


def launch_facts(task: TaskId, number: int) -> tuple[LaunchFact, ...]:
    """A launch from its request to its confirmed prompt, as `delegate` writes them."""
    session = SessionId(f"session-00000000-0000-4000-8000-{number:012x}")
    request = prompt_request_id(task, attempt=1, number=0)
    return (
        LaunchRequested(
            attempt=1,
            mode="manual",
            cwd=CWD,
            claim="read-only",
            host="default",
            origin="http://127.0.0.1:3080",
            binding="login-0123456789ab",
            preset="minimal",
        ),
        LaunchSelected(session=session, reason="explicit_preset", preset="minimal"),
        SessionCreated(session=session, resolved="minimal"),
        PresetVerified(verification="verified"),
        LaunchClaimed(request=request),
        PromptSent(request=request, evidence="receipt"),
        PromptConfirmed(seq=7),
    )


def encoded_lines(tasks: int, *, held: bool) -> Iterator[tuple[bytes, str]]:
    """Every line of a journal with this many tasks, and its sum: a line for each fact of a launch.

    The last line of a task also gives its claim back, unless it is `held`.
    """
    before, seq = FIRST_SUM, 0
    for number in range(tasks):
        task = numbered_task(number)
        for n, fact in enumerate(launch_facts(task, number), start=1):
            seq += 1
            closes = n == LINES_PER_TASK and not held
            facts = (fact, ClaimReleased()) if closes else (fact,)
            data, before = encode_line(Line(VERSION, seq, AT, task, n, facts), before)
            yield data, before


def write_journal(home: Path, tasks: int, *, held: bool = False) -> Journal:
    """A journal of this many launched tasks in an unused home, with its acknowledged end."""
    directory = ensure_private_dir(home / "journal")
    file = directory / "000001.jsonl"
    size, lines, end = 0, 0, FIRST_SUM
    with file.open("xb", buffering=1 << 20) as out:
        file.chmod(FILE_MODE)
        for data, new_sum in encoded_lines(tasks, held=held):
            out.write(data)
            size += len(data)
            lines += 1
            end = new_sum
    if lines:
        write_head(directory / "head", Head(file.name, lines, end, size))
    return Journal(file, tasks, lines, size)
