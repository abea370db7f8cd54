"""Which workspace claims may stand side by side (design section 6, 003 terminology "workspace claim mode").

A claim is cooperation between Agentlink tasks. It neither selects nor verifies the DSH sandbox.
"""

from collections.abc import Iterable

import msgspec

from agentlink.core.facts.launch import ClaimMode

CLAIM_NOTICE = "cooperative claim between Agentlink tasks; it does not control or verify the DSH sandbox"
"""Said in the tool text, in results and in statuses, so that nobody takes a claim for a sandbox."""


class Claim(msgspec.Struct, frozen=True):
    """A task's hold on one canonical, absolute directory."""

    task: str
    cwd: str
    mode: ClaimMode


def overlaps(one: str, other: str) -> bool:
    """Whether one canonical directory is the other, or lies inside it."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or longer.startswith(shorter.rstrip("/") + "/")


def first_conflict(wanted: Claim, held: Iterable[Claim]) -> Claim | None:
    """The first held claim that `wanted` may not stand beside: overlapping, and at least one of them writes."""
    for claim in held:
        if claim.task == wanted.task or not overlaps(claim.cwd, wanted.cwd):
            continue
        if "exclusive-write" in (claim.mode, wanted.mode):
            return claim
    return None
