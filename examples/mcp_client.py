"""Use Agentlink as a caller does: start `agentlink serve`, list its tools, delegate, poll the status, release.

python examples/mcp_client.py DIRECTORY PROMPT
"""

import os
import sys
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

POLL_S = 0.25
LIMIT_S = 600.0
GOING_ON = ("not_started", "queued", "running", "unknown")


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The tool's answer. Ends the program when the tool reports an error, with its code and the next safe step."""
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content or {}
    if result.is_error:
        error = answer["error"]
        sys.exit(f"{tool}: {error['code']}: {error['message']}\nnext: {error['next']}")
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

        give_up = anyio.current_time() + LIMIT_S
        while True:
            status = await call(client, "dsh_status", taskId=task)
            if status["execution"] not in GOING_ON or anyio.current_time() > give_up:
                break
            await anyio.sleep(POLL_S)
        if status["execution"] != "turn_completed":
            print(f"the turn did not complete: {status['execution']}", file=sys.stderr)
            return 3
        print(status.get("finalMessage", ""))
        await call(client, "dsh_release_workspace", taskId=task)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(anyio.run(work, sys.argv[1], sys.argv[2]))
