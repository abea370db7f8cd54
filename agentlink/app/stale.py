"""The check behind `sinceCursor`: a write for an older view is refused. It is a check, not a lock."""

from agentlink.app.conversation import read_conversation
from agentlink.app.runtime import Runtime
from agentlink.app.status import cursor_now
from agentlink.app.tail import Tailed, tail
from agentlink.app.writing import located_at
from agentlink.core.errors import Code, Failure
from agentlink.core.launch.history import TaskView
from agentlink.core.supervision.stale import what_changed

_READ_BYTES = 400_000


async def refuse_if_stale(runtime: Runtime, view: TaskView, cursor: str | None) -> None:
    """Raises Failure stale_view, with the cursor of now, when the caller has missed something that matters."""
    at = cursor
    while at is not None:
        told = await _told(runtime, view, at)
        changed = "the history was rewound" if told.rewound else what_changed(told.events)
        if changed is not None:
            # Read, not settled as a status would be: the writer may hold the task lock.
            conversation = await read_conversation(runtime, view.launch)
            now = {"cursor": cursor_now(view.task, conversation), "execution": conversation.now().execution}
            details = {"changed": changed, **now}
            message = f"since that cursor {changed}"
            raise located_at(Failure(Code.STALE_VIEW, message, details=details), view.task, view.launch)
        at = told.cursor if told.more else None


async def _told(runtime: Runtime, view: TaskView, cursor: str) -> Tailed:
    try:
        return await tail(runtime, view.task, cursor=cursor, max_bytes=_READ_BYTES)
    except Failure as failure:
        # The tail tells of the task's own prompt; here it is the write that was not sent.
        raise failure.located(
            stage=view.launch.state, task=view.task, session=view.launch.session, prompt_sent=False
        ) from failure
