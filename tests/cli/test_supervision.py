"""Following, answering and steering a task from the command line, on the real Host."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentlink.cli.main import run
from tests.app.supervised import asking, escalating, tool
from tests.cli.program import Finished
from tests.cli.tasks import Tasks, running

UNKNOWN = "dsh_0123456789ab"
NASTY = "\x1b[31mred\x1b]0;title\x07 [bold]b[/bold] \x9b2J \u202ertl\rback\b"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


# -- without a Host


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        *(
            ([*words, UNKNOWN, *rest], 1, "task_not_found")
            for words, rest in (
                (["tail"], []),
                (["tail", "--follow"], []),
                (["tail", "--event", "root:1"], []),
                (["wait"], []),
                (["watch"], []),
                (["followup"], ["x"]),
                (["answer"], ["call", "--answer", "q=a"]),
                (["approve", "--yes"], ["call"]),
                (["reject"], ["call"]),
                (["cancel"], []),
            )
        ),
        *((words, 1, "invalid_request") for words in (["tail", "x"], ["watch", "x"], ["cancel", "x"])),
        (["tail", UNKNOWN, "--event", "root:1", "--cursor", "c"], 2, "invalid_request"),
        (["tail", UNKNOWN, "--offset", "3"], 2, "invalid_request"),
        (["tail", UNKNOWN, "-f", "--max-bytes", "5000"], 2, "invalid_request"),
        (["tail", UNKNOWN, "--max-bytes", "5"], 1, "invalid_request"),
        (["wait"], 2, "invalid_request"),
        (["wait", UNKNOWN, UNKNOWN], 1, "invalid_request"),
        (["wait", UNKNOWN, "--timeout", "-1"], 2, "invalid_request"),
        (["wait", UNKNOWN, "--until", "never"], 2, "invalid_request"),
        (["followup", UNKNOWN], 2, "invalid_request"),
        (["followup", UNKNOWN, " "], 1, "invalid_request"),
        (["answer", UNKNOWN], 2, "invalid_request"),
        (["answer", UNKNOWN, "call", "--answer", "no label"], 2, "invalid_request"),
        (["answer", UNKNOWN, "call", "--text", "a=1", "--text", "a=2"], 2, "invalid_request"),
        (["answer", UNKNOWN, "call", "--text", "a=1", "--skip", "a"], 2, "invalid_request"),
        (["answer", UNKNOWN, "call", "--answers-json", "-", "--skip", "a"], 2, "invalid_request"),
        (["answer", UNKNOWN, "call", "--answers-json", "-"], 1, "invalid_request"),
        (["answer", UNKNOWN, "call", "--answers-json", "/no/such/file"], 1, "invalid_request"),
        (["approve", UNKNOWN, "call"], 2, "invalid_request"),
        (["cancel", UNKNOWN, "--scope", "odd"], 2, "invalid_request"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_refusal_is_one_json_document_and_the_status_tells_the_case(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    words: list[str],
    status: int,
    code: str,
) -> None:
    monkeypatch.setenv("AGENTLINK_HOME", str(home))
    monkeypatch.setenv("AGENTLINK_HOST_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[]")))
    done = Finished(run([*words, "--json"], serve=lambda: None), *capfdbinary.readouterr())
    assert (done.status, done.code) == (status, code)
    assert (done.out.count(b"\n"), done.err) == (1, b"")


def test_starting_a_command_of_supervision_does_not_import_the_tool_server(bare_env: dict[str, str]) -> None:
    program = (
        "import sys; from agentlink.cli.main import run; run(['watch', 'x'], serve=print); print('mcp' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], env=bare_env, capture_output=True, check=True)
    assert done.stdout == b"False\n"


# -- approvals and questions


@pytest.mark.host
def test_a_wait_names_the_commands_that_answer_and_they_work(tasks: Tasks) -> None:
    task = tasks.new(escalating())
    waited = tasks("wait", task)
    assert (waited.status, waited.out) == (3, b"")
    commands = [shlex.split(line) for line in waited.err.decode().splitlines() if line.startswith("  agentlink ")]
    assert [words[:3] for words in commands] == [["agentlink", name, task] for name in ("approve", "reject")]
    shown = tasks("status", task).out.decode()
    assert shlex.join(commands[0]) in shown
    assert "echo x > /opt/f" in waited.err.decode()  # what is allowed is shown
    approve, reject = (words[1:] for words in commands)
    assert tasks(*approve).status == 2  # nobody there who could be asked
    assert tasks.status(task)["execution"] == "awaiting_approval"
    rejected = tasks(*reject, "--json")
    assert (rejected.status, rejected.json["delivery"], rejected.json["outcome"]) == (0, "in_history", "rejected")
    late = tasks(*approve, "--yes", "--json")
    assert (late.status, late.code) == (1, "not_pending")
    done = tasks("wait", task)
    assert (done.status, done.out) == (0, b"fin\n")


@pytest.mark.host
def test_approving_with_yes_allows_the_call_once(tasks: Tasks) -> None:
    task, request = tasks.pending(escalating())
    approved = tasks("approve", task, request, "--yes")
    assert (approved.status, approved.out) == (0, f"{request}: allowed-once\n".encode())


@pytest.mark.host
def test_questions_are_answered_by_labels_own_text_and_skips(tasks: Tasks) -> None:
    task, request = tasks.pending(asking())
    unsaid = tasks("answer", task, request)
    assert (unsaid.status, unsaid.out) == (2, b"")
    assert all(word in unsaid.err for word in (b"q1", b"Which?", b"Yes", b"No", b"q3", b"Free?"))
    wrong = tasks("answer", task, request, "--answer", "q1=Maybe", "--skip", "q2", "--skip", "q3", "--json")
    assert (wrong.status, wrong.code) == (1, "bad_answer")
    assert tasks.status(task)["execution"] == "awaiting_input"
    words = ["--answer", "q1=Yes", "--answer", "q2=A", "--answer", "q2=C", "--text", "q2=also = this", "--skip", "q3"]
    assert tasks("answer", task, request, *words).status == 0
    assert tasks("wait", task).out == b"fin\n"
    (result,) = [event for event in story(tasks, task) if event["kind"] == "tool_ended"]
    assert msgspec.json.decode(result["text"])["answers"] == [
        {"id": "q1", "selected": ["Yes"]},
        {"id": "q2", "selected": ["A", "C"], "custom": "also = this"},
        {"id": "q3", "selected": []},
    ]


@pytest.mark.host
def test_answers_as_json_come_from_standard_input(tasks: Tasks) -> None:
    task, request = tasks.pending(asking())
    given = b'[{"id": "q3", "custom": "x"}, {"id": "q1", "selected": ["No"]}, {"id": "q2"}]'
    assert tasks("answer", task, request, "--answers-json", "-", "--json", given=given).json["delivery"] == "in_history"


# -- more and less to do


@pytest.mark.host
def test_followups_wait_park_and_go_as_the_commands_say(tasks: Tasks) -> None:
    task = tasks.new("[[slow: 30 a b c d]]")
    tasks.at(task, "running")
    assert tasks("followup", task, "next", "--request-key", "k", "--json").json["mode"] == "queue"
    again = tasks("followup", task, "next", "--request-key", "k")
    assert (again.status, b"sent before" in again.out) == (0, True)
    steered = tasks("followup", task, "-", "--steer", "--json", given=b"and this")
    assert (steered.status, steered.json["mode"]) == (0, "steer")
    shown = tasks("status", task).out.decode()
    assert re.search(r"queued +2 waiting", shown)
    assert f"followup-queue {task}.1.1" in shown
    assert re.search(rf"^{task}  prompt-sent  running ", tasks("list").out.decode(), re.MULTILINE)
    stale = tasks("followup", task, "x", "--since-cursor", "odd", "--json")
    assert (stale.status, stale.code) == (1, "cursor_invalid")
    stopped = tasks("cancel", task)
    assert b"turn stopped" in stopped.out
    assert b"parked" in stopped.err
    waited = tasks("wait", task)
    assert waited.status == 3
    assert b"--scope queue" in waited.err
    assert tasks("cancel", task, "--scope", "queue", "--json").json["queue"] == {"requested": 2, "removed": 2}
    again = tasks("cancel", task, "--scope", "all", "--json")
    assert (again.status, again.json["execution"], again.json.get("turnCanceled")) == (0, "canceled", None)


# -- the story


def story(tasks: Tasks, task: str, *words: str) -> list[dict[str, Any]]:
    return list(tasks("tail", task, "--json", *words).json["events"])


@pytest.mark.host
def test_a_story_is_the_same_whole_in_pieces_and_followed(tasks: Tasks) -> None:
    long = "word " * 700
    task = tasks.new(f"{tool('bash', command='echo out', description='d')} [[say: {long}]]")
    with running(["tail", task, "-f", "--json"], env=tasks.env) as follower:
        follower.says("turn_completed")
        tasks("followup", task, "[[say: more]]")
        tasks("wait", task)
        follower.says('"text":"more"')
        follower.says("turn_completed")
        assert follower.interrupt() == 130
    whole = story(tasks, task)
    lines = [msgspec.json.decode(line) for line in follower.out]
    assert [line for line in lines if "id" in line] == whole
    cursors = [line["cursor"] for line in lines if "cursor" in line]
    assert story(tasks, task, "--cursor", cursors[-1]) == []
    pieces: list[dict[str, Any]] = []
    reply = tasks("tail", task, "--json", "--max-bytes", "1500").json
    while True:
        pieces += reply["events"]
        if not reply.get("more"):
            break
        reply = tasks("tail", task, "--json", "--max-bytes", "1500", "--cursor", reply["cursor"]).json
    texts: dict[str, str] = {}
    for piece in pieces:
        texts[piece["id"]] = texts.get(piece["id"], "") + piece.get("text", "")
    assert texts == {event["id"]: event.get("text", "") for event in whole}
    answer = next(event for event in whole if event["kind"] == "answer")
    assert tasks("tail", task, "--event", answer["id"]).out.decode() == answer["text"] + "\n"
    assert (
        tasks("tail", task, "--event", answer["id"], "--offset", "3400", "--json").json["text"] == long[3400:].strip()
    )


@pytest.mark.host
def test_a_readable_story_tells_who_what_and_where_to_go_on(tasks: Tasks) -> None:
    task = tasks.new(f"{tool('bash', command='seq 500', description='d')} [[say: fin]]", preset="standard")
    tasks("wait", task)
    told = tasks("tail", task)
    lines = told.out.decode()
    for words in (
        "turn      1 started",
        "agentlink [[tool: bash",
        "tool      bash",
        "agent     fin",
        "1 ended: completed",
    ):
        assert words in lines
    (read_on,) = re.findall(r"characters: agentlink (tail \S+ --event \S+)\]", lines)
    assert tasks(*read_on.split()).out.split() == [str(n).encode() for n in range(1, 501)]
    cursor = told.err.decode().removeprefix("cursor: ").strip()
    assert tasks("tail", task, "--cursor", cursor).out == b""


# -- waiting


@pytest.mark.host
def test_a_wait_for_several_names_the_first_with_news(tasks: Tasks) -> None:
    slow, quick = tasks.new("[[slow: 30 a b]]", preset="minimal"), tasks.new("[[say: x]]", preset="minimal")
    waited = tasks("wait", slow, quick)
    assert (waited.status, waited.out) == (0, f"{quick} turn_completed\n".encode())
    assert f"{slow}: running".encode() in waited.err
    short = tasks("wait", slow, "--timeout", "0.1", "--json")
    assert (short.status, short.json["timedOut"], short.json["execution"]) == (3, True, "running")
    cursor = short.json["cursor"]
    with running(["wait", slow, "--until", "any", "--cursor", cursor, "--json"], env=tasks.env) as waiting:
        tasks("followup", slow, "y")
        assert waiting.ends() == 3
    assert msgspec.json.decode(waiting.out[0])["execution"] == "running"
    with running(["tail", slow, "-f"], env=tasks.env) as follower, running(["wait", slow], env=tasks.env) as waiting:
        follower.says("turn      1 started")
        waiting.says("running")
        assert (waiting.interrupt(), follower.interrupt()) == (130, 130)
    assert any(line.startswith("cursor: ") for line in follower.err)
    assert tasks.status(slow)["execution"] == "running"
    tasks("cancel", slow, "--scope", "all")


@pytest.mark.host
def test_a_launch_that_failed_is_told_by_every_view(tasks: Tasks) -> None:
    place = str(tasks.lab.host.workspace)
    task = tasks("delegate", "x", "--cwd", place, "--preset", "nobody", "--json").json["error"]["taskId"]
    for words in (["wait"], ["watch"], ["tail", "-f"]):
        done = tasks(*words, task)
        assert (done.status, b"preset_not_found" in done.out + done.err) == (3, True)


# -- foreign text


@pytest.mark.host
def test_nothing_that_an_agent_says_reaches_the_terminal_as_control(tasks: Tasks) -> None:
    question = {"id": f"q{NASTY}", "question": NASTY, "header": NASTY, "options": [{"label": NASTY}, {"label": "b"}]}
    task, request = tasks.pending(tool("ask_user_question", questions=[question]) + f" [[say: {NASTY}]]")
    seen = [tasks(*words) for words in (["wait", task], ["status", task], ["tail", task], ["answer", task, request])]
    given = msgspec.json.encode([{"id": question["id"], "selected": [NASTY]}])
    assert tasks("answer", task, request, "--answers-json", "-", given=given).status == 0
    seen += [tasks(*words) for words in (["wait", task], ["status", task], ["tail", task], ["watch", task])]
    for done in seen:
        text = (done.out + done.err).decode()
        assert "red" in text
        assert HARMFUL.search(text) is None
    assert all("[bold]b[/bold]" in done.out.decode() for done in seen[-4:])
    assert tasks("wait", task, "--json").json["finalMessage"] == NASTY


@pytest.mark.host
def test_a_terminal_gets_the_whole_final_message_and_a_tool_a_part(tasks: Tasks) -> None:
    long = "0123456789" * 4_000
    task = tasks.new(f"[[say: {long}]]", preset="minimal")
    assert tasks("wait", task).out.decode() == long + "\n"
    assert long in tasks("status", task).out.decode()
    status = tasks.status(task)
    assert len(status["finalMessage"]) < len(long) == status["finalMessageRest"]["size"]


# -- a Host that goes and comes


@pytest.mark.host
def test_views_go_on_through_a_restart_and_tell_the_interruption(tasks: Tasks) -> None:
    task = tasks.new("[[slow: 30 a b c d e]]")
    views = [["tail", task, "-f"], ["watch", task], ["wait", task]]
    with (
        running(views[0], env=tasks.env) as follower,
        running(views[1], env=tasks.env) as watcher,
        running(views[2], env=tasks.env) as waiter,
    ):
        follower.says("turn      1 started")
        watcher.says("task      running")
        tasks.lab.host.restart()
        assert (watcher.ends(), waiter.ends()) == (3, 3)
        follower.says("== interrupted ==")
        assert follower.interrupt() == 130
    for view in (follower, watcher):
        told = "\n".join((*view.out, *view.err))
        assert "is away" in told
        assert "is back" in told
        assert next(line for line in view.out if "1 ended" in line).endswith("interrupted")
    assert [line for line in follower.out if not line.startswith("--")] == [
        line for line in tasks("tail", task).out.decode().splitlines() if not line.startswith("--")
    ]
    assert "interrupted" in "\n".join(waiter.err)
