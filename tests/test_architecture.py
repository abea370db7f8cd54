"""Rules of `style.md` that a program can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlink.core.errors import NEXT, Code
from tests.requirements import requirement

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "agentlink"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 500
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
HOME_PATH = re.compile(r"(?<![\w.])(?:/home/\w|/Users/\w|/root\b|[A-Z]:\\\\Users)")


def named(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@requirement("FR-01", "FR-05", "NFR-02", "NFR-07", "SI-01")
def test_imports_keep_the_contracts() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_module_is_longer_than_500_lines() -> None:
    assert named([path for path in MODULES if len(path.read_text("utf-8").splitlines()) > LONGEST]) == []


def calls_print(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for node in ast.walk(tree)
    )


def test_only_the_command_line_prints() -> None:
    assert named([path for path in MODULES if "cli" not in path.parts and calls_print(path)]) == []


def test_no_file_names_the_home_of_a_person() -> None:
    texts = [*MODULES, *(ROOT / "tests" / "samples").rglob("*.*")]
    found = [path for path in texts if HOME_PATH.search(path.read_text("utf-8"))]
    assert named(found) == []


@pytest.mark.parametrize("code", list(Code))
def test_every_code_says_what_to_do_next_in_a_sentence(code: Code) -> None:
    assert NEXT[code].endswith(".")


def public_names(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, ast.get_docstring(node)


# What such a class means is said once, by the base or the union it belongs to; its fields say the rest.
SELF_EVIDENT = {"TurnStarted", "ToolCalled", "ToolEnded", "ApprovalAsked", "ApprovalDecided"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: path.stem)
def test_public_names_of_the_core_have_a_sentence(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree)
    assert [name for name, text in public_names(tree) if not text and name not in SELF_EVIDENT] == []


def test_tests_are_named_by_sentences() -> None:
    short = [
        f"{path.name}: {node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 4
    ]
    assert short == []
