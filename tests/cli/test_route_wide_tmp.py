"""Looking after the rules: nothing is active before a person accepts it, and nothing else in the file changes."""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlink.app import route_candidates, route_maintenance
from agentlink.app.route_candidates import merged
from agentlink.app.routes import RoutesFile
from agentlink.cli.main import run
from agentlink.core.errors import Code, Failure
from agentlink.core.routing.hints import FIELDS
from agentlink.core.routing.rules import decode_rules
from agentlink.files.private import ensure_private_dir
from agentlink.journal.locks import make_lock
from tests.cli.program import PROGRAM, Finished, agentlink
from tests.requirements import requirement

Route = Callable[..., Finished]
NAME, CANDIDATES = "routes.toml", "routes.candidates.toml"

ACTIVE = """\
# mine, 测试
version = 1   # the format

# reviews go to the team
[[rule]]
id = "review"        # kept short
preset = "team"
match = { kind = [
  "review", # only this
] }

# everything else
[[rule]]
preset = 'minimal'
id = 'rest'
catch_all = true
# the end
"""


@pytest.fixture
def route(home: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Route:
    """Runs `route …` in this process, without a Host and without a terminal."""
    monkeypatch.setenv("AGENTLINK_HOME", str(home))
    monkeypatch.setenv("AGENTLINK_HOST_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"yes\n")))

    def call(*words: str) -> Finished:
        capfdbinary.readouterr()
        done = Finished(run(["route", *words], serve=lambda: None), *capfdbinary.readouterr())
        if "--json" in words:
            assert (done.out.count(b"\n"), done.err) == (1, b"")
        return done

    return call


pytestmark = pytest.mark.filterwarnings(
    # A process closes its sockets by ending.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture
def active(home: Path) -> Path:
    ensure_private_dir(home)
    (home / NAME).write_text(ACTIVE)
    return home / NAME


def proposed(route: Route, rule: str = "logs", *words: str, preset: str = "standard") -> None:
    words = words or ("--kind", "log-analysis")
    done = route("propose", "--id", rule, "--preset", preset, *words, "--json")
    assert done.status == 0, done.out


def accepted(route: Route) -> Finished:
    return route("apply", "--accept", route("diff", "--json").json["digest"], "--json")


# -- init, list, validate


@requirement("FR-09")
def test_init_writes_a_skeleton_without_a_rule(route: Route, home: Path) -> None:
    done = route("init", "--json")
    assert (done.status, done.json) == (0, {"file": str(home / NAME), "rules": 0})
    assert stat.S_IMODE((home / NAME).stat().st_mode) == 0o600
    assert route("validate", "--json").json["state"] == "missing"
    report = route("doctor", "--json")
    assert (report.status, report.json["routes"]["state"]) == (0, "missing")
    assert route("explain", "--kind", "review", "--json").code == "routing_not_configured"
    text = (home / NAME).read_text()
    assert all(value in text for field in FIELDS for value in (field.name, *field.values))


def test_the_examples_of_the_skeleton_are_valid_rules(route: Route, home: Path) -> None:
    route("init")
    text = re.sub(r"(?m)^#(?=\S)", "", (home / NAME).read_text())
    assert [rule.id for rule in decode_rules(text.encode(), name=NAME).rules] == [
        "large-implementation",
        "anything-else",
    ]


@pytest.mark.parametrize("content", [b"", b"# mine\n", ACTIVE.encode()])
def test_init_never_overwrites_a_file(route: Route, home: Path, content: bytes) -> None:
    ensure_private_dir(home)
    (home / NAME).write_bytes(content)
    done = route("init", "--json")
    assert (done.status, done.code) == (1, "invalid_request")
    assert (home / NAME).read_bytes() == content


def test_list_shows_rules_by_rank_with_words_for_what_they_match(route: Route, active: Path) -> None:
    rows = route("list", "--json").json["rules"]
    assert [(row["id"], row["preset"], row["match"], row["by"]) for row in rows] == [
        ("review", "team", "kind review", "kind_exact"),
        ("rest", "minimal", "anything", "catch_all"),
    ]
    assert (rows[0]["rank"], rows[0]["source"]) == ([3, 0, 0], "user")
    assert b"review -> team  for kind review  [exact kind, other fields 0, priority 0]  (user)" in route("list").out


def test_list_without_a_file_is_empty_and_with_a_defect_fails(route: Route, home: Path) -> None:
    assert route("list", "--json").json["rules"] == []
    assert b"not configured" in route("list").out
    ensure_private_dir(home)
    (home / NAME).write_text("version = 2\n")
    done = route("list", "--json")
    assert (done.status, done.code) == (1, "routing_config_invalid")


def test_validate_counts_or_tells_every_defect_with_its_line(route: Route, active: Path, tmp_path: Path) -> None:
    good = route("validate", "--json").json
    assert (good["state"], good["rules"], good["catchAll"], good["presets"]) == ("valid", 2, 1, 2)
    assert b"2 rules" in route("validate").out
    bad = tmp_path / "bad.toml"
    bad.write_text(ACTIVE.replace('"review", #', '"reviews", #').replace("'rest'", "'Rest'"))
    told = route("validate", str(bad))
    lines = told.out.decode().splitlines()
    assert (told.status, told.err, len(lines)) == (1, b"", 2)
    assert lines[0].startswith(f"{bad}:9: ")
    assert lines[1].startswith(f"{bad}:15: ")
    as_json = route("validate", str(bad), "--json")
    assert (as_json.status, as_json.code) == (1, "routing_config_invalid")
    assert [row["line"] for row in as_json.json["error"]["details"]["further"]] == [15]


@pytest.mark.parametrize("where", ["nowhere.toml", ".", os.fsdecode(b"caf\xe9.toml")])
def test_validate_of_what_is_no_file_is_refused(route: Route, tmp_path: Path, where: str) -> None:
    done = route("validate", str(tmp_path / where), "--json")
    assert (done.status, done.code) == (1, "invalid_request")


# -- propose


def test_propose_stores_a_candidate_and_a_second_of_the_same_id_replaces_it(route: Route, home: Path) -> None:
    words = ["--kind", "implementation, debugging", "--kind", "testing", "--scale", "large", "--priority", "-3"]
    words += ["--exclude-optimization-intent", "cost", "--exclude-kind", "research", "--reason", 'full "tools" ✓']
    first = route("propose", "--id", "big", "--preset", "standard", *words, "--json").json
    assert (first["proposed"], first.get("replaced"), first["waiting"]) == (["big"], None, 1)
    (rule,) = decode_rules((home / CANDIDATES).read_bytes(), name=CANDIDATES).rules
    assert {one.field: one.values for one in rule.match} == {
        "kind": ("implementation", "debugging", "testing"),
        "scale": ("large",),
    }
    assert {one.field: one.values for one in rule.exclude} == {"kind": ("research",), "optimizationIntent": ("cost",)}
    assert (rule.priority, rule.reason) == (-3, 'full "tools" ✓')
    second = route("propose", "--id", "big", "--preset", "team", "--catch-all", "--json").json
    assert (second["replaced"], second["waiting"]) == (["big"], 1)
    (rule,) = decode_rules((home / CANDIDATES).read_bytes(), name=CANDIDATES).rules
    assert (rule.preset, rule.catch_all, rule.match) == ("team", True, ())
    assert stat.S_IMODE((home / CANDIDATES).stat().st_mode) == 0o600
    assert not (home / NAME).exists()


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["--id", "a", "--preset", "p", "--kind", "reviews"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p", "--kind", "review,"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p", "--kind", "review,review"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p", "--kind", "review", "--catch-all"], 1, "routing_config_invalid"),
        (["--id", "A b", "--preset", "p", "--catch-all"], 1, "routing_config_invalid"),
        (["--id", "", "--preset", "p", "--catch-all"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", " ", "--catch-all"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p\nq", "--catch-all"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p", "--catch-all", "--reason", "x" * 121], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p", "--catch-all", "--reason", "token=sk-abcdefghijklmnop1234"], 1, None),
        (["--id", "a", "--preset", "p", "--catch-all", "--priority", "9999999"], 1, "routing_config_invalid"),
        (["--id", "a", "--preset", "p", "--catch-all", "--reason", os.fsdecode(b"caf\xe9")], 1, None),
        (["--id", "a", "--preset", "p", "--catch-all", "--priority", "x"], 2, "invalid_request"),
        (["--id", "a"], 2, "invalid_request"),
        (["--preset", "p"], 2, "invalid_request"),
        ([], 2, "invalid_request"),
        (["--from", "f", "--id", "a"], 2, "invalid_request"),
        (["--from", "f", "--kind", "review"], 2, "invalid_request"),
        (["--from", "/no/such/file"], 1, "invalid_request"),
    ],
)
def test_propose_refuses_what_is_no_rule_and_writes_nothing(
    route: Route, home: Path, words: list[str], status: int, code: str | None
) -> None:
    done = route("propose", *words, "--json")
    assert done.status == status
    assert done.code == code or (code is None and done.code in ("routing_config_invalid", "invalid_request"))
    assert b"proposal" not in done.out
    assert not (home / CANDIDATES).exists()


@requirement("FR-11", "SI-06")
def test_propose_from_a_file_takes_over_rules_and_nothing_else(route: Route, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "foreign.toml"
    file.write_text(ACTIVE)
    assert route("propose", "--from", str(file), "--json").json["proposed"] == ["review", "rest"]
    assert "mine" not in (home / CANDIDATES).read_text()


@pytest.mark.parametrize(
    "text",
    [
        "version = 1\n",
        ACTIVE.replace("catch_all", "hook = 'rm -rf /'\ncatch_all"),
        ACTIVE + 'source = "builtin"\n',
        ACTIVE.replace("'rest'", "'review'"),
        "[[rule]\n",
        "\x00",
    ],
)
def test_propose_from_a_file_with_a_defect_stores_none_of_it(
    route: Route, home: Path, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "foreign.toml"
    file.write_text(text)
    done = route("propose", "--from", str(file), "--json")
    assert done.status == 1
    assert done.code == ("invalid_request" if text == "version = 1\n" else "routing_config_invalid")
    assert not (home / CANDIDATES).exists()


def test_a_damaged_candidates_file_is_named_and_never_written_over(route: Route, active: Path) -> None:
    file = active.with_name(CANDIDATES)
    file.write_text("version = 1\n[[rule]]\nid = 'x'\n")
    for words in (["propose", "--id", "a", "--preset", "p", "--catch-all"], ["diff"], ["apply", "--accept", "0" * 12]):
        done = route(*words, "--json")
        assert (done.status, done.code) == (1, "routing_config_invalid")
        assert done.json["error"]["details"]["file"] == CANDIDATES
    report = route("doctor", "--json")
    assert (report.status, report.json["candidates"]["state"], report.json["candidates"]["line"]) == (1, "invalid", 2)
    assert (file.read_text(), active.read_text()) == ("version = 1\n[[rule]]\nid = 'x'\n", ACTIVE)
    assert route("discard", "--json").status == 0
    assert not file.exists()


# -- candidates are no rules


@requirement("FR-04", "FR-09")
async def test_candidates_never_influence_what_a_delegation_reads(route: Route, home: Path) -> None:
    proposed(route, "anything", "--catch-all")
    with pytest.raises(Failure) as caught:
        await RoutesFile(home / NAME).read()
    assert caught.value.code is Code.ROUTING_NOT_CONFIGURED


def test_a_candidate_is_not_listed_and_explains_nothing(route: Route, active: Path) -> None:
    proposed(route)
    proposed(route, "review", "--kind", "review", preset="standard")
    assert {row["id"]: row["preset"] for row in route("list", "--json").json["rules"]} == {
        "review": "team",
        "rest": "minimal",
    }
    chosen = route("explain", "--kind", "log-analysis", "--json").json["explanation"]["choice"]
    assert (chosen["rule"], chosen["preset"]) == ("rest", "minimal")


# -- diff and apply


@requirement("FR-11")
def test_diff_shows_the_change_and_a_digest_and_writes_nothing(route: Route, active: Path) -> None:
    assert "digest" not in route("diff", "--json").json
    assert b"no candidate waits" in route("diff").out
    proposed(route)
    proposed(route, "rest", "--catch-all", preset="standard")
    plan = route("diff", "--json").json
    assert (plan["added"], plan["replaced"], "unchanged" in plan) == (["logs"], ["rest"], False)
    assert re.fullmatch("[0-9a-f]{12}", plan["digest"])
    assert "-preset = 'minimal'" in plan["diff"]
    assert '+match = {kind = "log-analysis"}' in plan["diff"]
    assert "not read" in plan["warnings"][0]
    assert f"--accept {plan['digest']}".encode() in route("diff").out
    assert active.read_text() == ACTIVE


def test_apply_replaces_in_place_and_appends_and_keeps_all_else_byte_for_byte(route: Route, active: Path) -> None:
    proposed(route, "review", "--kind", "review,testing", preset="standard")
    proposed(route)
    done = accepted(route)
    assert (done.status, done.json["changed"], done.json["added"], done.json["replaced"]) == (
        0,
        True,
        ["logs"],
        ["review"],
    )
    before, _, after = ACTIVE.partition('[[rule]]\nid = "review"')
    _, middle, after = after.partition("\n\n# everything else")
    assert active.read_text() == (
        before
        + '[[rule]]\nid = "review"\npreset = "standard"\nmatch = {kind = ["review", "testing"]}'
        + middle
        + after
        + '\n[[rule]]\nid = "logs"\npreset = "standard"\nmatch = {kind = "log-analysis"}\n'
    )
    assert stat.S_IMODE(active.stat().st_mode) == 0o600
    assert not active.with_name(CANDIDATES).exists()
    assert [row["id"] for row in route("list", "--json").json["rules"]] == ["logs", "review", "rest"]


def test_apply_without_an_active_file_makes_one(route: Route, home: Path) -> None:
    proposed(route)
    assert accepted(route).status == 0
    assert (home / NAME).read_text() == (
        'version = 1\n\n[[rule]]\nid = "logs"\npreset = "standard"\nmatch = {kind = "log-analysis"}\n'
    )


def test_apply_to_the_skeleton_keeps_its_comments(route: Route, home: Path) -> None:
    route("init")
    skeleton = (home / NAME).read_text()
    proposed(route)
    assert accepted(route).status == 0
    assert (home / NAME).read_text().startswith(skeleton)


def test_applying_the_same_rules_again_changes_no_byte(route: Route, active: Path) -> None:
    proposed(route)
    accepted(route)
    once = active.read_bytes()
    proposed(route)
    again = accepted(route)
    assert (again.status, again.json["changed"], again.json["unchanged"]) == (0, False, ["logs"])
    assert active.read_bytes() == once
    assert not active.with_name(CANDIDATES).exists()


def test_apply_with_nothing_waiting_is_refused(route: Route, active: Path) -> None:
    proposed(route)
    digest = route("diff", "--json").json["digest"]
    assert route("apply", "--accept", digest, "--json").status == 0
    once = active.read_bytes()
    done = route("apply", "--accept", digest, "--json")
    assert (done.status, done.code) == (1, "invalid_request")
    assert active.read_bytes() == once


@pytest.mark.parametrize("digest", ["0" * 12, "", "yes"])
def test_a_wrong_digest_writes_nothing_and_does_not_tell_the_right_one(route: Route, active: Path, digest: str) -> None:
    proposed(route)
    right = route("diff", "--json").json["digest"]
    for wrong in (digest, right.upper() + " ", right[:11]):
        done = route("apply", "--accept", wrong, "--json")
        assert (done.status, done.code, done.json["error"]["details"]) == (1, "invalid_request", {"argument": "accept"})
        assert right not in done.out.decode().replace(wrong, "")
    assert active.read_text() == ACTIVE
    assert active.with_name(CANDIDATES).exists()


@pytest.mark.parametrize("changed", [NAME, CANDIDATES])
@requirement("FR-11", "NFR-04")
def test_a_change_between_diff_and_apply_is_noticed_and_nothing_is_written(
    route: Route, active: Path, changed: str
) -> None:
    proposed(route)
    digest = route("diff", "--json").json["digest"]
    file = active.with_name(changed)
    file.write_text(file.read_text() + "# somebody else\n")
    now = active.read_bytes()
    done = route("apply", "--accept", digest, "--json")
    assert (done.status, done.code) == (1, "invalid_request")
    assert "changed" in done.json["error"]["message"]
    assert active.read_bytes() == now


def test_an_active_file_that_is_gone_since_the_diff_is_a_change(route: Route, active: Path) -> None:
    proposed(route)
    digest = route("diff", "--json").json["digest"]
    active.write_bytes(b"")
    assert route("diff", "--json").json["digest"] != digest
    active.unlink()
    assert route("apply", "--accept", digest, "--json").code == "invalid_request"
    assert not active.exists()


def test_an_invalid_active_file_is_not_repaired_by_apply(route: Route, active: Path) -> None:
    proposed(route)
    text = ACTIVE.replace("version = 1", "version = 2")
    active.write_text(text)
    for words in (["diff"], ["apply", "--accept", "0" * 12]):
        assert route(*words, "--json").code == "routing_config_invalid"
    assert active.read_text() == text
    assert route("doctor", "--json").status == 1


def test_rules_in_one_list_are_not_edited_but_named(route: Route, active: Path) -> None:
    text = "version = 1\nrule = [ { id = 'a', preset = 'p', catch_all = true } ]\n"
    active.write_text(text)
    proposed(route)
    done = route("diff", "--json")
    assert (done.status, done.code, done.json["error"]["details"]["line"]) == (1, "invalid_request", 2)
    assert active.read_text() == text


def test_without_a_terminal_apply_asks_for_a_digest(route: Route, active: Path) -> None:
    proposed(route)
    for words in (["apply"], ["apply", "--json"], ["apply", "--yes"]):
        assert route(*words).status == 2
    assert active.read_text() == ACTIVE


@pytest.mark.parametrize(("answer", "status"), [(b"yes\n", 0), (b"y\n", 1), (b"\n", 1)])
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_at_a_terminal_apply_shows_the_diff_and_only_yes_writes(
    route: Route, bare_env: dict[str, str], active: Path, answer: bytes, status: int
) -> None:
    proposed(route)
    ours, theirs = os.openpty()
    try:
        os.write(ours, answer)
        env = bare_env | {"AGENTLINK_HOST_URL": "http://127.0.0.1:9"}
        words = [*PROGRAM, "route", "apply"]
        done = subprocess.run(
            words, env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, timeout=30, check=False
        )
        shown = os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == status, shown
    assert b'+id = "logs"' in shown
    assert (active.read_text() != ACTIVE) == (status == 0)
    assert active.with_name(CANDIDATES).exists() == (status != 0)


@requirement("NFR-04")
def test_while_another_command_holds_the_lock_nothing_is_written(
    route: Route, active: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed(route)
    digest = route("diff", "--json").json["digest"]
    monkeypatch.setattr(route_candidates, "LOCK_TIMEOUT_S", 0.02)
    with make_lock(active.parent / "locks" / "routes.lock", timeout_s=1):
        done = route("apply", "--accept", digest, "--json")
    assert (done.status, done.code) == (1, "lock_timeout")
    assert active.read_text() == ACTIVE


def test_a_crash_after_the_write_leaves_candidates_that_change_nothing(
    route: Route, active: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed(route)
    digest = route("diff", "--json").json["digest"]

    def crashing(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crash:
        crash.setattr(route_maintenance, "remove", crashing)
        assert route("apply", "--accept", digest).status == 130
    written = active.read_bytes()
    assert written != ACTIVE.encode()
    assert accepted(route).json["changed"] is False
    assert active.read_bytes() == written


def test_a_symbolic_link_is_not_replaced(route: Route, active: Path, tmp_path: Path) -> None:
    proposed(route)
    elsewhere = tmp_path / "elsewhere.toml"
    active.rename(elsewhere)
    active.symlink_to(elsewhere)
    done = accepted(route)
    assert (done.status, done.code) == (1, "invalid_request")
    assert active.is_symlink()
    assert elsewhere.read_text() == ACTIVE


def test_marks_that_rewrite_a_terminal_are_not_shown_by_diff(route: Route, active: Path) -> None:
    active.write_text(ACTIVE + "# a\u202eb\tc\n")
    proposed(route)
    assert "# a\ufffdb\tc" in route("diff", "--json").json["diff"]


# -- discard, doctor, presets


def test_discard_removes_one_candidate_or_all(route: Route, active: Path) -> None:
    for rule in ("one", "two", "three"):
        proposed(route, rule)
    assert route("discard", "two", "--json").json == {"discarded": ["two"]}
    unknown = route("discard", "thre", "--json")
    assert (unknown.status, unknown.code, unknown.json["error"]["details"]["nearest"]) == (
        1,
        "invalid_request",
        "three",
    )
    assert route("diff", "--json").json["added"] == ["one", "three"]
    assert route("discard", "--json").json == {"discarded": ["one", "three"]}
    assert route("discard", "--json").json == {"discarded": []}
    proposed(route)
    assert route("discard", "logs").status == 0
    assert not active.with_name(CANDIDATES).exists()
    assert active.read_text() == ACTIVE


@requirement("FR-11", "AC-10")
def test_doctor_tells_of_rules_and_candidates_and_changes_nothing(route: Route, active: Path) -> None:
    proposed(route)
    files = {path: path.read_bytes() for path in active.parent.glob("*.toml")}
    report = route("doctor", "--json")
    assert (report.status, report.json["routes"]) == (0, {"state": "valid", "rules": 2})
    assert report.json["candidates"] == {"state": "waiting", "waiting": 1}
    assert report.json["roster"].startswith("not read")
    assert b"1 wait" in route("doctor").out
    assert {path: path.read_bytes() for path in active.parent.glob("*.toml")} == files


def test_reading_commands_make_no_home(route: Route, home: Path) -> None:
    for words in (["list"], ["validate"], ["diff"], ["doctor"]):
        assert route(*words).status == 0
    assert not home.exists()


def test_presets_without_a_host_fail(route: Route) -> None:
    done = route("presets", "--json")
    assert (done.status, done.code) == (1, "host_unreachable")


@pytest.mark.host
@requirement("FR-03", "FR-11")
def test_presets_and_warnings_come_from_the_live_roster(host_env: dict[str, str], home: Path) -> None:
    shown = agentlink("route", "presets", "--json", env=host_env)
    rows = {row["id"]: row for row in shown.json["presets"]}
    assert (rows["minimal"]["trust"], rows["minimal"]["hasDocument"]) == ("not reported", "not reported")
    assert rows["broken-one"]["broken"]
    assert b"not reported" in agentlink("route", "presets", env=host_env).out
    for rule, preset in (("a", "minimal"), ("b", "broken-one"), ("c", "nobody")):
        agentlink("route", "propose", "--id", rule, "--preset", preset, "--catch-all", env=host_env)
    plan = agentlink("route", "diff", "--json", env=host_env)
    assert [re.sub(r"rule (\w): .* is (\w+) .*", r"\1 \2", text) for text in plan.json["warnings"]] == [
        "b broken",
        "c absent",
    ]
    assert agentlink("route", "apply", "--accept", plan.json["digest"], env=host_env).status == 0
    report = agentlink("route", "doctor", "--json", env=host_env).json
    assert (report["routes"]["absent"], report["routes"]["broken"]) == (["nobody"], ["broken-one"])


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_last_rule_of_a_file_without_a_last_newline_can_be_replaced(route: Route, active: Path, end: bytes) -> None:
    text = b'version = 1\n[[rule]]\nid = "rest"\npreset = "p"\ncatch_all = true'
    active.write_bytes(text.replace(b"\n", end))
    proposed(route, "rest", "--catch-all", preset="q")
    assert accepted(route).status == 0
    assert active.read_bytes() == text.replace(b'"p"', b'"q"').replace(b"\n", end) + end


# -- any file


NAMES = ("a", "b", "c", "d")
VALUES = [(field.name, value) for field in FIELDS for value in field.values]


@st.composite
def rule_texts(draw: st.DrawFn, name: str) -> str:
    """One rule in one of the ways that TOML has."""
    field, value = draw(st.sampled_from(VALUES))
    style = draw(st.sampled_from(["inline", "list", "below", "dotted", "all"]))
    head = f'[[rule]] # {name}\nid = "{name}"\npreset = "p"\n'
    return {
        "inline": f'{head}match = {{ {field} = "{value}" }}\n',
        "list": f"{head}match.{field} = [\n  # why\n  '{value}',\n  ]\n",
        "below": f'{head}\n# within\n[rule.match]\n{field} = "{value}" # hm\n',
        "dotted": f'{head}match.{field} = "{value}"\nreason = """\\\n   odd"""\n',
        "all": f"{head}catch_all = true\n",
    }[style]


@st.composite
def files(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[list[str], str]:
    """The parts of a file: what stands around the rules at even places, rules between; and its line ends."""
    around = st.sampled_from(["", "\n", "\n\n", "# note ü\n", "\n# above [[rule]]\n# id = 'x'\n\n", "  # indented\n"])
    parts = [draw(st.sampled_from(["", "\ufeff"])) + "version = 1\n" + draw(around)]
    for name in names:
        parts += [draw(rule_texts(name)), draw(around)]
    return parts, draw(st.sampled_from(["\n", "\r\n"]))


@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    held=st.lists(st.sampled_from(NAMES), unique=True).map(tuple),
    new=st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(tuple),
    cut=st.booleans(),
)
def test_any_candidates_are_in_the_file_afterwards_and_every_foreign_byte_too(
    data: st.DataObject, held: tuple[str, ...], new: tuple[str, ...], cut: bool
) -> None:
    parts, end = data.draw(files(held))
    text = "".join(parts)
    before = (text.removesuffix("\n") if cut else text).replace("\n", end).encode()
    wanted = "version = 1\n" + "".join(data.draw(rule_texts(name)) for name in new)
    rules = decode_rules(wanted.encode(), name="wanted").rules
    after = merged(before, rules, name=NAME)
    found = {rule.id: rule for rule in decode_rules(after, name=NAME).rules}
    assert [found[rule.id] for rule in rules] == list(rules)
    assert list(found) == [*held, *(name for name in new if name not in held)]
    assert merged(after, rules, name=NAME) == after
    changed = {rule.id for rule in decode_rules(before, name=NAME).rules if found[rule.id] != rule}
    foreign = [part for n, part in enumerate(parts) if n % 2 == 0 or held[n // 2] not in changed]
    at, made = 0, after.decode()
    for part in foreign:
        part = part.replace("\n", end)
        if cut:
            part = part.rstrip("\r\n")
        at = made.index(part, at) + len(part)
    assert made.count("\r\n") == (made.count("\n") if end == "\r\n" else 0) or before.count(b"\n") == 0


@settings(max_examples=5, deadline=None)
@given(data=st.data(), held=st.lists(st.sampled_from(NAMES), unique=True).map(tuple))
def test_applying_then_listing_contains_the_candidate(data: st.DataObject, held: tuple[str, ...]) -> None:
    parts, end = data.draw(files(held))
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / NAME).write_bytes("".join(parts).replace("\n", end).encode())
        route_maintenance.propose_rule(home, {"id": "new", "preset": "q", "match": {"kind": ["review"]}})
        digest = route_maintenance._plan(home)[0].digest
        assert digest is not None
        route_maintenance.apply_candidates(home, accept=digest)
        listed = {row.id: row.preset for row in route_maintenance.active_rules(home).rules}
    assert listed == dict.fromkeys(held, "p") | {"new": "q"}
