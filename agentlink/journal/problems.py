"""What can be wrong with a journal, and the failure that it means to a caller."""

from pathlib import Path
from typing import assert_never

import msgspec

from agentlink.core.errors import Code, Failure
from agentlink.journal.segment import Damage, Newer

Problem = Damage | Newer


def failure_of(problem: Problem | None) -> Failure | None:
    """The failure that this problem means to a writer; None for a sound journal."""
    return None if problem is None else damaged(problem)


def damaged(problem: Problem) -> Failure:
    """The failure that this problem means to whoever needs what it hides."""
    match problem:
        case Newer():
            return Failure(
                Code.JOURNAL_NEWER,
                f"line {problem.line} has format {problem.version}; this version only reads older ones",
                details=msgspec.to_builtins(problem),
            )
        case Damage():
            return Failure(
                Code.JOURNAL_CORRUPT,
                f"the journal is damaged at line {problem.line} of {problem.segment} ({problem.reason})",
                details=msgspec.to_builtins(problem),
            )
        case _ as never:
            assert_never(never)


def unwritable(reason: str, path: Path) -> Failure:
    """The journal cannot be written now; nothing of the append counts."""
    return Failure(Code.JOURNAL_UNWRITABLE, f"the journal cannot be written: {reason}", details={"file": str(path)})


def unreadable(reason: str, path: Path) -> Failure:
    """The journal cannot even be read now."""
    return Failure(Code.JOURNAL_UNWRITABLE, f"the journal cannot be read: {reason}", details={"file": str(path)})


def blocked(task: str, reason: str, segment: str) -> Failure:
    """One task's lines in a sealed segment cannot be proven; everything else can."""
    return Failure(
        Code.JOURNAL_CORRUPT,
        f"lines of {task} are damaged: {reason}",
        task=task,
        prompt_sent=None,
        next_step="Look at its session in DSH Web. Everything else in the journal works; delegate again if needed.",
        details={"segment": segment, "reason": reason},
    )


def unprovable(question: str) -> Failure:
    """Lines are lost, so that only what is found is certain, and nothing that is not found."""
    return Failure(
        Code.JOURNAL_CORRUPT,
        f"lines of the journal are lost, so it cannot be told {question}",
        prompt_sent=None,
        next_step="See `agentlink journal verify`. Delegate without a request key once you know that the task is not "
        "running, or move the journal directory away to begin anew.",
    )


def why(error: OSError) -> str:
    """The system's reason, in its own words."""
    return error.strerror or str(error)
