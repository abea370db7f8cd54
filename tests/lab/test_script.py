from __future__ import annotations

import pytest

from agentlink.lab.script import (
    CallTool,
    Conversation,
    CutOff,
    Fail,
    Hang,
    Message,
    Say,
    Slow,
    Step,
    Turn,
    asks_for_title,
    current_turn,
    default_reply,
    next_step,
    parse_script,
)

NOTE = "Current runtime context. This snapshot supersedes earlier ones."


@pytest.mark.parametrize(
    ("written", "step"),
    [
        ("[[say: grüße, 世界 🎉]]", Say("grüße, 世界 🎉")),
        ("[[say: two\nlines]]", Say("two\nlines")),
        ('[[tool: bash {"command": "echo [[1]]"}]]', CallTool("bash", '{"command": "echo [[1]]"}')),
        ("[[tool: list_agents]]", CallTool("list_agents", "{}")),
        ("[[slow: 1.5 a b c]]", Slow("a b c", 1.5)),
        ("[[error: 429]]", Fail(429)),
        ("[[error]]", Fail(500)),
        ("[[hang]]", Hang("")),
        ("[[hang: thinking]]", Hang("thinking")),
        ("[[max-tokens: half a]]", CutOff("half a")),
    ],
)
def test_each_step_is_read_as_written(written: str, step: Step) -> None:
    assert parse_script(f"please {written}").steps == (step,)
    assert parse_script(f"please {written}").rest == "please"


@pytest.mark.parametrize(
    "written", ["[[say: open", "[[slow: soon]]", "[[error: bad]]", "[[tool: {}]]", "[[tool: bash {oops}]]"]
)
def test_a_step_that_cannot_be_read_says_why(written: str) -> None:
    (step,) = parse_script(written).steps
    assert isinstance(step, Say)
    assert step.text.startswith("lab script:")


@pytest.mark.parametrize("plain", ["see [[wiki]] and a[[0]]", "[[saying]]", "[[", ""])
def test_other_brackets_are_plain_text(plain: str) -> None:
    assert parse_script(plain).steps == ()
    assert parse_script(plain).rest == plain


def test_steps_follow_each_other_and_end_in_the_default_reply() -> None:
    turn = Turn(prompt="Fix it [[say: one]] [[say: two]]\nmore")
    replies = [next_step(Turn(prompt=turn.prompt, answers=n), failures=0) for n in range(4)]
    assert replies == [Say("one"), Say("two"), Say("Done: Fix it"), Say("Done: Fix it")]


def test_a_last_error_repeats_and_an_earlier_one_gives_way() -> None:
    assert next_step(Turn(prompt="[[error: 503]]"), failures=4) == Fail(503)
    assert next_step(Turn(prompt="[[error: 503]] [[say: better]]"), failures=1) == Say("better")
    assert next_step(Turn(prompt="[[tool: t {}]] [[error: 400]]", answers=1), failures=2) == Fail(400)


def test_the_default_reply_is_bounded() -> None:
    assert len(default_reply("long " * 1000)) < 250
    assert default_reply("  \n ") == "Done."


def test_the_prompt_is_found_under_the_notes_of_the_host() -> None:
    turn = current_turn(Conversation(messages=(Message("user", ("do it", NOTE)),)))
    assert turn == Turn(prompt="do it", at=(0, 0), answers=0)


def test_texts_that_the_session_log_calls_notes_are_no_prompts() -> None:
    messages = (Message("user", ("do it", "a skill list")),)
    assert current_turn(Conversation(messages, notes=frozenset({"a skill list"}))).prompt == "do it"


def test_tool_results_continue_the_turn() -> None:
    messages = (
        Message("user", ("[[tool: a {}]][[say: end]]", NOTE)),
        Message("assistant", calls_tool=True),
        Message("user", has_result=True),
    )
    assert current_turn(Conversation(messages)).answers == 1
    steered = (*messages, Message("user", ("also this",)))
    assert current_turn(Conversation(steered)).prompt == "[[tool: a {}]][[say: end]]"
    taken_over = (*messages, Message("user", ("[[say: other]]",)))
    assert current_turn(Conversation(taken_over)) == Turn("[[say: other]]", (3, 0), 0)


def test_the_prompt_after_an_abandoned_one_counts() -> None:
    messages = (Message("user", ("[[hang]]", NOTE, "go on", NOTE)),)
    assert current_turn(Conversation(messages)).prompt == "go on"


def test_a_new_turn_forgets_the_script_of_the_one_before() -> None:
    messages = (Message("user", ("[[say: a]]",)), Message("assistant", ("a",)), Message("user", ("second",)))
    assert current_turn(Conversation(messages)) == Turn("second", (2, 0), 0)


def test_a_turn_begun_by_the_host_has_its_note_as_prompt() -> None:
    messages = (Message("user", ("[[say: a]]",)), Message("assistant", ("a",)), Message("user", ("settled",)))
    turn = current_turn(Conversation(messages, notes=frozenset({"settled"})))
    assert turn == Turn("settled", (2, 0), 0)


def test_a_title_request_is_one_without_tools_about_a_title() -> None:
    assert asks_for_title(Conversation((), system="Create a concise title for a session"))
    assert not asks_for_title(Conversation((), system="Create a concise title", has_tools=True))
    assert not asks_for_title(Conversation((), system="You are a coding agent"))
