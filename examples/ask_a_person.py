"""Delegate over MCP, and put what the agent asks to the person at standard input: nothing is decided by the program.

python examples/ask_a_person.py DIRECTORY PROMPT

For each question write an option's label or own text, an empty line to skip it; for an approval y or n.
Exit status: 0 the turn completed, 1 a tool reported an error, 3 the turn ended otherwise.
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


async def person(words: str) -> str:
    """A line that the person writes."""
    print(words, file=sys.stderr, flush=True)
    line: str = await anyio.to_thread.run_sync(sys.stdin.readline)
    if not line:
        raise Stop("nobody is there to decide; the item stays pending")
    return line.strip()


async def answer_to(question: dict[str, Any]) -> dict[str, Any]:
    labels = [option["label"] for option in question.get("options", [])]
    said = await person(f"{question['question']}  {labels}")
    if said in labels:
        return {"id": question["id"], "selected": [said]}
    return {"id": question["id"], "custom": said} if said else {"id": question["id"]}


async def decide(client: Client, task: str, item: dict[str, Any]) -> None:
    """Asks the person about one pending item and passes the answer on."""
    about = {"taskId": task, "requestId": item["requestId"]}
    if item["kind"] == "question":
        answers = [await answer_to(question) for question in item["questions"]]
        done = await call(client, "dsh_answer_question", **about, answers=answers)
    else:
        said = await person(f"may {item['tool']} run?  {item.get('reason', '')}  [y/n]")
        done = await call(client, "dsh_resolve_approval", **about, outcome="allow_once" if said == "y" else "reject")
    print(f"{item['requestId']}: {done.get('outcome', done['delivery'])}", file=sys.stderr)


async def work(directory: str, prompt: str) -> int:
    server = StdioServerParameters(command="agentlink", args=["serve"], env=dict(os.environ))
    async with Client(server) as client:
        delegated = await call(client, "dsh_delegate", prompt=prompt, cwd=directory, waitSeconds=45)
        task, now = delegated["taskId"], delegated["waited"]
        while now.get("timedOut") or now.get("pending"):
            for item in now.get("pending", [])[:1]:
                await decide(client, task, item)
            now = await call(client, "dsh_wait", taskIds=[task])
        print(now.get("finalMessage") or f"no final message: {now['execution']}")
        return 0 if now["execution"] == "turn_completed" else 3


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
