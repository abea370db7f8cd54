"""What a benchmark finds, as data, and the one table that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Compared = Literal["itself", "ratio", "difference"]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure. `limit` is measured in the same run, in the same unit; `target` bounds what is compared."""

    bench: str
    figure: str
    ours: float
    unit: str
    limit: float | None = None
    limit_is: str = ""
    compared: Compared = "itself"
    target: float | None = None
    at_least: bool = False
    """The target is a lower bound; otherwise it is an upper one."""

    @property
    def value(self) -> float:
        """The number that the target is about."""
        if self.limit is None or self.compared == "itself":
            return self.ours
        return self.ours / self.limit if self.compared == "ratio" else self.ours - self.limit

    @property
    def met(self) -> bool | None:
        """None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


_HEADINGS = ("benchmark", "figure", "ours", "limit", "compared", "target", "")


def table(rows: Sequence[Row]) -> str:
    """The rows for people; it is Markdown too."""
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    shown = [_line(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
    shown.insert(1, _line("-" * max(width, 3) for width in widths))
    return "\n".join(shown)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_data(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows for programs, with the compared value and the verdict."""
    return [msgspec.to_builtins(row) | {"value": row.value, "met": row.met} for row in rows]


def _cells(row: Row) -> tuple[str, ...]:
    limit = "" if row.limit is None else f"{number(row.limit)} {row.unit}"
    if row.limit_is:
        limit = f"{limit} ({row.limit_is})"
    verdict = {None: "", True: "met", False: "missed"}[row.met]
    compared = "" if row.compared == "itself" else _value(row, row.value)
    return (row.bench, row.figure, f"{number(row.ours)} {row.unit}", limit, compared, _target(row), verdict)


def _target(row: Row) -> str:
    if row.target is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {_value(row, row.target)}"


def _value(row: Row, value: float) -> str:
    match row.compared:
        case "ratio":
            return f"× {value:.2f}"
        case "difference":
            sign = "+" if value >= 0 else "−"
            return f"{sign}{number(abs(value))} {row.unit}"
        case "itself":
            return f"{number(value)} {row.unit}"


def number(value: float) -> str:
    """Three digits that matter; whole numbers with thousands apart."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
