"""Tool results: compact JSON as text for every caller, and the same data structured for those that read it."""

from typing import Any

import msgspec
from mcp import types

from agentlink.core.errors import Failure, envelope

_encoder = msgspec.json.Encoder()


def success(result: msgspec.Struct) -> types.CallToolResult:
    """The use case's answer as a tool result."""
    return _result(result, is_error=False)


def error(failure: Failure) -> types.CallToolResult:
    """The failure as an error result in the one envelope."""
    return _result(envelope(failure), is_error=True)


def _result(value: msgspec.Struct, *, is_error: bool) -> types.CallToolResult:
    data: Any = msgspec.to_builtins(value)
    text = types.TextContent(type="text", text=_encoder.encode(value).decode())
    return types.CallToolResult(content=[text], structured_content=data, is_error=is_error)
