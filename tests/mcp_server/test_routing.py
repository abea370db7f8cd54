"""Automatic routing over MCP: two protocol eras see the same schema, choices and errors (003 FR-01)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from agentlink.core.routing.hints import VOCABULARY
from agentlink.mcp_server.server import make_server
from tests.mcp_server.eras import ERAS, ask, opened

RULES = """
version = 1
[[rule]]
id = "review"
preset = "minimal"
match = { kind = "review" }
[[rule]]
id = "research"
preset = "broken-one"
match = { kind = "research" }
"""


@pytest.fixture
def routes(home: Path) -> Path:
    home.mkdir(parents=True)
    (home / "routes.toml").write_text(RULES)
    return home / "routes.toml"


async def test_the_schema_of_routing_is_the_vocabulary_in_both_eras() -> None:
    schemas = []
    for era in ERAS:
        async with Client(make_server(), mode=era) as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        schemas.append(tools["dsh_delegate"]["properties"]["routing"])
    assert schemas[0] == schemas[1]
    hints = schemas[0]["properties"]["hints"]["properties"]
    assert {name: tuple(field["enum"]) for name, field in hints.items()} == VOCABULARY


@pytest.mark.host
@pytest.mark.usefixtures("routes")
async def test_both_eras_get_the_same_choice_and_the_same_refusals(host_env: dict[str, str], workspace: Path) -> None:
    stories = []
    for era in ERAS:
        async with opened(host_env) as runtime, Client(make_server(runtime), mode=era) as client:
            story: list[Any] = []

            async def delegate(client: Any = client, story: list[Any] = story, **more: Any) -> dict[str, Any]:
                given: dict[str, Any] = {"prompt": "x", "cwd": str(workspace), "workspaceMode": "read-only", **more}
                answer = await ask(client, "dsh_delegate", **given)
                error = answer.get("error")
                story.append(answer["routing"] if error is None else (error["code"], error["promptSent"]))
                return answer

            await delegate(routing={"mode": "auto", "hints": {"kind": "review"}})
            await delegate(routing='{"mode": "auto", "hints": {"kind": "review"}}')
            await delegate(routing={"mode": "auto", "hints": {"kind": "research"}})
            await delegate(routing={"mode": "auto", "hints": {"kind": "reviews"}})
            await delegate(routing={"mode": "auto", "hints": {"kinds": "review"}})
            await delegate(routing={"mode": "auto"})
            await delegate(routing={"mode": "manual"})
            await delegate(routing={"mode": "auto", "model": "x"})
            await delegate(routing={"mode": "auto"}, agentPreset="minimal")
            status = await ask(client, "dsh_host_status")
            story.append(status["routes"])
            stories.append(story)
    assert stories[0] == stories[1]
    chosen = stories[0][0]
    assert (chosen["mode"], chosen["ruleId"], chosen["resolvedPreset"]) == ("automatic", "review", "minimal")
    assert stories[0][1] == chosen
    assert [entry[0] for entry in stories[0][2:9]] == [
        "preset_broken",
        "routing_hints_invalid",
        "routing_hints_invalid",
        "no_eligible_route",
        "invalid_request",
        "invalid_request",
        "routing_request_ambiguous",
    ]
    assert stories[0][9] == {"state": "valid", "rules": 2, "broken": ["broken-one"]}
