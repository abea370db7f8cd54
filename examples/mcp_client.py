"""Use Agentlink as a caller does: start `agentlink serve`, list its tools, delegate, wait, release.

python examples/mcp_client.py DIRECTORY PROMPT
"""

import os
import sys
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters


class Stop(Exception):
    """Why the program cannot go on."""


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The tool's answer. Raises Stop with the code and the next safe step when the tool reports an error."""
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content or {}
    if result.is_error:
        error = answer["error"]
        raise Stop(f"{tool}: {error['code']}: {error['message']}\nnext: {error['next']}")
    return answer


async def work(directory: str, prompt: str) -> int:
    # The SDK passes only a few variables on by itself; AGENTLINK_HOME is none of them.
    server = StdioServerParameters(command="agentlink", args=["serve"], env=dict(os.environ))
    async with Client(server) as client:
        tools = await client.list_tools()
        print("tools:", ", ".join(tool.name for tool in tools.tools), file=sys.stderr)

        delegated = await call(client, "dsh_delegate", prompt=prompt, cwd=directory)
        task = delegated["taskId"]
        print(f"{task}: {delegated['launch']['stage']}", file=sys.stderr)

        while (ended := await call(client, "dsh_wait", taskIds=[task])).get("timedOut"):
            print(f"still {ended['execution']}", file=sys.stderr)
        if ended["execution"] != "turn_completed":
            print(f"the turn did not complete: {ended['execution']}", file=sys.stderr)
            return 3
        print(ended.get("finalMessage", ""))
        await call(client, "dsh_release_workspace", taskId=task)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    status = 1
    try:
        status = anyio.run(work, sys.argv[1], sys.argv[2])
    except* Stop as stopped:  # the client's task group gives it wrapped
        reason: BaseException = stopped
        while isinstance(reason, BaseExceptionGroup):
            reason = reason.exceptions[0]
        print(reason, file=sys.stderr)
    sys.exit(status)
