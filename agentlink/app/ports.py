"""What the use cases need from outside: a Host and a journal. Adapters implement these; tests bring their own."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeVar

from agentlink.core.errors import Failure
from agentlink.core.facts.work import TaskLineFact
from agentlink.core.host.values import (
    Address,
    CreatedSession,
    LinkState,
    LiveItem,
    ModelCatalog,
    Offer,
    Page,
    Preset,
    SessionState,
)
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
        facts: Sequence[TaskLineFact],
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


T_co = TypeVar("T_co", covariant=True)


class Feed(Protocol[T_co]):
    """One stream of a link, in the order in which its items came."""

    async def next(self) -> T_co:
        """The next item; waits for it without a bound of its own. Nothing is lost when the wait is cancelled."""
        ...


class Link(Protocol):
    """The one live connection of a process to its Host: opened when a stream is wanted, and again when it broke."""

    @property
    def state(self) -> LinkState: ...

    def follow(self, address: Address) -> AbstractAsyncContextManager[Feed[LiveItem]]:
        """A session's events from now on. The first item is a Snapshot, or LinkLost while the Host is away."""
        ...

    def offers(self) -> AbstractAsyncContextManager[Feed[Offer]]:
        """What the Host's agents ask a person. The first item is Attached, or LinkLost while the Host is away."""
        ...

    async def run(self) -> None:
        """Keeps the connection for as long as somebody wants a stream; ends only by cancellation."""
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

    async def send_prompt(
        self, session: str, *, request: RequestId, prompt: str, mode: Literal["queue", "steer"] = "queue"
    ) -> None:
        """Hands the prompt over, byte for byte: for a turn of its own, or to join the running one at its next step.

        A write: never repeat it after ReplyLost or BadReply.
        """
        ...

    async def cancel_turn(self, session: str) -> None:
        """Stops the running turn, if there is one. Waiting prompts stay."""
        ...

    async def remove_queued(self, session: str, item: str) -> None:
        """Takes one waiting prompt out of the queue. Raises Refused `not_queued` when it does not wait any more."""
        ...

    async def interrupt_child(self, parent: str, child: str, *, mode: str) -> None:
        """Stops a subagent's turn."""
        ...

    async def answer_offer(self, client: str, key: str, value: object) -> None:
        """Answers what the Host offered to that client. Its receipt proves nothing: read the log."""
        ...

    async def running(self) -> dict[str, bool]:
        """Whether each of the Host's sessions is at work: one call whose cost grows with the Host's sessions."""
        ...

    def link(self) -> Link:
        """A live connection of its own; nothing is opened yet."""
        ...

    async def rename(self, session: str, title: str) -> None: ...

    async def page(
        self,
        session: str,
        *,
        through: int,
        before: int | None = None,
        messages: int,
        whole_turn: bool = False,
        parent: str | None = None,
    ) -> Page:
        """Events up to `through`, the last `messages` messages of them; `whole_turn` starts at a turn's beginning.

        A subagent's history needs its `parent`.
        """
        ...

    async def aclose(self) -> None:
        """Closes the idle connections; nothing may be under way."""
        ...
