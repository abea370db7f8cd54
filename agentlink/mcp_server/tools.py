"""The tools: their arguments, their words, and the one use case each of them calls (design section 7)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.host_status import host_status
from agentlink.app.listing import StateFilter, list_tasks
from agentlink.app.recover import recover
from agentlink.app.release import release_workspace
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.app.wait import Say, WaitRequest, wait
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId, task_id
from agentlink.core.routing.hints import json_schema
from agentlink.mcp_server.spec import RequestKey, ToolSpec, checked_task, given
from agentlink.mcp_server.supervision import SUPERVISION

Text = Annotated[str, Meta(min_length=1)]


ROUTING_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Let rules choose the preset. Give only hints that the task states.",
    "properties": {"mode": {"type": "string", "enum": ["auto"]}, "hints": json_schema()},
    "required": ["mode"],
    "additionalProperties": False,
}


class HostStatusArgs(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class DelegateArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What a delegation takes."""

    prompt: Annotated[str, Meta(min_length=1, description="The task, sent unchanged")]
    cwd: Annotated[str, Meta(min_length=1, description="Absolute path")]
    agent_preset: Annotated[str, Meta(min_length=1, description="DSH preset id; absent: Host default")] | UnsetType = (
        UNSET
    )
    workspace_mode: (
        Annotated[
            Literal["exclusive-write", "read-only"],
            Meta(description="Claim on cwd, default exclusive-write"),
        ]
        | UnsetType
    ) = UNSET
    routing: Annotated[dict[str, Any], Meta(extra_json_schema=ROUTING_SCHEMA)] | UnsetType = UNSET
    title: Annotated[str, Meta(description="Session title")] | UnsetType = UNSET
    request_key: RequestKey | UnsetType = UNSET
    wait_seconds: Annotated[float, Meta(ge=0, description="Then wait as dsh_wait does")] | UnsetType = UNSET


class StatusArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which task."""

    task_id: str


class ListArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which page of tasks."""

    limit: Annotated[int, Meta(ge=1, le=200, description="Rows, default 50")] | UnsetType = UNSET
    before: Annotated[str, Meta(description="`next` of a page")] | UnsetType = UNSET
    state: Literal["unfinished", "failed", "sent", "claimed"] | UnsetType = UNSET


class ReleaseArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which claim."""

    task_id: str
    force: Annotated[bool, Meta(description="Also while the task may still run")] | UnsetType = UNSET


class RecoverArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to recover; nothing given: settle and list everything."""

    task_id: str | UnsetType = UNSET
    prompt: Annotated[str, Meta(min_length=1, description="Sent unchanged")] | UnsetType = UNSET
    abandon: Annotated[bool, Meta(description="Close it for good")] | UnsetType = UNSET
    session_lost: Annotated[bool, Meta(description="The user says that it is gone")] | UnsetType = UNSET


async def _host_status(runtime: Runtime, _: HostStatusArgs, _say: Say) -> msgspec.Struct:
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


async def _delegate(runtime: Runtime, args: DelegateArgs, say: Say) -> msgspec.Struct:
    request = DelegateRequest(
        prompt=args.prompt,
        cwd=args.cwd,
        preset=given(args.agent_preset),
        auto=args.routing is not UNSET,
        hints=None if args.routing is UNSET else _routing_hints(args.routing),
        claim="exclusive-write" if args.workspace_mode is UNSET else args.workspace_mode,
        title=given(args.title),
        request_key=given(args.request_key),
    )
    delegated = await delegate(runtime, request)
    if args.wait_seconds is UNSET:
        return delegated
    wanted = WaitRequest(tasks=(TaskId(delegated.task_id),), timeout_s=args.wait_seconds)
    try:
        return replace(delegated, waited=await wait(runtime, wanted, say=say))
    except Failure as failure:
        # The task is delegated all the same, and the caller must not miss that.
        return replace(
            delegated, warnings=(*delegated.warnings, f"not waited: {failure.code.value}: {failure.message}")
        )


async def _status(runtime: Runtime, args: StatusArgs, _say: Say) -> msgspec.Struct:
    return await task_status(runtime, checked_task(args.task_id))


async def _list(runtime: Runtime, args: ListArgs, _say: Say) -> msgspec.Struct:
    before = given(args.before)
    if before is not None and task_id(before) is None:
        raise Failure(Code.INVALID_REQUEST, "before is no task id", details={"argument": "before"})
    state: StateFilter | None = given(args.state)
    return await list_tasks(runtime, limit=50 if args.limit is UNSET else args.limit, before=before, state=state)


async def _release(runtime: Runtime, args: ReleaseArgs, _say: Say) -> msgspec.Struct:
    return await release_workspace(runtime, checked_task(args.task_id), force=args.force is True)


async def _recover(runtime: Runtime, args: RecoverArgs, _say: Say) -> msgspec.Struct:
    prompt = given(args.prompt)
    return await recover(
        runtime,
        None if args.task_id is UNSET else checked_task(args.task_id),
        prompt=prompt,
        give_up=args.abandon is True,
        session_lost=args.session_lost is True,
    )


LAUNCH = (
    ToolSpec(
        "dsh_host_status",
        "DSH Host status",
        "Whether the DSH Web Host can be used now: login, presets, routing. Never starts a Host.",
        HostStatusArgs,
        _host_status,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_delegate",
        "Delegate a task to DSH",
        "Hand a coding task to the user's DSH Host: a fresh session, its preset proven, cwd claimed, the prompt sent "
        "once. Then dsh_wait. workspaceMode is a cooperative claim between Agentlink tasks, NOT a sandbox: it neither "
        "selects nor verifies the DSH sandbox. On delivery_unknown never send again; dsh_status settles it.",
        DelegateArgs,
        _delegate,
    ),
    ToolSpec(
        "dsh_status",
        "Status of a task",
        "One task: its launch replayed, what the agent does or waits for, its final message once done. A completed "
        "turn is no proof of the work.",
        StatusArgs,
        _status,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_list",
        "List tasks",
        "Tasks, newest first, and which are running; `next` goes into `before`.",
        ListArgs,
        _list,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "dsh_release_workspace",
        "Release a workspace claim",
        "Give a finished task's workspace claim back; its session stays. A task that may still run is refused unless "
        "force is given.",
        ReleaseArgs,
        _release,
        destructive=True,
    ),
    ToolSpec(
        "dsh_recover",
        "Recover interrupted launches",
        "Without arguments: settle interrupted launches and list sessions left without a prompt. With taskId and "
        "prompt: send it there once, after proving everything again. With abandon: close it.",
        RecoverArgs,
        _recover,
    ),
)

TOOLS: tuple[ToolSpec, ...] = (*LAUNCH, *SUPERVISION)
BY_NAME = {tool.name: tool for tool in TOOLS}
