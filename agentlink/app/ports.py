"""What the use cases need from outside: a Host and a journal. Adapters implement these; tests bring their own."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agentlink.core.errors import Failure
from agentlink.core.facts.launch import LaunchFact
from agentlink.core.facts.work import ClaimReleased
from agentlink.core.host.values import CreatedSession, ModelCatalog, Page, Preset, SessionState
from agentlink.core.ids import RequestId, SessionId, TaskId
from agentlink.core.launch.claims import Claim
from agentlink.core.launch.history import Recorded, TaskView
from agentlink.core.launch.kinds import Kind
from agentlink.wire.detect import Wire


class JournalView(Protocol):
    """What a rule over several tasks may ask, inside the journal lock."""

    def held_claims(self) -> Iterable[Claim]: ...

    def key_owner(self, key: str) -> TaskView | None:
        """The task that owns this request-key digest and has not abandoned it."""
        ...


Rule = Callable[[JournalView], None]
"""Decided inside the journal lock; raises Failure, and then nothing is written."""


class Store(Protocol):
    """The journal. Every method reads what other processes appended first."""

    async def append(
        self,
        task: TaskId,
        facts: Sequence[LaunchFact | ClaimReleased],
        *,
        expected_n: int,
        rule: Rule | None = None,
    ) -> TaskView:
        """Appends one durable line. Raises Failure (journal_*, lock_timeout) or StaleTask; then nothing was
        written, except after a failed flush or when only its end could not be noted, where the line may stand: read
        again."""
        ...

    async def task(self, task: TaskId) -> TaskView | None: ...

    async def history(self, task: TaskId) -> tuple[Recorded, ...]: ...

    async def page(self, *, limit: int, before: TaskId | None = None, kind: Kind | None = None) -> tuple[TaskView, ...]:
        """Tasks of that kind, newest first, that began before `before`."""
        ...

    async def check(self, rule: Rule) -> None:
        """Runs the rule on what the journal holds now, without its lock: an early answer, not the decision."""
        ...

    async def key_owner(self, key: str) -> TaskView | None: ...

    async def problem(self) -> Failure | None:
        """Why nothing can be appended now, as far as reading shows; None when the journal is sound."""
        ...

    async def sibling_sessions(
        self, *, host: str, origin: str, binding: str | None, but: str | None
    ) -> tuple[str, ...]:
        """Other sessions of ours that were made under that login, newest first; at most 8."""
        ...

    def drive(self, task: TaskId) -> AbstractAsyncContextManager[None]:
        """Holds the task lock; raises Failure launch_in_progress when another holds it for longer than 250 ms."""
        ...


class Host(Protocol):
    """One DSH Web Host, whatever its wire. Every call is bounded in time and size and raises HostFault.

    A call that raised has ended its connection: nothing of it can still arrive later than the Host takes to read
    what it already received (design section 3, rule 7).
    """

    label: str
    origin: str
    wire: Wire | None

    @property
    def binding(self) -> str | None:
        """Which login the calls go out with; equal bindings prove the same Host (ADR 0003)."""
        ...

    @property
    def reports_presets(self) -> bool: ...

    async def connect(self) -> None:
        """Finds the wire and proves reachability and login with reads only."""
        ...

    async def ready(self) -> None:
        """Proves once per connection that the Host offers what a launch is settled by."""
        ...

    async def roster(self) -> tuple[Preset, ...]: ...

    async def create_session(self, session: SessionId, *, cwd: str, preset: str | None) -> CreatedSession:
        """Makes the session. A write: never repeat it after ReplyLost or BadReply."""
        ...

    async def session_state(self, session: str) -> SessionState | None:
        """The exact state, or None when the Host has no such session."""
        ...

    async def model_catalog(self) -> ModelCatalog: ...

    async def send_prompt(self, session: str, *, request: RequestId, prompt: str) -> None:
        """Queues the prompt, byte for byte. A write: never repeat it after ReplyLost or BadReply."""
        ...

    async def rename(self, session: str, title: str) -> None: ...

    async def page(
        self, session: str, *, through: int, before: int | None = None, messages: int, whole_turn: bool = False
    ) -> Page:
        """Events up to `through`, the last `messages` messages of them; `whole_turn` starts at a turn's beginning."""
        ...

    async def aclose(self) -> None:
        """Closes the idle connections; nothing may be under way."""
        ...
