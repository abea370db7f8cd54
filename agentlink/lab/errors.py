"""What can go wrong when a lab is started; each error says what to do next."""

from __future__ import annotations

_INSTALL = "pip install 'dsh-agentlink[lab]'"


class LabError(Exception):
    """Any failure of the lab itself."""


class LabNotInstalled(LabError):
    """A part of the `lab` extra is missing."""

    def __init__(self, *, missing: str) -> None:
        super().__init__(f"{missing} was not found; install it with: {_INSTALL}")
        self.missing = missing


class LabBroken(LabError):
    """A process of the lab did not start, or has ended; `tail` is the end of what it wrote."""

    def __init__(self, *, what: str, tail: str) -> None:
        super().__init__(f"{what}\n{tail.strip()}" if tail.strip() else what)
        self.what = what
        self.tail = tail
