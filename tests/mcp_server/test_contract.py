"""F12: a tool contract that every caller accepts, and answers small enough for every context window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from agentlink.lab import Lab
from agentlink.mcp_server.schema import input_schema
from agentlink.mcp_server.server import describe
from agentlink.mcp_server.tools import BY_NAME, TOOLS
from tests.mcp_server.eras import ask, both_eras, finished, refused
from tests.requirements import requirement

PREFIX = "mcp__agentlink__"
NAME = re.compile(r"[A-Za-z0-9_-]+")
UNKNOWN_TASK = "dsh_0123456789ab"


def keys(node: Any) -> set[str]:
    match node:
        case dict():
            return set(node).union(*map(keys, node.values()))
        case list():
            return set().union(*map(keys, node))
        case _:
            return set()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_f12_each_schema_is_an_object_without_references_or_alternatives(tool: Any) -> None:
    schema = input_schema(tool.arguments)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & set(schema)
    assert not {"$ref", "$defs", "definitions", "default"} & keys(schema)
    assert describe(tool).output_schema is None


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_f12_each_property_has_one_type(tool: Any) -> None:
    for name, schema in input_schema(tool.arguments)["properties"].items():
        assert isinstance(schema.get("type"), str), name


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_f12_names_are_plain_and_short_with_the_callers_prefix(tool: Any) -> None:
    names = [PREFIX + tool.name, *input_schema(tool.arguments)["properties"]]
    assert all(NAME.fullmatch(name) and len(name) < 64 for name in names)


@requirement("FR-02", "SI-02")
def test_f12_no_tool_takes_a_model_or_a_session() -> None:
    taken = {name for tool in TOOLS for name in input_schema(tool.arguments)["properties"]}
    assert not {"model", "sessionId", "workspaceId"} & taken


@pytest.mark.parametrize(
    ("tool", "argument", "value"),
    [
        ("dsh_list", "limit", 30),
        ("dsh_list", "limit", "30"),
        ("dsh_list", "limit", None),
        ("dsh_list", "state", None),
        ("dsh_list", "state", "failed"),
    ],
)
async def test_f12_clear_forms_are_accepted(bare_env: dict[str, str], tool: str, argument: str, value: Any) -> None:
    async with both_eras(bare_env) as clients:
        for client in clients:
            assert (await ask(client, tool, **{argument: value}))["tasks"] == []


@pytest.mark.parametrize("value", [True, False, "true", "false", None])
async def test_f12_a_truth_value_may_be_text(bare_env: dict[str, str], value: Any) -> None:
    async with both_eras(bare_env) as clients:
        for client in clients:
            error = await refused(client, "dsh_release_workspace", taskId=UNKNOWN_TASK, force=value)
            assert error["code"] == "task_not_found"  # so the arguments were taken


UNCLEAR = [
    ("dsh_list", "limit", value)
    for value in ("three", "", " ", "1.5", "[1]", "true", "NaN", "03", "1" * 40, 2.5, True, [], {})
] + [
    ("dsh_list", "state", value) for value in ("", "Failed", 1, ["failed"])
] + [
    ("dsh_list", "before", value) for value in (1, "", "dsh_1", ["dsh_0123456789ab"])
] + [
    ("dsh_release_workspace", "force", value) for value in ("yes", "True", "1", 1, 0, "", "null", [True])
] + [
    ("dsh_recover", argument, "yes") for argument in ("abandon", "sessionLost", "taskId")
] + [
    ("dsh_status", "taskId", value) for value in (None, 5, "", "dsh_", UNKNOWN_TASK.upper(), f'"{UNKNOWN_TASK}"')
] + [
    ("dsh_delegate", "prompt", value) for value in (None, 5, "", ["a"], {"text": "a"}, True)
] + [
    ("dsh_delegate", "cwd", value) for value in (None, 5, "", ["/"])
] + [
    ("dsh_delegate", "agentPreset", value) for value in ("", " ", 5, ["minimal"])
] + [
    ("dsh_delegate", "workspaceMode", value) for value in ("", "readonly", 1, "READ-ONLY")
] + [
    ("dsh_delegate", "title", value) for value in ("", 5, "x" * 201)
] + [
    ("dsh_delegate", "requestKey", value) for value in ("", "a b", "x" * 129, 5, "a\n")
]  # fmt: skip


@pytest.mark.parametrize(("tool", "argument", "value"), UNCLEAR, ids=repr)
async def test_f12_unclear_forms_are_refused_by_name(
    bare_env: dict[str, str], tool: str, argument: str, value: Any
) -> None:
    needed = {
        "dsh_delegate": {"prompt": "x", "cwd": "/"},
        "dsh_status": {},
        "dsh_list": {},
        "dsh_recover": {},
        "dsh_release_workspace": {"taskId": UNKNOWN_TASK},
    }
    env = bare_env | {"AGENTLINK_HOST_URL": "http://127.0.0.1:9"}
    async with both_eras(env) as (modern, legacy):
        error = await refused(modern, tool, **(needed[tool] | {argument: value}))
        assert (error["code"], error["details"]["argument"]) == ("invalid_request", argument)
        assert error == await refused(legacy, tool, **(needed[tool] | {argument: value}))


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
@pytest.mark.parametrize("argument", ["model", "sessionId", "TaskId", "task_id", ""])
async def test_f12_an_unknown_argument_is_refused_by_name(bare_env: dict[str, str], tool: str, argument: str) -> None:
    async with both_eras(bare_env) as clients:
        for client in clients:
            error = await refused(client, tool, **{argument: "x"})
            assert (error["code"], error["details"]["argument"]) == ("invalid_request", argument)
            assert repr(argument) in error["message"]


def test_f12_every_argument_type_refuses_unknown_fields_itself() -> None:
    assert all(tool.arguments.__struct_config__.forbid_unknown_fields for tool in BY_NAME.values())


@pytest.mark.host
@requirement("NFR-01", "AC-20")
async def test_f12_answers_stay_small(host_env: dict[str, str], real_lab: Lab, tmp_path_factory: Any) -> None:
    short = Path("/tmp") / f"al{tmp_path_factory.getbasetemp().name[-6:]}"
    short.mkdir(exist_ok=True)
    try:
        async with both_eras(host_env) as clients:
            for client in clients:
                listed = await client.list_tools()
                tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
                assert len(msgspec.json.encode({"tools": tools})) <= 8_000
                given = await ask(client, "dsh_delegate", prompt="hello", cwd=str(short), agentPreset="minimal")
                assert len(msgspec.json.encode(given)) <= 600
                status = await finished(client, given["taskId"])
                final = status.pop("finalMessage")
                assert final == "Done: hello"
                assert len(msgspec.json.encode(status)) <= 1_200
                await ask(client, "dsh_release_workspace", taskId=given["taskId"])
    finally:
        short.rmdir()
