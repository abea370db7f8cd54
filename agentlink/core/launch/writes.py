"""What was written to a task's session after its prompt: the fold of the intents and of what became of them.

An intent without an outcome may or may not have reached the Host; a follow-up that the Host acknowledged may still be
lost with it. Both are settled from the Host's history (design section 6).
"""

import msgspec
from msgspec.structs import replace

from agentlink.core.facts.work import WriteIntended, WriteKind, WriteOutcome, WriteSettled

FOLLOWUPS: frozenset[WriteKind] = frozenset({"followup-queue", "followup-steer"})
NEVER_RAN: frozenset[WriteOutcome] = frozenset({"lost", "discarded", "consumed", "absent", "unknown"})
"""How a follow-up may end that its sender believes in: nobody was told when it was sent."""
MOST_UNDELIVERED = 10


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """One write: its intent, and what became of it (None while that is not known)."""

    kind: WriteKind
    request: str
    number: int = 0
    target: str | None = None
    key: str | None = None
    input: str | None = None
    outcome: WriteOutcome | None = None
    host_code: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the Host's history still has something to say about it."""
        return self.outcome is None or (self.outcome == "receipt" and self.kind in FOLLOWUPS)

    @property
    def took_effect(self) -> bool:
        return self.outcome in ("receipt", "history")


class Writes(msgspec.Struct, frozen=True):
    """All writes of a task: how many there were, the open ones, and the latest under each request key."""

    count: int = 0
    open: tuple[Write, ...] = ()
    keyed: tuple[Write, ...] = ()
    undelivered: tuple[Write, ...] = ()
    """Follow-ups that will not run, or that nobody can tell of, since the last one that reached the agent."""

    def under(self, key: str) -> Write | None:
        """The latest write under this request-key digest."""
        return next((write for write in self.keyed if write.key == key), None)

    def find(self, request: str) -> Write | None:
        """An open write by its request id."""
        return next((write for write in self.open if write.request == request), None)


class IllegalWrite(Exception):
    """The fact settles nothing that is open, or intends what was intended before."""


def intend(writes: Writes, fact: WriteIntended) -> Writes:
    """The writes after one more intent. Raises IllegalWrite."""
    if writes.find(fact.request) is not None:
        raise IllegalWrite(fact.request)
    number = writes.count + 1
    write = Write(
        kind=fact.kind, request=fact.request, number=number, target=fact.target, key=fact.key, input=fact.input
    )
    return Writes(number, (*writes.open, write), _with_key(writes.keyed, write), writes.undelivered)


def settle(writes: Writes, fact: WriteSettled) -> Writes:
    """The writes after an outcome became known. Raises IllegalWrite."""
    before = writes.find(fact.request)
    if before is None or (before.outcome is not None and fact.outcome in ("receipt", "refused", "absent")):
        raise IllegalWrite(fact.request)
    write = replace(before, outcome=fact.outcome, host_code=fact.host_code)
    rest = tuple(w for w in writes.open if w.request != fact.request)
    keyed = tuple(write if w.request == fact.request else w for w in writes.keyed)
    still_open = (*rest, write) if write.is_open else rest
    return Writes(writes.count, still_open, keyed, _undelivered(writes.undelivered, write))


def _undelivered(before: tuple[Write, ...], write: Write) -> tuple[Write, ...]:
    if write.kind not in FOLLOWUPS:
        return before
    if write.outcome == "history":
        return tuple(other for other in before if other.number > write.number)
    return (*before, write)[-MOST_UNDELIVERED:] if write.outcome in NEVER_RAN else before


def _with_key(keyed: tuple[Write, ...], write: Write) -> tuple[Write, ...]:
    if write.key is None:
        return keyed
    return (*(w for w in keyed if w.key != write.key), write)
