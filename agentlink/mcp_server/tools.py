"""The tools: their arguments, their words, and the one use case each of them calls (design section 7)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.host_status import host_status
from agentlink.app.listing import StateFilter, list_tasks
from agentlink.app.recover import recover
from agentlink.app.release import release_workspace
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId, task_id
from agentlink.core.routing.hints import json_schema

Text = Annotated[str, Meta(min_length=1)]
TaskIdText = Annotated[str, Meta(pattern="^dsh_[0-9a-f]{12}$", description="Task id, dsh_…")]


ROUTING_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Let rules choose the preset, instead of agentPreset. Give only hints that the task states.",
    "properties": {"mode": {"type": "string", "enum": ["auto"]}, "hints": json_schema()},
    "required": ["mode"],
    "additionalProperties": False,
}


class HostStatusArgs(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class DelegateArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What a delegation takes."""

    prompt: Annotated[str, Meta(min_length=1, description="The task, sent unchanged")]
    cwd: Annotated[str, Meta(min_length=1, description="Absolute path of an existing directory")]
    agent_preset: Annotated[str, Meta(min_length=1, description="DSH preset id; absent: Host default")] | UnsetType = (
        UNSET
    )
    workspace_mode: (
        Annotated[
            Literal["exclusive-write", "read-only"],
            Meta(description="Cooperative claim on cwd, default exclusive-write"),
        ]
        | UnsetType
    ) = UNSET
    routing: Annotated[dict[str, Any], Meta(extra_json_schema=ROUTING_SCHEMA)] | UnsetType = UNSET
    title: Annotated[str, Meta(description="Session title")] | UnsetType = UNSET
    request_key: (
        Annotated[
            str,
            Meta(
                pattern="^[A-Za-z0-9._:-]{1,128}$",
                description="Your own id for this request; repeating it never starts a second task",
            ),
        ]
        | UnsetType
    ) = UNSET


class StatusArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which task."""

    task_id: TaskIdText


class ListArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which page of tasks."""

    limit: Annotated[int, Meta(ge=1, le=200, description="Rows, default 50")] | UnsetType = UNSET
    before: Annotated[str, Meta(description="`next` of the page before")] | UnsetType = UNSET
    state: Literal["unfinished", "failed", "sent", "claimed"] | UnsetType = UNSET


class ReleaseArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which claim."""

    task_id: TaskIdText
    force: Annotated[bool, Meta(description="Also while the task may still run")] | UnsetType = UNSET


class RecoverArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to recover; nothing given: settle and list everything."""

    task_id: TaskIdText | UnsetType = UNSET
    prompt: (
        Annotated[str, Meta(min_length=1, description="Sent into the task's unprompted session, unchanged")] | UnsetType
    ) = UNSET
    abandon: Annotated[bool, Meta(description="Close the unprompted session for good")] | UnsetType = UNSET
    session_lost: (
        Annotated[bool, Meta(description="The user confirms that the session is gone from the Host")] | UnsetType
    ) = UNSET


class ToolSpec(msgspec.Struct, frozen=True):
    """One tool as data."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Runtime, Any], Awaitable[msgspec.Struct]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


def _task(text: str) -> TaskId:
    found = task_id(text)
    if found is None:
        raise Failure(Code.INVALID_REQUEST, "taskId looks like dsh_0123456789ab", details={"argument": "taskId"})
    return found


def _given(value: Any) -> Any:
    return None if value is UNSET else value


async def _host_status(runtime: Runtime, _: HostStatusArgs) -> msgspec.Struct:
    return await host_status(runtime)


def _routing_hints(routing: dict[str, Any]) -> dict[str, object]:
    """The hints of a routing argument. Raises Failure invalid_request or routing_hints_invalid."""
    unknown = sorted(set(routing) - {"mode", "hints"})
    if unknown or routing.get("mode") != "auto":
        what = f"unknown name {unknown[0]!r}" if unknown else "mode must be 'auto'"
        raise Failure(Code.INVALID_REQUEST, f"routing: {what}", details={"argument": "routing"})
    hints = routing.get("hints")
    if hints is None:
        return {}
    if not isinstance(hints, dict):
        raise Failure(Code.ROUTING_HINTS_INVALID, "hints must be an object", details={"field": "hints"})
    return hints


async def _delegate(runtime: Runtime, args: DelegateArgs) -> msgspec.Struct:
    request = DelegateRequest(
        prompt=args.prompt,
        cwd=args.cwd,
        preset=_given(args.agent_preset),
        auto=args.routing is not UNSET,
        hints=None if args.routing is UNSET else _routing_hints(args.routing),
        claim="exclusive-write" if args.workspace_mode is UNSET else args.workspace_mode,
        title=_given(args.title),
        request_key=_given(args.request_key),
    )
    return await delegate(runtime, request)


async def _status(runtime: Runtime, args: StatusArgs) -> msgspec.Struct:
    return await task_status(runtime, _task(args.task_id))


async def _list(runtime: Runtime, args: ListArgs) -> msgspec.Struct:
    before = _given(args.before)
    if before is not None and task_id(before) is None:
        raise Failure(Code.INVALID_REQUEST, "before is no task id", details={"argument": "before"})
    state: StateFilter | None = _given(args.state)
    return await list_tasks(runtime, limit=50 if args.limit is UNSET else args.limit, before=before, state=state)


async def _release(runtime: Runtime, args: ReleaseArgs) -> msgspec.Struct:
    return await release_workspace(runtime, _task(args.task_id), force=args.force is True)


async def _recover(runtime: Runtime, args: RecoverArgs) -> msgspec.Struct:
    prompt = _given(args.prompt)
    return await recover(
        runtime,
        None if args.task_id is UNSET else _task(args.task_id),
        prompt=prompt,
        give_up=args.abandon is True,
        session_lost=args.session_lost is True,
    )


TOOLS = (
    ToolSpec(
        "dsh_host_status",
        "DSH Host status",
        "Whether the DSH Web Host can be used now: availability, wire, login, presets. Never starts a Host.",
        HostStatusArgs,
        _host_status,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_delegate",
        "Delegate a task to DSH",
        "Hand a coding task to the user's DSH Host. Opens a fresh session, proves its preset, claims cwd, then sends "
        "the prompt once. Returns without waiting for the agent; poll dsh_status. workspaceMode is a cooperative claim "
        "between Agentlink tasks, NOT a sandbox: it neither selects nor verifies the DSH sandbox. On delivery_unknown "
        "never send again; dsh_status settles it.",
        DelegateArgs,
        _delegate,
    ),
    ToolSpec(
        "dsh_status",
        "Status of a task",
        "One task: its launch replayed stage by stage, what the agent is doing, and its final message once the turn "
        "has ended. Settles an interrupted launch by reading the Host. Success of a turn is not proof of the work.",
        StatusArgs,
        _status,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_list",
        "List tasks",
        "Tasks of this journal, newest first, without asking the Host. `next` is the `before` of the next page.",
        ListArgs,
        _list,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_release_workspace",
        "Release a workspace claim",
        "Give a finished task's workspace claim back. The session on the Host is not touched. A task that may still "
        "run is refused unless force is given.",
        ReleaseArgs,
        _release,
        destructive=True,
    ),
    ToolSpec(
        "dsh_recover",
        "Recover interrupted launches",
        "Without arguments: settle every interrupted launch by reading the Host and list sessions left without a "
        "prompt. With taskId and prompt: send it there once, after proving preset, claim and model again. With "
        "taskId and abandon: close it.",
        RecoverArgs,
        _recover,
    ),
)

BY_NAME = {tool.name: tool for tool in TOOLS}
