"""A task's events as lines for people: when, who or what, and the text."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from agentlink.cli.plain_text import command, indented, one_line, safe
from agentlink.core.supervision.digest import Digest
from agentlink.core.supervision.interactions import questions_in_call

_TOOL_SHOWN = 240
_RESULT_LINES = 6
WHO = 9
INDENT = 8 + 2 + WHO + 1


class Parts:
    """Puts texts together again that came in parts."""

    def __init__(self) -> None:
        self._begun: Digest | None = None

    @property
    def open(self) -> bool:
        """Whether a text's end is still to come."""
        return self._begun is not None

    def whole(self, parts: Sequence[Digest]) -> Iterator[Digest]:
        """The events of a reply, and the one whose beginning came with an earlier reply."""
        for part in parts:
            begun, self._begun = self._begun, None
            whole = part
            if begun is not None and begun.id == part.id and part.offset == begun.offset + len(begun.text):
                whole = msgspec.structs.replace(
                    part, text=begun.text + part.text, offset=begun.offset, size=part.size if part.more else begun.size
                )
            elif begun is not None:
                yield begun
            if whole.more:
                self._begun = whole
            else:
                yield whole

    def flush(self) -> Iterator[Digest]:
        """What was begun and will not go on, because the Host lost it."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            yield begun


class Story:
    """Tells events one after the other; remembers the days (None: does not tell them) and the names of subagents."""

    def __init__(self, task: str, *, day: str | None = "") -> None:
        self._task = task
        self._labels: dict[str, str] = {}
        self._day = day

    def lines(self, event: Digest) -> str:
        """One event, as one or more lines without a last line end."""
        if event.subagent is not None and event.label:
            self._labels[event.subagent] = event.label
        who, text = self._told(event)
        moment = datetime.fromisoformat(event.at).astimezone()
        day = moment.strftime("%Y-%m-%d")
        before = "" if self._day in (None, day) else f"-- {day}\n"
        self._day = None if self._day is None else day
        inside = "" if event.session is None else f"({self.label(event.session)}) "
        return f"{before}{moment:%H:%M:%S}  {who:{WHO}} {safe(inside)}{indented(text, by=INDENT)}".rstrip()

    def name(self, session: str, label: str) -> None:
        """Learns a subagent's name."""
        if label:
            self._labels[session] = label

    def label(self, session: str) -> str:
        """A subagent's name, or the beginning of its id."""
        return one_line(self._labels.get(session) or session, most=24)

    def _told(self, event: Digest) -> tuple[str, str]:
        match event.kind:
            case "message":
                return event.sender or "message", event.text
            case "answer":
                return "agent", event.text + (" (interrupted)" if event.interrupted else "")
            case "turn_started":
                return "turn", f"{event.turn} started"
            case "turn_ended":
                code = f" ({event.error_code})" if event.error_code else ""
                return "turn", f"{event.turn} ended: {event.outcome}{code}"
            case "tool_called":
                return "tool", f"{event.tool} {self._cut(event, one_line(event.text, most=_TOOL_SHOWN))}"
            case "tool_ended":
                state = f"failed{f' ({event.error_code})' if event.error_code else ''}: " if event.failed else ""
                return "result", state + self._cut(event, _beginning(event.text))
            case "question_asked":
                return "question", f"{event.request_id}\n{_questions(event.text)}"
            case "approval_asked":
                return "approval", f"{event.request_id}: may {event.tool} run? {event.text}"
            case "approval_decided":
                return "approval", event.outcome or "decided"
            case "queue_changed":
                return "queue", _queue(event)
            case "subagent_started":
                return "subagent", f"{self.label(event.subagent or '')} started"
            case "model_retry":
                code = f" ({event.error_code})" if event.error_code else ""
                return "model", f"try {event.retry} of {event.of}{code}"
            case "preset_changed":
                return "preset", event.preset or ""
            case "model_changed":
                return "model", f"{event.provider} / {event.model}"

    def _cut(self, event: Digest, shown: str) -> str:
        """The shown beginning, and how to read the rest."""
        if event.size is None and not shown.endswith("…"):
            return shown
        whole = event.size or len(event.text)
        return f"{shown}\n[{whole} characters: {command('tail', self._task, '--event', event.id)}]"


def _beginning(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(one_line(line, most=_TOOL_SHOWN) for line in lines[:_RESULT_LINES])
    return shown if len(lines) <= _RESULT_LINES else shown + "\n…"


def _questions(arguments: str) -> str:
    questions = questions_in_call(arguments)
    if not questions:
        return one_line(arguments, most=_TOOL_SHOWN)
    return "\n".join(
        question.question + "".join(f"\n  - {option.label}" for option in question.options) for question in questions
    )


def _queue(event: Digest) -> str:
    said = []
    if event.queued_count:
        said.append(f"{event.queued_count} in" + (f" ({', '.join(event.queued)})" if event.queued else ""))
    if event.removed_count:
        said.append(f"{event.removed_count} removed")
    return ", ".join(said)
