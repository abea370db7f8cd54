"""Text from a Host as a terminal may have it: whatever could move its cursor or turn its lines around is replaced."""

import re
import shlex

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARK = "\ufffd"


def safe(text: str) -> str:
    """The text without control characters and direction marks; line ends and tabs stay."""
    return text if text.isprintable() else _UNSAFE.sub(_MARK, text.replace("\r\n", "\n"))


def one_line(text: str, *, most: int) -> str:
    """The beginning of the text in one line."""
    words = " ".join(safe(text[: most * 4]).split())
    return words if len(words) <= most and len(text) <= most * 4 else words[: most - 1].rstrip() + "…"


def indented(text: str, *, by: int) -> str:
    """The text, each line after the first begun with that many spaces."""
    return safe(text).rstrip("\n").replace("\n", "\n" + " " * by)


def command(*words: str) -> str:
    """A command line that a person can copy."""
    return safe(shlex.join(["agentlink", *words]))


def seconds(value: float) -> str:
    """A time span as a person reads it: 7 s, 2:05, 1:02:05."""
    whole = max(0, int(value))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"
