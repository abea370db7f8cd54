"""What the documents say, held against the program: links, commands, options, codes, facts, tools, settings."""

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest

from agentlink.app import settings
from agentlink.cli import output
from agentlink.cli.main import COMMANDS, agentlink
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.base import fact_type
from agentlink.core.facts.record import FIRST_SUM, AnyFact, Line, encode_line
from agentlink.core.host.values import Preset
from agentlink.core.routing.hints import VOCABULARY, parse_hints
from agentlink.core.routing.router import route
from agentlink.core.routing.rules import Rules, decode_rules
from agentlink.mcp_server.tools import TOOLS
from tests.app import routing_acceptance

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").iterdir())
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def fences(page: Path, *languages: str) -> list[str]:
    found = FENCE.findall(page.read_text("utf-8"))
    return [
        "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))
        for indent, language, text in found
        if language in languages
    ]


def section(page: Path, heading: str) -> str:
    """The text below a heading, down to the next one."""
    text = page.read_text("utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}$\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page.name} has no section {heading!r}"
    return found[1]


def anchors(page: Path) -> set[str]:
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(page.read_text("utf-8"))
    }


@by_page
def test_every_link_and_image_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert linked.is_relative_to(ROOT), f"{page.name} links out of the repository: {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        targets = {
            (page.parent / target.partition("#")[0]).resolve()
            for page in new
            if page.suffix == ".md"
            for target in LINK.findall(page.read_text("utf-8"))
            if "://" not in target
        }
        new = {target for target in targets if target.is_file()} - reached
    assert {*PAGES, *EXAMPLES} <= reached


def shown_commands(page: Path) -> Iterator[list[str]]:
    for block in fences(page, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            words = [word.rstrip(";") for word in words]
            for start in [index for index, word in enumerate(words) if word == "agentlink"]:
                before = words[:start]
                if not all(re.fullmatch(r"\w+=.*|until|if|!|--", word) for word in before) and before[-1:] != ["--"]:
                    continue  # a word of another command, such as the name of an MCP server
                end = next((i for i in range(start, len(words)) if re.fullmatch(r"[<>|&].*", words[i])), len(words))
                yield words[start + 1 : end]


@by_page
def test_every_shown_command_parses(page: Path) -> None:
    for arguments in shown_commands(page):
        assert_parses(agentlink, "agentlink", arguments)


def assert_parses(command: click.Command, name: str, arguments: list[str]) -> None:
    """Parses as the program would, up to the point where the command would run."""
    if isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        child = command.get_command(click.Context(command), arguments[0])
        assert child is not None, f"{name} has no command {arguments[0]}"
        assert_parses(child, f"{name} {arguments[0]}", arguments[1:])
        return
    try:
        command.make_context(name, list(arguments))
    except click.exceptions.Exit:
        return  # --help or --version
    except click.ClickException as error:
        pytest.fail(f"{name} {shlex.join(arguments)}: {error.format_message()}")


@by_page
def test_every_named_test_exists(page: Path) -> None:
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text("utf-8")):
        defined = re.findall(r"^(?:async )?def (test_\w+)", (ROOT / file).read_text("utf-8"), re.MULTILINE)
        assert name in defined, f"{page.name} names {file}::{name}"


def test_the_promises_under_a_crash_name_the_tests_that_hold_them() -> None:
    text = (ROOT / "docs" / "explanation" / "what-survives-a-crash.md").read_text("utf-8")
    promises = re.split(r"^### ", text.partition("## The promises")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]
    assert promises
    assert [promise.splitlines()[0] for promise in promises if "`tests/" not in promise] == []


def test_the_commands_of_the_readme_are_found_by_these_tests() -> None:
    shown = [words[0] for words in shown_commands(ROOT / "README.md")]
    launch = {"login", "doctor", "delegate", "status", "list", "release", "serve"}
    assert set(shown) == launch | {"watch", "wait", "answer", "followup", "tail", "cancel"}


def leaf_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(agentlink)
    for name in COMMANDS:
        command = agentlink.get_command(context, name)  # type: ignore[attr-defined]
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", child) for inner, child in command.commands.items())
        else:
            yield name, command


LEAVES = dict(leaf_commands())


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_and_choice_is_in_the_reference(name: str) -> None:
    text = section(REFERENCE / "cli.md", f"agentlink {name}")
    for parameter in LEAVES[name].params:
        if not isinstance(parameter, click.Option):
            continue
        for option in parameter.opts:
            assert f"`{option}" in text, f"agentlink {name} {option}"
        if isinstance(parameter.type, click.Choice):
            assert all(f"`{choice}`" in text for choice in parameter.type.choices), f"agentlink {name} {parameter.opts}"


def test_every_exit_status_is_in_the_reference_and_the_readme() -> None:
    statuses = [value for name, value in vars(output).items() if name.startswith("EXIT_")]
    for text in (section(REFERENCE / "cli.md", "Output and exit statuses"), section(ROOT / "README.md", "Use")):
        assert all(re.search(rf"^\| ([\d, ]*, )?{status}\b", text, re.MULTILINE) for status in statuses)


def test_the_page_of_error_codes_is_current() -> None:
    made = runpy.run_path(str(REFERENCE / "make_error_codes.py"))["page"]()
    assert (REFERENCE / "error-codes.md").read_text("utf-8") == made, "run docs/reference/make_error_codes.py"


def test_the_page_of_routing_is_current() -> None:
    made = runpy.run_path(str(REFERENCE / "make_routing.py"))["page"]()
    assert (REFERENCE / "routing.md").read_text("utf-8") == made, "run docs/reference/make_routing.py"


def shown_rules(page: Path) -> list[Rules]:
    return [decode_rules(block.encode(), name=page.name) for block in fences(page, "toml") if "[[rule]]" in block]


@by_page
def test_every_shown_rules_file_is_valid(page: Path) -> None:
    assert all(rules.rules for rules in shown_rules(page))


RULES_BY_EXAMPLE = ROOT / "docs" / "how-to" / "write-routing-rules.md"
SHOWN = [
    (0, {"kind": "debugging"}, "implementation"),
    (0, {"kind": "review"}, None),
    (1, {"kind": "implementation", "scale": "large"}, "big-implementation"),
    (1, {"kind": "implementation"}, "implementation"),
    (2, {"kind": "review", "scale": "small"}, "review"),
    (2, {"kind": "research", "scale": "small"}, "reading"),
    (3, {"kind": "testing", "parallelism": "high"}, "parallel"),
    (3, {"parallelism": "high"}, "parallel"),
    (3, {"kind": "planning", "parallelism": "high"}, None),
    (4, {"optimizationIntent": "cost", "evidence": "review-required"}, "cheap"),
    (4, {"evidence": "review-required"}, "proven"),
    (5, {"kind": "review"}, "review"),
    (5, {}, "anything-else"),
]


@pytest.mark.parametrize(("example", "hints", "rule"), SHOWN)
def test_the_rules_by_example_choose_what_the_page_says(example: int, hints: dict[str, str], rule: str | None) -> None:
    rules = shown_rules(RULES_BY_EXAMPLE)[example]
    roster = [Preset(one.preset) for one in rules.rules]
    if rule is None:
        with pytest.raises(Failure) as caught:
            route(parse_hints(hints), rules, roster)
        assert caught.value.code is Code.NO_ELIGIBLE_ROUTE
    else:
        assert route(parse_hints(hints), rules, roster).rule == rule


def test_the_rules_by_example_are_six_and_the_catch_all_is_no_safety_net() -> None:
    *_, last = shown_rules(RULES_BY_EXAMPLE)
    assert len(shown_rules(RULES_BY_EXAMPLE)) == 6
    with pytest.raises(Failure) as caught:
        route(parse_hints({"kind": "review"}), last, [Preset("reviewer", broken="gone wrong"), Preset("minimal")])
    assert caught.value.code is Code.PRESET_BROKEN


def test_every_routing_argument_in_the_pages_holds_words_of_the_vocabulary() -> None:
    found = [
        hints
        for page in PAGES
        for block in fences(page, "json")
        if isinstance(shown := msgspec.json.decode(block), dict)
        if isinstance(hints := shown.get("routing", shown).get("hints"), dict)
    ]
    assert found
    assert all(value in VOCABULARY[field] for hints in found for field, value in hints.items())


def test_the_acceptance_page_shows_the_rules_and_the_ten_tasks_of_its_program() -> None:
    page = REFERENCE / "routing-acceptance.md"
    (shown,) = shown_rules(page)
    assert shown.rules == decode_rules(routing_acceptance.RULES.encode(), name="rules").rules
    rows = [line.split(" | ") for line in section(page, "The run").splitlines() if re.match(r"\| \d+ \|", line)]
    hints = [", ".join(f"{name} {value}" for name, value in given.items()) for _, given in routing_acceptance.TASKS]
    assert [row[2] for row in rows] == [said or "none" for said in hints]
    assert all("scripted model: no task work" in row for row in rows)


@pytest.mark.parametrize("fact", get_args(AnyFact), ids=fact_type)
def test_every_fact_and_each_of_its_fields_is_in_the_reference(fact: type[msgspec.Struct]) -> None:
    text = section(REFERENCE / "journal.md", f"`{fact_type(fact)}`")  # type: ignore[arg-type]
    rows = set(re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE))
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {field.encode_name for field in msgspec.structs.fields(fact)}
    for field in msgspec.structs.fields(fact):
        optional = re.search(rf"^\| `{field.encode_name}` \| [^|]*optional", text, re.MULTILINE) is not None
        assert optional is not field.required, field.name


def test_the_journal_check_in_the_reference_works(tmp_path: Path) -> None:
    (program,) = fences(REFERENCE / "journal.md", "python")
    journal, previous = tmp_path / "000001.jsonl", FIRST_SUM
    lines = []
    for number in (1, 2, 3):
        line, previous = encode_line(Line(1, number, "2026-01-01T00:00:00.000Z", None, 0, ()), previous)
        lines.append(line)

    def check() -> str:
        ended = subprocess.run([sys.executable, "-c", program, journal], capture_output=True, text=True, check=False)
        return (ended.stdout + ended.stderr).strip()

    journal.write_bytes(b"".join(lines))
    assert check() == "sound"
    journal.write_bytes(lines[0] + lines[2])
    assert check() == "line 2 is damaged"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_and_each_of_its_arguments_is_in_the_reference(tool: Any) -> None:
    text = section(REFERENCE / "mcp-tools.md", tool.name)
    arguments = {field.encode_name for field in msgspec.structs.fields(tool.arguments)}
    table = text.partition("| argument |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == arguments


def test_every_setting_is_in_the_reference() -> None:
    text = (REFERENCE / "settings.md").read_text("utf-8")
    variables = [value for name, value in vars(settings).items() if name.endswith("_VARIABLE")]
    keys = [field.name for field in msgspec.structs.fields(settings._HostTable)]
    assert all(f"| `{variable}` |" in text for variable in variables)
    assert all(f"| `hosts.{settings.HOST_LABEL}.{key}` |" in text for key in keys)


@by_page
def test_every_shown_document_can_be_read(page: Path) -> None:
    for block in fences(page, "json"):
        msgspec.json.decode(block)
    for block in fences(page, "toml"):
        tomllib.loads(block)


@pytest.mark.parametrize(
    "file", [*PAGES, *EXAMPLES, *sorted(REFERENCE.glob("*.py"))], ids=lambda file: str(file.relative_to(ROOT))
)
def test_nothing_tells_of_the_machine_it_was_written_on(file: Path) -> None:
    text = file.read_text("utf-8")
    shown = re.findall(r"(?<![\w.~…/:)}>$-])/[A-Za-z][\w.-]*/[\w./-]*", text)
    allowed = ("/path/to/", "/absolute/path/to/", "/dev/null", "/bin/sh")
    assert [path for path in shown if not path.startswith(allowed)] == []
    hosts = {re.split(r"[/:?]", url)[0] for url in re.findall(r"https?://([^\s)`\"'|]+)", text)}
    assert hosts <= {"127.0.0.1", "keepachangelog.com", "semver.org"}
