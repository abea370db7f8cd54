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
from agentlink.core.facts.record import VERSION, Line, encode_line
from agentlink.core.facts.work import ClaimReleased
from agentlink.core.ids import SessionId, TaskId, make_task_id, prompt_request_id
from agentlink.files.private import FILE_MODE, ensure_private_dir
from agentlink.journal.head import Head, write_head
from agentlink.journal.journal import Journal
from agentlink.journal.rotate import SEGMENT_BYTES, begin_segment

AT = "2026-01-01T00:00:00.000Z"
CWD = "/home/me/project"
LINES_PER_TASK = 7
_AT_ONCE = 500
"""Tasks written between two looks at the segment's length."""


class Written(msgspec.Struct, frozen=True):
    """A written journal."""

    home: Path
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


def encoded_lines(numbers: range, *, before: str, seq: int, held: bool) -> Iterator[tuple[bytes, str]]:
    """Every line of these tasks and its sum, from number `seq` on: a line for each fact of a launch.

    The last line of a task also gives its claim back, unless it is `held`.
    """
    for number in numbers:
        task = numbered_task(number)
        for n, fact in enumerate(launch_facts(task, number), start=1):
            closes = n == LINES_PER_TASK and not held
            facts = (fact, ClaimReleased()) if closes else (fact,)
            data, before = encode_line(Line(VERSION, seq, AT, task, n, facts), before)
            yield data, before
            seq += 1


def write_journal(home: Path, tasks: int, *, held: bool = False, segmented: bool = True) -> Written:
    """A journal of this many launched tasks in an unused home, its segments and index made by the product itself.

    Not `segmented`: all of it in the first segment, however long.
    """
    journal = Journal(ensure_private_dir(home / "journal"), clock=lambda: AT)
    size = 0
    for first in range(0, tasks, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, tasks))
        ledger = journal.ledger
        with journal.path.open("ab") as out:
            journal.path.chmod(FILE_MODE)
            for data, _ in encoded_lines(numbers, before=ledger.sum, seq=ledger.next_seq, held=held):
                out.write(data)
        journal.refresh()
        if segmented and journal.ledger.offset >= SEGMENT_BYTES:
            size += journal.ledger.offset
            begin_segment(journal.directory, journal.ledger, at=AT, next_seq=journal.ledger.next_seq)
            journal.refresh()
    ledger = journal.ledger
    if tasks:
        write_head(journal.directory / "head", Head(journal.path.name, ledger.seq or 0, ledger.sum, ledger.offset))
        journal.newest(limit=1, before=None, kind=None)
    journal.close()
    if journal.problem is not None:
        raise RuntimeError(f"not written as the product reads it: {journal.problem}")
    return Written(home, tasks, tasks * LINES_PER_TASK, size + ledger.offset)
