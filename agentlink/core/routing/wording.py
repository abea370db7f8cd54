"""How a wrong name or value is told: shortened, without credentials, with the valid name that was probably meant."""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agentlink.core.redact import redact

SHOWN = 80
"""Characters of a foreign text that a message repeats."""

_LONGEST_NAME = 64
_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line and direction marks, halves of characters: they can rewrite what a terminal shows."""


def is_plain_line(text: str) -> bool:
    """Whether the text is one line that any terminal shows as it is."""
    return _HARMFUL.search(text) is None


def brief(text: str, *, limit: int = SHOWN) -> str:
    """A foreign text on one line, bounded, without credentials and control characters."""
    return _HARMFUL.sub("\ufffd", redact(text[: 20 * limit], limit=limit))


def shown(value: object) -> str:
    """A TOML or JSON value as a message may repeat it; tables and lists are only named, as they can be of any depth."""
    match value:
        case str():
            return brief(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if abs(value) < 10**18 else "a very large integer"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case _:
            return brief(str(value))


def quoted(value: object) -> str:
    """A value inside a sentence: text in quotes, anything else bare."""
    return f'"{shown(value)}"' if isinstance(value, str) else shown(value)


def nearest(found: str, valid: Iterable[str]) -> str | None:
    """The valid name that `found` was probably meant to be; None when none is close. The first wins a draw."""
    word = _folded(found[:_LONGEST_NAME])
    best, fewest = None, _LONGEST_NAME
    for name in valid:
        other = _folded(name)
        if len(word) > 1 and other.startswith(word):
            distance = 0
        else:
            distance = _edits(word, other)
            if distance > max(1, max(len(word), len(other)) // 3):
                continue
        if distance < fewest:
            best, fewest = name, distance
    return best


def unknown(
    what: str, found: str, valid: Sequence[str], *, inside: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> tuple[str, str | None]:
    """The sentence about an unknown name, and the valid one that was probably meant, here or `inside` a table."""
    told = f"unknown {what} {quoted(found)}"
    if meant := nearest(found, valid):
        return f'{told}; did you mean "{meant}"?', meant
    for table, names in inside.items():
        if meant := nearest(found, names):
            return f'{told}; did you mean "{meant}", inside {table}?', meant
    return f"{told}; valid: {', '.join(valid)}", None


def with_more(name: str, rows: Sequence[Any], count: int) -> dict[str, Any]:
    """The rows under `name`, and under `nameMore` how many of `count` they leave out, if any."""
    more = {f"{name}More": count - len(rows)} if count > len(rows) else {}
    return {name: list(rows), **more}


def _folded(name: str) -> str:
    return re.sub(r"[\s_]", "-", name.strip()).casefold()


def _edits(one: str, other: str) -> int:
    """Letters to insert, remove, replace or swap with a neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
