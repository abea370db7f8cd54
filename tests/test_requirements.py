"""Every requirement has a test or a reason, and every test names requirements that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requirements import PARTLY, REQUIREMENTS, WITHOUT_TEST, requirement

TESTS = Path(__file__).parent
CALL = re.compile(r'"([\w$]+/\w+)"')
READS = {"agentPresets/list", "session/list", "session/modelCatalog", "session/page", "session/projections"}
WRITES = {"session/create", "session/prompt", "session/rename"}
ASKED_FOR = {"$events/result", "session/cancel", "session/updateQueue", "subagents/interruptByParent"}
"""What only a caller's own call for a running task leads to (003 FR-13)."""


def claims(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each function with a requirement decorator, and the ids in it. Raises ValueError for ids that are no literals."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "requirement":
                yield node.name, tuple(str(ast.literal_eval(argument)) for argument in mark.args)


CLAIMS = [
    (f"{path.relative_to(TESTS).as_posix()}::{name}", name, ids)
    for path in sorted(TESTS.rglob("*.py"))
    for name, ids in claims(path.read_text("utf-8"))
]
HELD = {number for _, _, ids in CLAIMS for number in ids}


@requirement("SI-02", "SI-04", "SI-05", "AC-23")
def test_nothing_else_can_be_asked_of_a_host() -> None:
    """No call selects a model or a preset, installs, or configures: the client has none."""
    client = (TESTS.parent / "agentlink" / "host" / "client.py").read_text("utf-8")
    assert set(CALL.findall(client)) - {"application/json"} == READS | WRITES | ASKED_FOR


def test_every_requirement_has_a_test_or_a_reason() -> None:
    assert sorted(REQUIREMENTS.keys() - HELD - WITHOUT_TEST.keys()) == []


def test_what_has_a_test_is_not_said_to_have_none() -> None:
    assert sorted(WITHOUT_TEST.keys() & HELD) == []
    assert sorted(PARTLY.keys() - HELD) == []


def test_no_test_and_no_reason_names_an_unknown_requirement() -> None:
    assert [(where, number) for where, _, ids in CLAIMS for number in ids if number not in REQUIREMENTS] == []
    assert sorted((WITHOUT_TEST.keys() | PARTLY.keys()) - REQUIREMENTS.keys()) == []


def test_only_tests_carry_requirements_and_each_names_one_once() -> None:
    assert [where for where, name, ids in CLAIMS if not name.startswith("test_") or not ids] == []
    assert [where for where, _, ids in CLAIMS if len(ids) != len(set(ids))] == []


def test_every_group_of_the_document_is_whole() -> None:
    groups = [number.partition("-")[0] for number in REQUIREMENTS]
    assert {group: groups.count(group) for group in groups} == {"FR": 13, "NFR": 7, "SI": 10, "AC": 32}
    assert all(said.says.endswith(".") and said.source for said in REQUIREMENTS.values())
    assert all(reason.endswith(".") for reason in (*WITHOUT_TEST.values(), *PARTLY.values()))


def test_the_decorator_marks_a_test_and_refuses_an_unknown_id() -> None:
    def some_test() -> None: ...

    assert requirement("FR-01", "SI-07")(some_test) is some_test
    assert vars(some_test)["requirements"] == ("FR-01", "SI-07")
    for wrong in (("FR-99",), ()):
        with pytest.raises(ValueError, match="no such requirement"):
            requirement(*wrong)


def test_decorators_are_found_on_plain_and_async_functions() -> None:
    found = claims('@requirement("A", "B")\n@other\nasync def test_one(): ...\n@x.requirement\ndef test_two(): ...\n')
    assert list(found) == [("test_one", ("A", "B"))]
