from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.errors import NEXT, Code, Failure, envelope
from agentlink.core.ids import TaskId, is_request_key, make_task_id, prompt_request_id, task_id


@given(st.binary(min_size=6, max_size=16))
def test_a_made_id_is_a_task_id(entropy: bytes) -> None:
    made = make_task_id(entropy)
    assert task_id(made) == made


@pytest.mark.parametrize("text", ["", "dsh_", "dsh_0123456789AB", "dsh_0123456789ab\n", "xdsh_0123456789ab", "../x"])
def test_anything_else_is_no_task_id(text: str) -> None:
    assert task_id(text) is None


def test_a_request_id_names_task_attempt_and_number() -> None:
    assert prompt_request_id(TaskId("dsh_0123456789ab"), attempt=2, number=0) == "dsh_0123456789ab.2.0"


@pytest.mark.parametrize(
    ("text", "ok"),
    [("a", True), ("A-z.0_9:x", True), ("x" * 128, True)]
    + [(bad, False) for bad in ("", "x" * 129, "a b", "ü", "a\n", "a/b")],
)
def test_a_request_key_has_one_form(text: str, ok: bool) -> None:
    assert is_request_key(text) == ok


@pytest.mark.parametrize("code", list(Code))
def test_every_code_says_what_to_do_next(code: Code) -> None:
    assert NEXT[code].strip()
    assert Failure(code, "m").next_step == NEXT[code]


def test_an_envelope_always_says_whether_a_prompt_was_sent_and_leaves_out_what_is_not_known() -> None:
    unknown = Failure(Code.DELIVERY_UNKNOWN, "m", prompt_sent=None)
    assert msgspec.to_builtins(envelope(unknown)) == {
        "error": {
            "code": "delivery_unknown",
            "message": "m",
            "promptSent": None,
            "next": NEXT[Code.DELIVERY_UNKNOWN],
        }
    }


def test_a_failure_told_from_a_place_keeps_its_code_text_and_next_step() -> None:
    first = Failure(Code.HOST_ERROR, "m", next_step="do this", details={"a": 1})
    told = first.located(stage="claimed", task="t", session="s", prompt_sent=None)
    body = envelope(told).error
    assert (body.code, body.message, body.next, body.details) == ("host_error", "m", "do this", {"a": 1})
    assert (body.stage, body.task_id, body.session_id, body.prompt_sent) == ("claimed", "t", "s", None)
