"""What waits for a person, told with the commands that answer it."""

from collections.abc import Sequence

from agentlink.cli.plain_text import command, indented, one_line, safe
from agentlink.core.supervision.interactions import Pending, Question


def pending_lines(task: str, pending: Sequence[Pending]) -> list[str]:
    """Each item, and the command that answers it, which stands alone on its line."""
    lines: list[str] = []
    for item in pending:
        lines += item_lines(item)
        if item.cut and item.event is not None:
            whole = "" if item.sizes is None else f" of {sum(item.sizes)} characters"
            lines.append(f"  cut{whole}; the whole: {command('tail', task, '--event', item.event)}")
        lines += [f"  {text}" for text in answers(task, item)]
    return lines


def item_lines(item: Pending) -> list[str]:
    """What is asked."""
    if item.kind == "approval":
        lines = [safe(f"approval {item.request_id}: may {item.tool} run?")]
        if item.reason:
            lines.append(f"  for {indented(item.reason, by=4)}")
        if item.arguments:
            lines.append(f"  with {indented(item.arguments, by=4)}")  # whole: this is what the person allows
        return lines
    lines = [safe(f"question {item.request_id}:")]
    for question in item.questions:
        lines += question_lines(question)
    return lines


def question_lines(question: Question, *, numbered: bool = False) -> list[str]:
    """One question and its labels."""
    several = "  (several may be chosen)" if question.multi_select else ""
    name = "" if numbered or not question.id else f"{safe(question.id)}: "
    header = f"[{safe(question.header)}] " if question.header else ""
    lines = [f"  {name}{header}{indented(question.question, by=4)}{several}"]
    for number, option in enumerate(question.options, start=1):
        mark = str(number) if numbered else "-"
        about = f"  ({one_line(option.description, most=200)})" if option.description else ""
        lines.append(f"    {mark} {one_line(option.label, most=200)}{about}")
    return lines


def answers(task: str, item: Pending) -> list[str]:
    """The commands that answer an item."""
    if item.kind == "approval":
        return [command("approve", task, item.request_id), command("reject", task, item.request_id)]
    words = [
        word
        for question in item.questions
        for word in (("--answer", f"{question.id}=LABEL") if question.options else ("--text", f"{question.id}=TEXT"))
    ]
    return [command("answer", task, item.request_id, *words)]
