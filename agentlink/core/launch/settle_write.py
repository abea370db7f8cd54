"""What the Host's history proves of a follow-up whose outcome is not final: a pure function, as for launches."""

from agentlink.core.facts.work import WriteOutcome
from agentlink.core.launch.settle import Seen, judged, old_enough
from agentlink.core.launch.writes import FOLLOWUPS, Write


def write_outcome(write: Write, seen: Seen) -> WriteOutcome | None:
    """The outcome to record for an open follow-up; None when nothing new is proven."""
    if write.kind not in FOLLOWUPS:
        return None
    accepted = write.outcome == "receipt"
    match judged(seen):
        case "delivered":
            if old_enough(seen):
                return "history"
            return None if accepted else "receipt"
        case "accepted":
            return None if accepted else "receipt"
        case "discarded":
            return "discarded"
        case "consumed":
            return "consumed"
        case "absent":
            return "lost" if accepted else "absent"
        case None:
            return None
