"""Identities of Agentlink's own objects. Ids are made at the edge and only checked here."""

import re
from typing import NewType

TaskId = NewType("TaskId", str)
"""`dsh_` and 12 hexadecimal digits; one delegated task."""
SessionId = NewType("SessionId", str)
"""A Host session; ours look like `session-<uuid>`."""
RequestId = NewType("RequestId", str)
"""The id under which one prompt is sent: `<task>.<attempt>.<n>`."""

_TASK_ID = re.compile(r"dsh_[0-9a-f]{12}")
_REQUEST_KEY = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def task_id(text: str) -> TaskId | None:
    """The text as a task id, or None when it does not have that form."""
    return TaskId(text) if _TASK_ID.fullmatch(text) else None


def make_task_id(entropy: bytes) -> TaskId:
    """A task id from 6 random bytes."""
    return TaskId(f"dsh_{entropy[:6].hex()}")


def prompt_request_id(task: TaskId, *, attempt: int, number: int) -> RequestId:
    """The id of the number-th prompt of an attempt; the launch's own prompt is number 0."""
    return RequestId(f"{task}.{attempt}.{number}")


def is_request_key(text: str) -> bool:
    """Whether a caller's request key has the allowed form (design section 3, rule 8)."""
    return _REQUEST_KEY.fullmatch(text) is not None
