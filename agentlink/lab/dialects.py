"""The two streaming dialects a Host may speak to its model: requests read, answers written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from agentlink.lab.script import CallTool, Conversation, Message

Stop: TypeAlias = Literal["end", "tool", "limit"]


class _Block(Struct, frozen=True):
    type: str
    text: str = ""


class _Line(Struct, frozen=True):
    role: str
    content: str | list[_Block] | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _LogEvent(Struct, frozen=True):
    type: str
    data: msgspec.Raw


class _Log(Struct, frozen=True):
    events: list[_LogEvent] = []


class _Source(Struct, frozen=True):
    kind: str = ""


class _UserMessage(Struct, frozen=True):
    content: list[_Block] = []
    source: _Source = _Source()


class _Body(Struct, frozen=True):
    messages: list[_Line]
    system: str | list[_Block] = ""
    tools: list[msgspec.Raw] = []
    dsh_session_log: _Log = _Log()


def read_request(body: bytes, *, session: str) -> Conversation:
    """A request of either dialect; raises `msgspec.DecodeError` for anything else."""
    decoded = msgspec.json.decode(body, type=_Body)
    system = [_joined(line.content) for line in decoded.messages if line.role in ("system", "developer")]
    spoken = [line for line in decoded.messages if line.role in ("user", "assistant", "tool")]
    return Conversation(
        messages=tuple(_message(line) for line in spoken),
        system="\n".join([_joined(decoded.system), *system]).strip(),
        has_tools=bool(decoded.tools),
        session=session,
        notes=_notes(decoded.dsh_session_log),
    )


def _message(line: _Line) -> Message:
    kinds = {block.type for block in line.content} if isinstance(line.content, list) else set()
    return Message(
        role="assistant" if line.role == "assistant" else "user",
        texts=() if line.role == "tool" else _texts(line.content),
        calls_tool=bool(line.tool_calls) or "tool_use" in kinds,
        has_result=line.role == "tool" or "tool_result" in kinds,
    )


def _texts(content: str | list[_Block] | None) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,)
    return tuple(block.text for block in content or () if block.type == "text")


def _joined(content: str | list[_Block] | None) -> str:
    return "\n".join(_texts(content))


def _notes(log: _Log) -> frozenset[str]:
    """Texts that the session log, sent along by the newer Host, does not ascribe to the user."""
    notes: set[str] = set()
    for event in log.events:
        if event.type != "user/message":
            continue
        message = msgspec.json.decode(event.data, type=_UserMessage)
        if message.source.kind != "user":
            notes.update(block.text for block in message.content if block.type == "text")
    return frozenset(notes)


class Dialect(Struct, frozen=True):
    """How an answer is written: opening, then a text in pieces or one call, then closing."""

    opening: bytes
    text_start: bytes
    text: Callable[[str], bytes]
    text_stop: bytes
    call: Callable[[CallTool, str], bytes]
    closing: Callable[[Stop], bytes]
    ping: bytes


def _event(value: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), msgspec.json.encode(value))


def _block_start(block: dict[str, object]) -> bytes:
    return _event({"type": "content_block_start", "index": 0, "content_block": block})


def _block_delta(delta: dict[str, object]) -> bytes:
    return _event({"type": "content_block_delta", "index": 0, "delta": delta})


_BLOCK_STOP = _event({"type": "content_block_stop", "index": 0})
_ANTHROPIC_STOPS: dict[Stop, str] = {"end": "end_turn", "tool": "tool_use", "limit": "max_tokens"}


def _anthropic_opening() -> bytes:
    message: dict[str, object] = {
        "id": "msg_lab",
        "type": "message",
        "role": "assistant",
        "model": "lab",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    return _event({"type": "message_start", "message": message})


def _anthropic_call(call: CallTool, call_id: str) -> bytes:
    start = _block_start({"type": "tool_use", "id": call_id, "name": call.name, "input": {}})
    return start + _block_delta({"type": "input_json_delta", "partial_json": call.arguments}) + _BLOCK_STOP


def _anthropic_closing(stop: Stop) -> bytes:
    delta = {"stop_reason": _ANTHROPIC_STOPS[stop], "stop_sequence": None}
    usage = {"output_tokens": 5}
    return _event({"type": "message_delta", "delta": delta, "usage": usage}) + _event({"type": "message_stop"})


ANTHROPIC = Dialect(
    opening=_anthropic_opening(),
    text_start=_block_start({"type": "text", "text": ""}),
    text=lambda piece: _block_delta({"type": "text_delta", "text": piece}),
    text_stop=_BLOCK_STOP,
    call=_anthropic_call,
    closing=_anthropic_closing,
    ping=_event({"type": "ping"}),
)

_OPENAI_STOPS: dict[Stop, str] = {"end": "stop", "tool": "tool_calls", "limit": "length"}


def _chunk(delta: dict[str, object], *, finish: str | None = None, usage: bool = False) -> bytes:
    value: dict[str, object] = {
        "id": "chatcmpl-lab",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "lab",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage:
        value["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return b"data: %b\n\n" % msgspec.json.encode(value)


def _openai_call(call: CallTool, call_id: str) -> bytes:
    function = {"name": call.name, "arguments": call.arguments}
    return _chunk({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]})


OPENAI = Dialect(
    opening=_chunk({"role": "assistant", "content": ""}),
    text_start=b"",
    text=lambda piece: _chunk({"content": piece}),
    text_stop=b"",
    call=_openai_call,
    closing=lambda stop: _chunk({}, finish=_OPENAI_STOPS[stop], usage=True) + b"data: [DONE]\n\n",
    ping=b": ping\n\n",
)
