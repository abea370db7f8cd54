"""Whether what a caller saw is out of date, so that a write meant for it should not be made (design section 6)."""

from collections.abc import Iterable

from agentlink.core.supervision.digest import Digest


def what_changed(since: Iterable[Digest]) -> str | None:
    """The first thing since then that the caller has to know before it writes; None when nothing such happened.

    Only the root session counts: a turn that ended, an item that began or ceased to wait for a person, somebody
    else's message, another preset or model.
    """
    for event in since:
        told = _TOLD.get(event.kind)
        if event.session is not None or told is None:
            continue
        if event.kind == "message" and event.sender not in ("person", "parent"):
            continue
        if event.kind == "tool_ended" and not _ends_a_question(event):
            continue
        return told
    return None


_TOLD = {
    "turn_ended": "a turn ended",
    "question_asked": "a question was asked",
    "tool_ended": "a question was answered",
    "approval_asked": "an approval was asked for",
    "approval_decided": "an approval was decided",
    "message": "somebody else wrote",
    "preset_changed": "the preset was changed",
    "model_changed": "the model was changed",
}


def _ends_a_question(event: Digest) -> bool:
    """A result does not name its tool: an answered or refused question is known by what the Host makes of it."""
    return event.text.startswith('{"answers":') or (event.error_code or "").startswith("ASK_")
