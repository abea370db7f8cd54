"""A tool as data, and what the tools' arguments have in common."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from agentlink.app.runtime import Runtime
from agentlink.app.wait import Say
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId, task_id

RequestKey = Annotated[str, Meta(description="Your own id; repeating it never sends twice")]


class ToolSpec(msgspec.Struct, frozen=True):
    """One tool."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Runtime, Any, Say], Awaitable[msgspec.Struct]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    needs_person: bool = False
    """A person decides each call: callers that can ask do so, whatever else they may skip."""


def checked_task(text: str) -> TaskId:
    """The task id. Raises Failure invalid_request."""
    found = task_id(text)
    if found is None:
        raise Failure(Code.INVALID_REQUEST, "taskId looks like dsh_0123456789ab", details={"argument": "taskId"})
    return found


def given(value: Any) -> Any:
    """The argument, None when it was not given."""
    return None if value is UNSET else value
