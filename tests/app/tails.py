"""Reading a tail or one event to its end, as a caller does."""

from agentlink.app.runtime import Runtime
from agentlink.app.tail import EventText, Tailed, read_event, tail
from agentlink.core.ids import TaskId
from agentlink.core.supervision.digest import Digest
from tests.core.supervision.test_tail import joined


async def whole_tail(
    runtime: Runtime, task: TaskId, *, max_bytes: int = 1_000_000, cursor: str | None = None
) -> tuple[list[Digest], list[Tailed]]:
    """Everything after the cursor, and the replies that told it."""
    replies: list[Tailed] = []
    while True:
        one = await tail(runtime, task, cursor=cursor, max_bytes=max_bytes)
        cursor = one.cursor
        replies.append(one)
        if not one.more:
            return joined([part for reply in replies for part in reply.events]), replies


async def read_whole(runtime: Runtime, task: TaskId, event: str, *, max_bytes: int) -> tuple[str, list[EventText]]:
    parts: list[EventText] = []
    offset: int | None = 0
    while offset is not None:
        parts.append(await read_event(runtime, task, event, offset=offset, max_bytes=max_bytes))
        offset = parts[-1].next
    return "".join(part.text for part in parts), parts
