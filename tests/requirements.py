"""The requirements of the routing document (003): id -> where it stands there, and what it asks in one sentence.

A test that holds one carries `@requirement("FR-05")`. `test_requirements.py` reads those decorators from the source and
fails on an id that no test holds, unless `WITHOUT_TEST` says why.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., object])


class Requirement(NamedTuple):
    """Its section in 003, and one sentence."""

    source: str
    says: str


def requirement(*ids: str) -> Callable[[F], F]:
    """Says which requirements a test holds."""
    unknown = [name for name in ids if name not in REQUIREMENTS]
    if unknown or not ids:
        raise ValueError(f"no such requirement: {', '.join(unknown) or 'none named'}")

    def mark(test: F) -> F:
        vars(test)["requirements"] = ids
        return test

    return mark


def _numbered(prefix: str, rows: list[tuple[str, str]]) -> dict[str, Requirement]:
    return {f"{prefix}-{number:02}": Requirement(*row) for number, row in enumerate(rows, 1)}


REQUIREMENTS: dict[str, Requirement] = {
    **_numbered(
        "FR",
        [
            ("7", "Automatic routing is in the shared runtime: the same inputs, outputs and errors for every caller."),
            (
                "7",
                "Named and default delegation stay as they are; automatic is asked for each time; both is ambiguous.",
            ),
            (
                "7",
                "The live roster is read before each choice; absent or broken is refused; down is no lack of rules.",
            ),
            (
                "7",
                "A rule holds only what matching and selection need, in the closed vocabulary, and nothing executable.",
            ),
            ("7", "Equal hints, rules and roster give an equal answer, without a model; equal rank is ambiguous."),
            ("7", "The launch is staged and fails closed: the resolved preset is compared before the prompt."),
            ("7", "The prompt is sent unchanged, without documentation and without route candidates."),
            ("7", "The result is compact: mode, rule, asked and resolved preset, reason; details only on request."),
            ("7", "Each failure has a type of its own, in a defined priority, with bounded reasons."),
            ("7", "No other preset and no default is tried when the chosen or named one cannot be used."),
            ("7", "Maintenance is off the hot path; doctor and Host status tell missing, valid or invalid, read-only."),
            ("7", "A content-free record of the routing is kept before the prompt and survives a restart."),
            ("7", "Supervision of an automatic task is that of any other task; closing a process cancels nothing."),
        ],
    ),
    **_numbered(
        "NFR",
        [
            ("8", "Routing adds no documents and no route catalogue to the caller's context; the digest stays short."),
            ("8", "Only local parsing and matching plus the Host calls of a launch; 100 rules need nothing special."),
            ("8", "Rules and claims grant nothing; a claim is called cooperative and never a sandbox."),
            ("8", "Many processes share one home; malformed rules fail closed and diagnostics say so directly."),
            ("8", "Tested versions are recorded; what was not run is called unverified."),
            ("8", "Neither rules nor records hold prompts, answers, documents or credentials."),
            ("8", "The router is one neutral component behind a narrow interface, away from the Host's details."),
        ],
    ),
    **_numbered(
        "SI",
        [
            ("9", "Agentlink only connects and never owns the life of the Host."),
            ("9", "Automatic routing never changes the model."),
            ("9", "Automatic routing never changes the sandbox, nor infers it from a claim."),
            ("9", "Automatic routing answers no question and allows no approval."),
            ("9", "Automatic routing installs, enables, updates and removes nothing on the Host."),
            ("9", "Automatic routing executes nothing copied from documentation."),
            ("9", "Automatic routing never falls back silently."),
            ("9", "A mismatch of chosen and resolved preset stops before the prompt."),
            ("9", "The Host's history is the authority for the conversation."),
            ("9", "Workspace claims, and the advice to work in separate worktrees, stay in force."),
        ],
    ),
    **_numbered(
        "AC",
        [
            ("10, compatibility", "A named preset keeps its meaning."),
            ("10, compatibility", "Neither preset nor routing keeps the Host's default."),
            ("10, compatibility", "All earlier tests of the bridge go on passing."),
            ("10, selection", "Representative tasks go to the expected presets by rules and hints alone."),
            ("10, selection", "The MCP schema and the check of rules accept the same values for every caller."),
            ("10, selection", "Automatic needs a valid hint or a catch-all; unknown hints are routing_hints_invalid."),
            ("10, selection", "Equal rank is ambiguous_route; ids only order the diagnosis."),
            ("10, selection", "Without rules routing_not_configured, and the other modes go on."),
            ("10, selection", "Malformed rules fail closed."),
            ("10, selection", "Doctor or Host status tell missing, valid and malformed apart."),
            ("10, selection", "Absent or broken presets are never chosen."),
            ("10, launch", "The live roster is read before an automatic delegation."),
            ("10, launch", "The create of the session gets the chosen preset."),
            ("10, launch", "Another resolved preset keeps the prompt from being sent."),
            ("10, launch", "Without an observable resolved preset an automatic launch does not go on."),
            ("10, launch", "A mismatched session keeps its task and a record of the failed verification."),
            ("10, launch", "A roster or preset that changes in between is a typed failure with promptSent false."),
            ("10, launch", "A claim conflict keeps what is known of an unprompted task and session."),
            ("10, context", "The ordinary MCP result holds only the digest of the chosen route."),
            ("10, context", "No document and no list of candidates gets into the caller's context."),
            ("10, context", "The Host gets no documentation with the prompt."),
            ("10, safety", "A rule cannot add anything executable."),
            ("10, safety", "Routing touches neither Host, model, permissions, approvals nor plugins."),
            ("10, safety", "Route records hold no conversation and no documents."),
            ("10, supervision", "Status, wait, tail, follow-up, question, approval, cancel and release work alike."),
            ("10, supervision", "Chosen and resolved preset can be read after a restart of Agentlink."),
            ("10, live", "Six to ten tasks in a disposable workspace on at least two built-in presets."),
            ("10, live", "Presets of a routing suite, when installed, are optional subjects."),
            ("10, live", "The sessions are visible in DSH Web."),
            ("10, live", "Chosen, resolved, outcome, external evidence and reselection are recorded."),
            ("10, live", "The final message alone is not taken for success."),
            ("10, live", "rc.7 stays unverified until a live run against such a Host."),
        ],
    ),
}

PARTLY = {
    "FR-01": "Schema, parser and guidance are one vocabulary; no caller's own program is run.",
    "FR-11": "Health, proposals, diff and apply. Reading a plugin's documentation is left to whoever proposes.",
    "NFR-02": "Tests hold that the router does no I/O; its time is measured in routing-acceptance.md.",
    "AC-18": "The claim is decided before the session is made, so a conflict leaves none. At a recovery: not tested.",
}
"""Ids that tests hold in part: what they leave out."""

WITHOUT_TEST = {
    "NFR-05": "Versions are recorded by each live run, in docs/reference/routing-acceptance.md.",
    "AC-03": "It is the whole test run.",
    "AC-27": "Run live, with a scripted model: docs/reference/routing-acceptance.md.",
    "AC-28": "Optional, and no routing suite is installed in a lab Host.",
    "AC-29": "Run live, by the Host's session list: docs/reference/routing-acceptance.md.",
    "AC-30": "Run live; external evidence needs a real model: docs/reference/routing-acceptance.md.",
    "AC-31": "A rule for whoever runs it live: the page keeps turn and evidence in two columns.",
    "AC-32": "No such Host was run; docs/reference/routing-acceptance.md says so.",
}
"""Ids that no test holds, and why."""
