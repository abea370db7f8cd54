from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.facts.launch import ClaimMode
from agentlink.core.launch.claims import Claim, first_conflict, overlaps

PATHS = st.lists(st.sampled_from(("a", "ab", "b", ".", "a b", "ü")), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
MODES = st.sampled_from(("exclusive-write", "read-only"))


def _contains(one: str, other: str) -> bool:
    outer, inner = ([part for part in path.split("/") if part] for path in (one, other))
    return inner[: len(outer)] == outer


@given(PATHS, PATHS)
def test_two_directories_overlap_exactly_when_one_lies_in_the_other(one: str, other: str) -> None:
    assert overlaps(one, other) == (_contains(one, other) or _contains(other, one))
    assert overlaps(one, other) == overlaps(other, one)


@given(PATHS)
def test_the_root_overlaps_everything_and_each_directory_itself(path: str) -> None:
    assert overlaps("/", path)
    assert overlaps(path, path)


@pytest.mark.parametrize(("one", "other"), [("/a", "/ab"), ("/a/b", "/a/bc"), ("/a/b", "/a-b"), ("/x", "/y")])
def test_a_common_prefix_of_names_is_no_overlap(one: str, other: str) -> None:
    assert not overlaps(one, other)


@pytest.mark.parametrize(
    ("wanted", "held", "conflict"),
    [
        ("exclusive-write", "exclusive-write", True),
        ("exclusive-write", "read-only", True),
        ("read-only", "exclusive-write", True),
        ("read-only", "read-only", False),
    ],
)
def test_only_two_readers_may_share_a_directory(wanted: ClaimMode, held: ClaimMode, conflict: bool) -> None:
    found = first_conflict(Claim("t1", "/a/b", wanted), [Claim("t2", "/a", held)])
    assert found == (Claim("t2", "/a", held) if conflict else None)


@given(st.lists(st.builds(Claim, st.sampled_from(("t1", "t2", "t3")), PATHS, MODES)), PATHS, MODES)
def test_the_first_of_the_held_claims_that_stands_in_the_way_is_named(
    held: list[Claim], cwd: str, mode: ClaimMode
) -> None:
    wanted = Claim("t1", cwd, mode)
    in_the_way = [
        claim
        for claim in held
        if claim.task != "t1" and overlaps(claim.cwd, cwd) and not (claim.mode == mode == "read-only")
    ]
    assert first_conflict(wanted, held) == (in_the_way[0] if in_the_way else None)


def test_a_task_never_stands_in_its_own_way() -> None:
    mine = Claim("t1", "/a", "exclusive-write")
    assert first_conflict(mine, [mine]) is None
