"""The scripted model as a program: `python -m agentlink.lab.server --fd N` or `--port N`.

It ends when its standard input closes, so it cannot outlive the program that started it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentlink.lab.dialects import ANTHROPIC, OPENAI, Dialect, read_request
from agentlink.lab.model import Seen
from agentlink.lab.script import (
    TITLE,
    CallTool,
    Conversation,
    CutOff,
    Fail,
    Hang,
    Say,
    Slow,
    Step,
    asks_for_title,
    current_turn,
    next_step,
)

_REMEMBERED = 1000  # prompts, and as many turns: a long run must not fill the memory
_PROMPT_KEPT = 2000  # characters of each prompt
_MOST_PIECES = 40
_PING_S = 0.5


class Memory:
    """What the model has been asked, bounded; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._failures: OrderedDict[tuple[str, tuple[int, int], str], int] = OrderedDict()

    def answer(self, conversation: Conversation) -> Step:
        """The next step for this request, which is counted."""
        if asks_for_title(conversation):
            return Say(TITLE)
        turn = current_turn(conversation)
        prompt = turn.prompt[:_PROMPT_KEPT]
        key = (conversation.session, turn.at, prompt)
        failures = self._failures.get(key, 0)
        step = next_step(turn, failures=failures)
        self._count(prompt, is_run=turn.answers == 0 and failures == 0)
        if isinstance(step, Fail):
            self._failures[key] = failures + 1
            _forget_oldest(self._failures)
        return step

    def _count(self, prompt: str, *, is_run: bool) -> None:
        seen = self._seen.get(prompt, Seen(prompt=prompt, runs=0, calls=0))
        self._seen[prompt] = Seen(prompt=prompt, runs=seen.runs + is_run, calls=seen.calls + 1)
        self._seen.move_to_end(prompt)
        _forget_oldest(self._seen)

    def seen(self) -> list[Seen]:
        """Every remembered prompt, the most recent last."""
        return list(self._seen.values())


def _forget_oldest(table: OrderedDict[str, Seen] | OrderedDict[tuple[str, tuple[int, int], str], int]) -> None:
    while len(table) > _REMEMBERED:
        table.popitem(last=False)


async def frames(step: Step, dialect: Dialect, *, call_id: str) -> AsyncIterator[bytes]:
    """One streamed answer, in the pieces and at the pace of its step."""
    yield dialect.opening
    match step:
        case CallTool():
            yield dialect.call(step, call_id) + dialect.closing("tool")
        case Hang():
            yield dialect.text_start + dialect.text(step.text)
            while True:  # the caller leaves, or the program ends
                await anyio.sleep(_PING_S)
                yield dialect.ping
        case Say() | Slow() | CutOff():
            yield dialect.text_start
            pieces = _pieces(step.text)
            pause_s = step.seconds / len(pieces) if isinstance(step, Slow) else 0.0
            for piece in pieces:
                await anyio.sleep(pause_s)
                yield dialect.text(piece)
            yield dialect.text_stop + dialect.closing("limit" if isinstance(step, CutOff) else "end")
        case Fail():
            raise AssertionError("an error is not streamed")


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // _MOST_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def make_app() -> Starlette:
    """The model as an ASGI application with a memory of its own."""
    memory = Memory()
    ids = count(1)

    def answering(dialect: Dialect) -> Callable[[Request], object]:
        async def answer(request: Request) -> Response:
            session = request.headers.get("x-deepseek-harness-session-id", "")
            try:
                conversation = read_request(await request.body(), session=session)
            except msgspec.DecodeError as exc:
                return _error(400, str(exc))
            step = memory.answer(conversation)
            if isinstance(step, Fail):
                return _error(step.status, "scripted error")
            stream = frames(step, dialect, call_id=f"call_lab_{next(ids)}")
            return StreamingResponse(stream, media_type="text/event-stream")

        return answer

    async def requests(_: Request) -> Response:
        return Response(msgspec.json.encode(memory.seen()), media_type="application/json")

    return Starlette(
        routes=[
            Route("/v1/messages", answering(ANTHROPIC), methods=["POST"]),
            Route("/v1/chat/completions", answering(OPENAI), methods=["POST"]),
            Route("/requests", requests, methods=["GET"]),
        ]
    )


def _error(status: int, message: str) -> JSONResponse:
    error = {"type": "invalid_request_error" if status < 500 else "api_error", "message": message}
    return JSONResponse({"type": "error", "error": error}, status_code=status)


def _end_with_stdin() -> None:
    # Reads the descriptor itself: a buffered reader would hold a lock that a clean exit waits for.
    while os.read(0, 1024):
        pass
    os._exit(0)


def _listening(arguments: Sequence[str]) -> socket.socket:
    match arguments:
        case ["--fd", number]:
            return socket.socket(fileno=int(number))
        case ["--port", number]:
            return socket.create_server(("127.0.0.1", int(number)))
        case _:
            raise SystemExit("usage: python -m agentlink.lab.server (--fd N | --port N)")


def main(arguments: Sequence[str]) -> None:
    """Serve until standard input closes."""
    listening = _listening(arguments)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    config = uvicorn.Config(make_app(), log_level="warning", access_log=False, lifespan="off", timeout_keep_alive=120)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1:])
