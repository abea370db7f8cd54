"""Ten tasks routed on a disposable real Host; prints the tables of docs/reference/routing-acceptance.md.

`python -m tests.app.routing_acceptance`

Tasks with an odd number go through `agentlink delegate --auto`, the others through `dsh_delegate` of `agentlink serve`,
each in a workspace of its own. What was resolved is read back by other processes: `agentlink status`, and the Host's
own session list.
"""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import parse_hints
from agentlink.core.routing.router import route
from agentlink.core.routing.rules import decode_rules
from agentlink.lab import Lab, lab
from tests.cli.program import agentlink
from tests.lab.client import HostClient

RULES = """\
version = 1

[[rule]]
id = "implementation"
preset = "standard"
match = { kind = ["implementation", "debugging"] }

[[rule]]
id = "big-implementation"
preset = "team"
match = { kind = ["implementation", "debugging"], scale = ["large", "huge"] }

[[rule]]
id = "review"
preset = "team"
match = { kind = "review" }

[[rule]]
id = "logs"
preset = "minimal"
match = { kind = "log-analysis" }

[[rule]]
id = "parallel"
preset = "ptc"
match = { parallelism = ["high", "explicit"] }
exclude = { kind = "planning" }

[[rule]]
id = "research"
preset = "broken-one"
match = { kind = "research" }

[[rule]]
id = "anything-else"
preset = "minimal"
catch_all = true
"""

TASKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Add a --json option to the export command.", {"kind": "implementation"}),
    ("Move the storage layer to the new driver.", {"kind": "implementation", "scale": "large"}),
    ("Find out why the date test fails.", {"kind": "debugging", "evidence": "local-verification"}),
    ("Review the retry change.", {"kind": "review", "evidence": "review-required"}),
    ("Sum up the errors in the server's log.", {"kind": "log-analysis"}),
    ("Check each of the forty configurations.", {"kind": "testing", "parallelism": "high"}),
    ("Plan the split into two services.", {"kind": "planning", "parallelism": "high"}),
    ("Write the page about backups.", {"kind": "documentation", "optimizationIntent": "quality"}),
    ("Tidy up.", {}),
    ("Compare three queue libraries.", {"kind": "research"}),
)
RESELECTED = "standard"
"""What a person names when the research rule's preset is refused."""

FLAGS = {"optimizationIntent": "--optimization-intent"}
HEAD = (
    "| # | through | hints | rule | asked | resolved | launch | turn | in the Host's list | external evidence "
    "| reselected by hand |"
)


def main() -> None:
    with lab() as running, tempfile.TemporaryDirectory() as home:
        (Path(home) / "routes.toml").write_text(RULES, encoding="utf-8")
        env = {**os.environ, "AGENTLINK_HOME": home, "AGENTLINK_HOST_URL": running.host.launch_url}
        rows = [
            row for number, (prompt, hints) in enumerate(TASKS, 1) for row in _task(running, env, number, prompt, hints)
        ]
        with HostClient(running.host.origin, running.host.launch_url) as person:
            listed = {item["sessionId"] for item in person.call("session/list", _request={})["items"]}
            roster = person.roster()
    print("| | |\n| --- | --- |")
    for name, value in _versions().items():
        print(f"| {name} | {value} |")
    usable = ", ".join(name for name, preset in roster.items() if not preset.get("broken"))
    print(f"| presets | {usable}; broken: {', '.join(name for name in roster if roster[name].get('broken'))} |")
    print(f"| 100 rules | {_hundred_rules()} |")
    print(f"\n{HEAD}\n|{' --- |' * (HEAD.count('|') - 1)}")
    for row in rows:
        session = row.pop("session")
        row["listed"] = "no session made" if session is None else "yes" if session in listed else "NO"
        order = (
            "number",
            "through",
            "hints",
            "rule",
            "asked",
            "resolved",
            "launch",
            "turn",
            "listed",
            "evidence",
            "reselected",
        )
        print("| " + " | ".join(str(row[name]) for name in order) + " |")


def _task(
    running: Lab, env: Mapping[str, str], number: int, prompt: str, hints: Mapping[str, str]
) -> list[dict[str, Any]]:
    workspace = running.host.workspace / f"task-{number}"
    workspace.mkdir()
    if number % 2:
        words = [word for field, value in hints.items() for word in (FLAGS.get(field, f"--{field}"), value)]
        said = _by_command(env, workspace, prompt, "--auto", *words)
    else:
        said = anyio.run(_by_mcp, env, workspace, prompt, hints)
    row = _row(env, f"{number}", said)
    row["through"] = "command line" if number % 2 else "MCP"
    row["hints"] = ", ".join(f"{field} {value}" for field, value in hints.items()) or "none"
    if row["session"] is not None:
        return [row]
    again = _row(env, f"{number}b", _by_command(env, workspace, prompt, "--preset", RESELECTED))
    return [row, again | {"through": "command line", "hints": "a preset is named", "reselected": f"yes, {RESELECTED}"}]


def _by_command(env: Mapping[str, str], workspace: Path, prompt: str, *words: str) -> Any:
    return agentlink("delegate", prompt, "--cwd", str(workspace), "--wait", "--json", *words, env=env).json


async def _by_mcp(env: Mapping[str, str], workspace: Path, prompt: str, hints: Mapping[str, str]) -> Any:
    """The last status, or the error."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "agentlink", "serve"], env=dict(env))
    async with Client(server) as client:
        routing = {"mode": "auto", "hints": dict(hints)}
        given = {"prompt": prompt, "cwd": str(workspace), "routing": routing}
        said = (await client.call_tool("dsh_delegate", given)).structured_content or {}
        if "error" in said:
            return said
        with anyio.fail_after(30):
            while True:
                status = (await client.call_tool("dsh_status", {"taskId": said["taskId"]})).structured_content or {}
                if status["execution"] not in ("not_started", "queued", "running", "unknown"):
                    return status
                await anyio.sleep(0.1)


def _row(env: Mapping[str, str], number: str, said: Any) -> dict[str, Any]:
    """What another process reads of the task in the journal and on the Host."""
    refused = said.get("error", {})
    status = agentlink("status", said.get("taskId") or refused["taskId"], "--json", env=env).json
    record = status["launch"].get("record", {})
    code, sent = record.get("failureCode"), status["launch"]["promptSent"]
    details = refused.get("details", {})
    return {
        "number": number,
        "rule": record.get("routeRuleId") or details.get("rule", "none, manual"),
        "asked": record.get("requestedPreset") or details.get("agentPreset", "none"),
        "resolved": f"{record['resolvedPreset']}, {record['verification']}" if "resolvedPreset" in record else "none",
        "launch": (f"`{code}`" if code else status["launch"]["stage"])
        + {True: "", False: ", prompt not sent", None: ", prompt unknown"}[sent],
        "turn": status["execution"],
        "session": status.get("sessionId"),
        "evidence": "scripted model: no task work",
        "reselected": "no",
    }


def _versions() -> dict[str, str]:
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "Agentlink": version("dsh-agentlink"),
        "Host": f"deepseek-harness-runtime-bin {version('deepseek-harness-runtime-bin')}, scripted model",
        "MCP SDK": f"mcp {version('mcp')}",
        "Python": f"{platform.python_implementation()} {platform.python_version()} on {sys.platform}",
    }


def _hundred_rules() -> str:
    """How long a file of 100 rules takes to read and to choose from, with every rule but the last one missed."""
    one = '[[rule]]\nid = "r{0}"\npreset = "p"\npriority = {0}\nmatch = {{ kind = "review", scale = "huge" }}\n'
    data = (
        "version = 1\n" + "".join(map(one.format, range(99))) + '[[rule]]\nid = "z"\npreset = "p"\ncatch_all = true'
    ).encode()
    hints, roster = parse_hints({"kind": "testing"}), [Preset("p")]
    began = time.perf_counter()
    rules = decode_rules(data, name="routes.toml")
    read = time.perf_counter()
    assert route(hints, rules, roster).rule == "z"
    chosen = time.perf_counter()
    return f"read and checked in {(read - began) * 1e3:.1f} ms, chosen from in {(chosen - read) * 1e3:.2f} ms, once"


if __name__ == "__main__":
    main()
