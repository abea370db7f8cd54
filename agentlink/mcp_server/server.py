"""The MCP server over stdio. It starts and lists its tools whatever state Host, settings or journal are in."""

import logging
import os
import sys
from typing import Any, NoReturn

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from agentlink import __version__
from agentlink.app.recover import settle_unfinished
from agentlink.app.runtime import Runtime, open_runtime
from agentlink.app.wait import Say
from agentlink.core.errors import Code, Failure
from agentlink.mcp_server import result
from agentlink.mcp_server.schema import input_schema, parse_arguments
from agentlink.mcp_server.spec import ToolSpec
from agentlink.mcp_server.tools import BY_NAME, TOOLS

log = logging.getLogger("agentlink.mcp")

INSTRUCTIONS = (
    "Delegates coding tasks to the user's DSH Web Host. Delegate, then dsh_wait until it does not time out; it also "
    "returns when a question or an approval waits for a person. Errors carry code, stage, promptSent and the next safe "
    "step; follow `next`."
)


def make_server(runtime: Runtime | None = None) -> Server[Any]:
    """The server; the runtime is opened by the first call when none is given. Give it a task group by `serving`."""
    return _Serving(runtime).server


NEEDS_PERSON = "anthropic/requiresUserInteraction"
"""The mark by which a caller asks its user before every call of a tool, in every permission mode."""
SETTLE_AFTER_S = 1.5
"""A start answers its caller first; then what earlier processes left is settled."""
SETTLE_WITHIN_S = 60.0
SETTLE_AT_MOST = 64


class _Serving:
    def __init__(self, runtime: Runtime | None) -> None:
        self._runtime = runtime
        self.group: anyio.abc.TaskGroup | None = None
        self.server: Server[Any] = Server(
            "agentlink",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    @property
    def launches_running(self) -> int:
        return 0 if self._runtime is None else self._runtime.to_the_end.running

    async def aclose(self) -> None:
        if self._runtime is not None:
            await self._runtime.aclose()

    async def settle_leftovers(self) -> None:
        """Settles what earlier processes left unfinished, once, bounded, in the background; reads only on the Host."""
        await anyio.sleep(SETTLE_AFTER_S)
        with anyio.move_on_after(SETTLE_WITHIN_S):
            try:
                await settle_unfinished(self._opened(), limit=SETTLE_AT_MOST)
            except Failure as failure:
                # Every call that needs what is broken says so itself; here nobody asked.
                log.info("nothing was settled at start: %s", failure.code.value)

    def _opened(self) -> Runtime:
        if self._runtime is None:
            self._runtime = open_runtime()
        self._runtime.to_the_end.group = self.group
        return self._runtime

    async def _list_tools(self, _ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[describe(tool) for tool in TOOLS])

    async def _call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name!r}")
        try:
            arguments = parse_arguments(tool.arguments, dict(params.arguments or {}))
            return result.success(await tool.run(self._opened(), arguments, _progress(ctx)))
        except Failure as failure:
            return result.error(failure)
        except Exception as error:
            log.exception("tool %s failed", tool.name)
            return result.error(
                Failure(Code.INTERNAL_ERROR, f"internal error: {type(error).__name__}", prompt_sent=None)
            )


def _progress(ctx: Any) -> Say:
    """Tells the caller how long it has waited; nothing happens when it did not ask."""

    async def say(seconds: float, message: str) -> None:
        await ctx.session.report_progress(seconds, None, message)

    return say


def describe(tool: ToolSpec) -> types.Tool:
    """The tool as MCP lists it."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool.arguments),
        annotations=_annotations(tool),
        _meta={NEEDS_PERSON: True} if tool.needs_person else None,
    )


def _annotations(tool: ToolSpec) -> types.ToolAnnotations:
    """Only what is not said by default: a tool that is not read-only is taken for destructive and not idempotent."""
    if tool.read_only:
        return types.ToolAnnotations(read_only_hint=True)
    return types.ToolAnnotations(destructive_hint=tool.destructive, idempotent_hint=tool.idempotent or None)


async def serve_stdio(wire: anyio.AsyncFile[str]) -> None:
    """Serves over standard input and `wire` until standard input ends.

    A launch that is still running then is left to recovery (rule 12).
    """
    serving = _Serving(None)
    async with anyio.create_task_group() as group:
        serving.group = group
        group.start_soon(serving.settle_leftovers)
        async with stdio_server(stdout=wire) as (read, write):
            await serving.server.run(read, write, serving.server.create_initialization_options())
        if serving.launches_running:
            leave()
        await serving.aclose()
        group.cancel_scope.cancel()


def leave() -> NoReturn:
    """Ends the process at once: every fact is on disk already, and nothing is awaited (rule 12)."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(0)
