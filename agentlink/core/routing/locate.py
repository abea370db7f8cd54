"""On which line each key and each list entry of a TOML text stands.

tomllib gives values without places. This walks a text that tomllib has accepted, so it need not judge: it only tells
strings, brackets and keys apart. It is used when a file has a defect, never on the way to a choice.
"""

import re
import tomllib
from bisect import bisect_left

Path = tuple[str | int, ...]
"""Keys and list positions from the top: `("rule", 2, "match", "kind", 0)`."""

DEEPEST = 6
"""Longer paths are not told apart: a rules file has none, and any nesting stays cheap."""

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_WORD = re.compile(r"[A-Za-z0-9_-]++")
_STRING = re.compile(
    r'"""(?s:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?s:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
)
_BARE = re.compile(r"[^,\[\]{}#\n\"']++")


def locate(text: str) -> dict[Path, int]:
    """The line, from 1, of every path of at most DEEPEST parts. `text` is valid TOML whose lines end in LF."""
    walk = _Walk(text)
    walk.document()
    return walk.lines


def line_at(lines: dict[Path, int], path: Path) -> int:
    """The line of the path, or of the nearest thing around it; 1 for the whole file."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 1


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._newlines = [place.start() for place in re.finditer("\n", text)]
        self._tables: dict[Path, int] = {}
        """How many `[[…]]` each list of tables has so far."""

    def document(self) -> None:
        table: Path = ()
        while self._skip_space():
            if self.text.startswith("[[", self.at):
                table = self._header(2)
            elif self.text[self.at] == "[":
                table = self._header(1)
            else:
                self._pair(table)

    def _header(self, brackets: int) -> Path:
        start = self.at
        self.at += brackets
        *outer, name = self._key()
        self.at += brackets
        path: Path = ()
        for part in outer:
            path = self._last_of((*path, part))
            self._record(path, start)
        path = (*path, name)
        self._record(path, start)
        if brackets == 1:
            return path
        self._tables[path] = self._tables.get(path, 0) + 1
        path = self._last_of(path)
        self._record(path, start)
        return path

    def _last_of(self, path: Path) -> Path:
        count = self._tables.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for part in self._key():
            path = (*path, part)[: DEEPEST + 1]
            self._record(path, start)
        self.at += 1  # the equals sign
        self._skip_space()
        self._value(path)

    def _key(self) -> list[str]:
        """The parts of a dotted key; stops at what follows it."""
        parts = []
        while True:
            self._skip_space()
            if word := _WORD.match(self.text, self.at):
                parts.append(word[0])
                self.at = word.end()
            else:
                parts.append(tomllib.loads(f"it = {self._string()}")["it"])
            self._skip_space()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first in "[{":
            if len(path) >= DEEPEST:
                self._skip_nested()
            elif first == "[":
                self._list(path)
            else:
                self._table(path)
        elif first in "\"'":
            self._string()
        else:
            self._bare()

    def _list(self, path: Path) -> None:
        self.at += 1
        position = 0
        while self._next() != "]":
            self._record((*path, position), self.at)
            self._value((*path, position))
            position += 1
        self.at += 1

    def _table(self, path: Path) -> None:
        self.at += 1
        while self._next() != "}":
            self._pair(path)
        self.at += 1

    def _next(self) -> str:
        """The next entry's first character, or the closing bracket; a comma before it is passed."""
        self._skip_space()
        if self.text[self.at] == ",":
            self.at += 1
            self._skip_space()
        return self.text[self.at]

    def _skip_nested(self) -> None:
        """Passes a list or table with all that is in it, without recursion."""
        depth = 0
        while True:
            self._skip_space()
            here = self.text[self.at]
            if here in "\"'":
                self._string()
            elif here in "[]{},":
                depth += (here in "[{") - (here in "]}")
                self.at += 1
            else:
                self._bare()
            if depth == 0:
                return

    def _string(self) -> str:
        return self._take(_STRING)

    def _bare(self) -> None:
        self._take(_BARE)

    def _take(self, pattern: re.Pattern[str]) -> str:
        token = pattern.match(self.text, self.at)
        if token is None:
            raise ValueError(f"not valid TOML at {self.at}")
        self.at = token.end()
        return token[0]

    def _skip_space(self) -> bool:
        """Passes blanks, newlines and comments; whether anything follows."""
        self._take(_SPACE)
        return self.at < len(self.text)

    def _record(self, path: Path, start: int) -> None:
        if len(path) <= DEEPEST and path not in self.lines:
            self.lines[path] = bisect_left(self._newlines, start) + 1
