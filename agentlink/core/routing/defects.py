"""What is wrong in a rules file: file, line, the name found, the nearest valid one (003 FR-04, FR-09, F23)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentlink.core.errors import Code, Failure
from agentlink.core.routing.locate import Path, line_at, locate
from agentlink.core.routing.wording import shown, unknown, with_more

MOST_SHOWN = 20


class RuleDefect(msgspec.Struct, frozen=True, kw_only=True):
    """One defect of a rules file, in a form that a person and a program can use."""

    file: str
    line: int
    found: str
    nearest: str | None
    message: str

    @property
    def text(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A defect before its line is known. With `valid` it is an unknown name, and `message` says of what."""

    path: Path
    message: str
    found: object = ""
    valid: tuple[str, ...] = ()
    inside: dict[str, tuple[str, ...]] = {}
    """Names that are valid one level deeper, by the table they belong into."""
    nearest: str | None = None
    other: Path | None = None
    """An earlier place that the defect is in conflict with."""


def config_invalid(defects: Sequence[RuleDefect], *, count: int) -> Failure:
    """The failure that tells the first defect in full and the others in its details; `count` is of all there are."""
    first, *further = defects
    more = f" (and {count - 1} more)" if count > 1 else ""
    details: dict[str, Any] = {"file": first.file, "line": first.line, "found": first.found, "nearest": first.nearest}
    if further:
        rows = [{"line": d.line, "found": d.found, "nearest": d.nearest, "message": d.message} for d in further]
        details |= with_more("further", rows, count - 1)
    return Failure(Code.ROUTING_CONFIG_INVALID, first.text + more, details=details)


def findings_failure(findings: Sequence[Finding], text: str, *, name: str) -> Failure:
    """The failure for these findings in this text, in the order of their lines, at most MOST_SHOWN of them shown."""
    lines = locate(text)
    ordered = sorted(findings, key=lambda finding: line_at(lines, finding.path))
    shown_ones = [_defect(finding, lines, name) for finding in ordered[:MOST_SHOWN]]
    return config_invalid(shown_ones, count=len(findings))


def _defect(finding: Finding, lines: dict[Path, int], name: str) -> RuleDefect:
    message, meant = finding.message, finding.nearest
    if finding.valid:
        message, meant = unknown(finding.message, str(finding.found), finding.valid, inside=finding.inside)
    if finding.other is not None:
        message = f"{message} (first at line {line_at(lines, finding.other)})"
    return RuleDefect(
        file=name,
        line=line_at(lines, finding.path),
        found=shown(finding.found),
        nearest=meant,
        message=message,
    )
