"""The live view in a terminal, where a person answers in place, and the same view as plain lines."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.runtime import Runtime
from agentlink.cli.output import run_with
from tests.app.supervised import asking, escalating, tool, with_child
from tests.cli.tasks import Tasks, running
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.host
ALLOW = "allow once? [y/N"


def terminal(tasks: Tasks, *words: str) -> Terminal:
    return Terminal(words, env=tasks.env)


def until_go() -> str:
    """The agent is busy until there is a file `go`."""
    return tool("bash", command="until [ -e go ]; do sleep 0.05; done", description="d")


def test_an_approval_is_answered_in_place_and_only_by_what_is_typed_after_it_was_shown(tasks: Tasks) -> None:
    place = tasks.place()
    task = tasks.new(f"{until_go()} {escalating()}", place=place)
    with terminal(tasks, "watch", task) as screen:
        screen.shows("running")
        assert not screen.echoes
        screen.types(b"y\ny\n")
        (place / "go").touch()
        screen.shows("echo x > /opt/f")
        screen.shows(ALLOW)
        assert screen.echoes
        screen.types(b"perhaps\n")
        screen.shows(ALLOW)
        screen.types(b"n\n")
        screen.shows("rejected")
        assert screen.ends() == 0
        assert screen.echoes
    assert "prompt-sent" in screen.text
    assert "agent     fin" in screen.text
    assert screen.text.count("allowed-once") == 0


def test_a_question_is_answered_in_place(tasks: Tasks) -> None:
    task = tasks.new(asking())
    with terminal(tasks, "watch", task) as screen:
        screen.shows("a number, or your own text:")
        screen.types(b"3\n")
        screen.shows("there are 1 to 2")
        screen.shows("a number")
        screen.types(b"later\n")
        screen.shows("numbers, or your own text:")
        screen.types(b"1, 3\n")
        screen.shows("your answer:")
        screen.types(b"-\n")
        assert screen.ends() == 0
    result = next(e for e in tasks("tail", task, "--json").json["events"] if e["kind"] == "tool_ended")
    assert msgspec.json.decode(result["text"])["answers"] == [
        {"id": "q1", "selected": [], "custom": "later"},
        {"id": "q2", "selected": ["A", "C"]},
        {"id": "q3", "selected": []},
    ]


def test_enter_leaves_it_pending_and_ctrl_c_leaves_the_task(tasks: Tasks) -> None:
    task = tasks.new(escalating())
    with terminal(tasks, "watch", task) as screen:
        screen.shows(ALLOW)
        screen.types(b"\n")
        screen.shows(f"agentlink approve {task}")
        screen.shows("waits for a person")
        screen.types(b"\x03")
        screen.shows("the task runs on")
        assert screen.ends() == 130
        assert screen.echoes
    with terminal(tasks, "watch", task) as screen:
        screen.shows(ALLOW)
        screen.types(b"\x03")  # while it is asked
        assert screen.ends() == 130
    request = tasks.at(task, "awaiting_approval")["pending"][0]["requestId"]
    with terminal(tasks, "watch", task) as screen:
        screen.shows(ALLOW)
        assert tasks("reject", task, request).status == 0
        screen.shows("answered elsewhere")
        assert screen.ends() == 0


def test_approve_and_answer_ask_on_a_terminal(tasks: Tasks) -> None:
    task, request = tasks.pending(escalating())
    for typed, status in ((b"\n", 1), (b"n\n", 1), (b"y\n", 0)):
        with terminal(tasks, "approve", task, request) as screen:
            screen.shows("echo x > /opt/f")
            screen.shows(ALLOW)
            screen.types(typed)
            assert screen.ends() == status
    task, request = tasks.pending(asking())
    with terminal(tasks, "answer", task, request) as screen:
        for asked, typed in (("text: ", b"1\n"), ("text: ", b"2\n"), ("your answer: ", b"own words\n")):
            screen.shows(asked)
            screen.types(typed)
        screen.shows("answered")
        assert screen.ends() == 0


def test_text_streams_and_the_finished_answer_stays(tasks: Tasks) -> None:
    place = tasks.place()
    task = tasks.new(f"{until_go()} [[slow: 1 one two three four five six seven eight]]", place=place)
    with terminal(tasks, "watch", task) as screen:
        screen.shows("running")
        (place / "go").touch()
        screen.shows("one two")
        assert "1 ended" not in screen.text
        assert screen.ends() == 0
    assert "agent     one two three four five six seven eight\n" in screen.text
    with terminal(tasks, "watch", task, "--plain") as screen:
        assert screen.ends() == 0
    assert b"\x1b" not in screen.raw
    assert "agent     one two three four five six seven eight\n" in screen.text


def plain(lines: Sequence[str]) -> list[str]:
    """The lines without their times."""
    return [line[10:] for line in lines]


def test_piped_it_is_one_plain_line_for_each_news(tasks: Tasks) -> None:
    prompt = tool("subagent", description="helper", prompt="[[say: from below]]") + " " + escalating()
    task = tasks.new(prompt)
    with running(["watch", task], env=tasks.env) as watcher:
        watcher.says("waits ")
        request = tasks.at(task, "awaiting_approval")["pending"][0]["requestId"]
        assert tasks("approve", task, request, "--yes").status == 0
        assert watcher.ends() == 0
    lines = plain(watcher.out)
    for words in ("launch    prompt-sent", "waits     approval", "approval  allowed-once", "end       turn completed"):
        assert any(words in line for line in lines), lines
    assert any(f"agentlink approve {task} {request}" in line for line in watcher.out)
    assert "\x1b" not in "".join(watcher.out)
    assert watcher.err == []


def test_a_watch_as_json_is_one_object_a_line(tasks: Tasks) -> None:
    place = tasks.place()
    task = tasks.new(f"{until_go()} {with_child('[[say: from below]]')}", place=place)
    with running(["watch", task, "--json"], env=tasks.env) as watcher:
        watcher.says('"running"')
        (place / "go").touch()
        assert watcher.ends() == 0
    news = [msgspec.json.decode(line) for line in watcher.out]
    assert [one["stage"] for one in news if one["news"] == "stage"][-1] == "prompt-sent"
    assert (news[-1]["news"], news[-1]["execution"]) == ("end", "turn_completed")
    below = [one["event"].get("text") for one in news if one["news"] == "event" and "session" in one["event"]]
    assert "from below" in below


def test_a_launch_that_another_process_drives_is_watched_stage_by_stage(tasks: Tasks) -> None:
    selected, go = threading.Event(), threading.Event()
    request = DelegateRequest(prompt="[[say: x]]", cwd=str(tasks.place()), preset="minimal")

    async def held(runtime: Runtime) -> None:
        create = runtime.host.create_session

        async def create_later(*words: Any, **more: Any) -> Any:
            selected.set()
            while not go.is_set():
                await anyio.sleep(0.02)
            return await create(*words, **more)

        runtime.host.create_session = create_later  # type: ignore[method-assign]
        await delegate(runtime, request)

    driver = threading.Thread(target=lambda: run_with(held, tasks.env))
    driver.start()
    try:
        assert selected.wait(15)
        (row,) = tasks("list", "--json").json["tasks"]
        with running(["watch", row["taskId"]], env=tasks.env) as watcher:
            watcher.says("launch    selected")
            go.set()
            assert watcher.ends() == 0
    finally:
        go.set()
        driver.join()
    stages = [line.split()[2] for line in watcher.out if " launch " in line]
    assert stages == ["requested", "selected", "session-created", "preset-verified", "claimed", "prompt-sent"]
    assert any("agent     x" in line for line in watcher.out)
