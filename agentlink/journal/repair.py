"""Mending a damaged journal without rewriting a byte: the damaged segment is sealed as it is, a new one goes on.

Nothing is guessed. A task whose lines are all provable is carried on; one that may miss a line is blocked and named.
"""

import hashlib

import msgspec

from agentlink.core.errors import Code, Failure
from agentlink.core.facts.record import Line, LineDamaged
from agentlink.core.facts.work import Carried, Repaired
from agentlink.journal.index import LINES_OF_AN_ATTEMPT
from agentlink.journal.journal import Journal
from agentlink.journal.ledger import Ledger
from agentlink.journal.problems import damaged
from agentlink.journal.sealed import LostLines, read_sealed
from agentlink.journal.segment import Newer


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a repair would do, or did. `digest` names exactly this plan."""

    segment: str
    offset: int
    reason: str
    provable_lines: int
    lost_lines: int
    carried_tasks: int
    blocked: tuple[str, ...] = ()
    digest: str = ""
    done: bool = False


def repair(journal: Journal, *, accept: str | None) -> Plan | None:
    """The plan for the journal's damage, None when it is sound; carried out when `accept` is its digest.

    Needs the journal lock. Raises Failure journal_newer, invalid_request for another digest, journal_unwritable.
    """
    journal.start_over()
    journal.refresh()
    damage = journal.problem
    if damage is None:
        return None
    if isinstance(damage, Newer):
        raise damaged(damage)
    survey = _Survey(journal)
    if not journal.path.exists():
        raise Failure(
            Code.JOURNAL_CORRUPT,
            f"{journal.path} is gone, and lines of it were acknowledged: nothing of it can be proven",
            next_step="Put the file back from a backup, or move the whole journal directory away to begin anew.",
            details={"segment": journal.path.name},
        )
    plan = Plan(
        segment=journal.path.name,
        offset=journal.ledger.offset,
        reason=damage.reason,
        provable_lines=survey.provable,
        lost_lines=survey.lost,
        carried_tasks=len(survey.ledger.open_tasks()),
        blocked=tuple(sorted(survey.blocked)),
    )
    plan = msgspec.structs.replace(plan, digest=_digest(plan))
    if accept is None:
        return plan
    if accept != plan.digest:
        raise Failure(
            Code.INVALID_REQUEST,
            "the journal is not as it was when that plan was shown; look at the plan again",
            details={"argument": "accept"},
        )
    _carry_out(journal, survey, plan)
    return msgspec.structs.replace(plan, done=True)


def _digest(plan: Plan) -> str:
    return hashlib.blake2b(msgspec.json.encode(plan), digest_size=6).hexdigest()


class _Survey:
    """What of the damaged segment can be proven, and which tasks may miss a line."""

    def __init__(self, journal: Journal) -> None:
        self.ledger = Ledger(journal.ledger.segment)
        self.provable = self.lost = 0
        self.blocked: set[str] = set(journal.ledger.blocked)
        self.last_seq = journal.ledger.seq or 0
        losses = LostLines()
        for sealed in read_sealed(journal.path):
            losses.pass_by(sealed)
            if sealed.line is None:
                self.last_seq += 1
                continue
            self.provable += 1
            self.last_seq = max(self.last_seq, sealed.line.seq)
            try:
                self.ledger.take(sealed.line, "", offset=sealed.offset, length=0)
            except LineDamaged:
                # A line before this one is missing: what is known of its tasks is not all.
                self.blocked |= set(_tasks_of(sealed.line))
        self.last_seq = max(self.last_seq, journal.acknowledged_seq())
        self.lost = losses.end(last_seq=self.last_seq)
        self.blocked |= {task for task in self.ledger.tasks() if self._may_miss_lines(task)}
        self.ledger.drop(self.blocked)

    def _may_miss_lines(self, task: str) -> bool:
        """Whether lost lines may have been this task's last ones: that cannot be told from a launch that stopped.

        One lost line may have moved a launch that was going on. Several may have been a whole further attempt of one
        that had failed. A confirmed launch cannot change any more.
        """
        view = self.ledger.view(task)
        if view is None or view.launch.confirmed:
            return False
        return not view.launch.failed or (self.lost >= LINES_OF_AN_ATTEMPT and not view.launch.abandoned)


def _tasks_of(line: Line) -> list[str]:
    carried = [fact.task for fact in line.facts if isinstance(fact, Carried)]
    return carried if line.task is None else [line.task]


def _carry_out(journal: Journal, survey: _Survey, plan: Plan) -> None:
    """Seals the damaged segment by beginning the next one with what could be proven."""
    ledger = survey.ledger
    ledger.seq, ledger.sum, ledger.offset = journal.ledger.seq, journal.ledger.sum, journal.ledger.offset
    size = journal.path.stat().st_size if journal.path.exists() else 0
    lost = Repaired(
        segment=ledger.segment,
        from_seq=journal.ledger.next_seq,
        to_seq=max(survey.last_seq, journal.ledger.seq or 0),
        offset=plan.offset,
        bytes=max(0, size - plan.offset),
        reason=plan.reason,
        blocked=plan.blocked,
    )
    journal.begin_repaired(ledger, lost)
