from __future__ import annotations

import re
from typing import Any

import httpx
import msgspec
import pytest

from agentlink.lab import LabBroken, LabModel

SESSION = {"x-deepseek-harness-session-id": "s1"}


def ask(model: LabModel, *texts: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    content = [{"type": "text", "text": text} for text in texts]
    body = {"messages": [{"role": "user", "content": content}], "tools": [{"name": "t"}], **more}
    return httpx.post(f"{model.url}/messages", json=body, headers=headers, trust_env=False, timeout=10)


def data(response: httpx.Response) -> list[dict[str, Any]]:
    lines = re.findall(r"^data: (\{.*)$", response.text, re.MULTILINE)
    return [msgspec.json.decode(line) for line in lines]


def text(response: httpx.Response) -> str:
    return "".join(frame["delta"].get("text", "") for frame in data(response) if "delta" in frame)


def stop_reason(response: httpx.Response) -> str:
    return str(next(f["delta"]["stop_reason"] for f in data(response) if f["type"] == "message_delta"))


def test_text_of_any_script_survives_the_pieces(model: LabModel) -> None:
    spoken = "naïve 世界 👩‍👩‍👧‍👦 " * 20
    response = ask(model, f"[[say: {spoken}]]")
    assert text(response) == spoken.strip()
    assert stop_reason(response) == "end_turn"


def test_a_tool_call_carries_its_arguments(model: LabModel) -> None:
    response = ask(model, '[[tool: bash {"command": "ls"}]]')
    assert '"partial_json":"{\\"command\\": \\"ls\\"}"' in response.text
    assert stop_reason(response) == "tool_use"


def test_max_tokens_is_the_stop_reason(model: LabModel) -> None:
    assert stop_reason(ask(model, "[[max-tokens]]")) == "max_tokens"


def test_an_error_has_its_status_and_the_retry_takes_the_next_step(model: LabModel) -> None:
    prompt = "[[error: 503]] [[say: recovered]]"
    assert ask(model, prompt, headers=SESSION).status_code == 503
    assert text(ask(model, prompt, headers=SESSION)) == "recovered"
    (seen,) = model.requests()
    assert (seen.runs, seen.calls) == (1, 2)


def test_titles_are_fixed_and_not_counted(model: LabModel) -> None:
    response = ask(model, '[{"text":"[[hang]]"}]', tools=[], system="Create a concise title for a session")
    assert text(response) == "Lab session"
    assert model.requests() == []


def test_two_sessions_with_one_prompt_are_two_runs(model: LabModel) -> None:
    ask(model, "same", headers=SESSION)
    ask(model, "same", headers={"x-deepseek-harness-session-id": "s2"})
    assert model.runs("same") == 2
    assert model.runs("other") == 0


def test_a_hanging_answer_never_ends(model: LabModel) -> None:
    body = {"messages": [{"role": "user", "content": "[[hang: start]]"}]}
    with httpx.stream("POST", f"{model.url}/messages", json=body, trust_env=False, timeout=10) as response:
        chunks = response.iter_text()
        received = ""
        while "event: ping" not in received:
            received += next(chunks)
    assert "start" in received
    assert "message_stop" not in received


def test_the_other_dialect_says_the_same(model: LabModel) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent"},
        {"role": "user", "content": '[[tool: bash {"command":"ls"}]][[say: ünïted]]'},
        {"role": "user", "content": "Current runtime context. Something."},
    ]
    url = f"{model.url}/chat/completions"
    called = httpx.post(url, json={"messages": messages}, trust_env=False)
    assert data(called)[1]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "bash"
    assert data(called)[-1]["choices"][0]["finish_reason"] == "tool_calls"
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": "file"},
    ]
    said = httpx.post(url, json={"messages": messages}, trust_env=False)
    assert "".join(f["choices"][0]["delta"].get("content", "") for f in data(said)) == "ünïted"
    assert said.text.endswith("data: [DONE]\n\n")


def test_a_body_that_is_no_request_is_refused(model: LabModel) -> None:
    assert httpx.post(f"{model.url}/messages", content=b"[1", trust_env=False).status_code == 400


def test_a_model_that_has_ended_is_reported(model: LabModel) -> None:
    model.close()
    with pytest.raises(LabBroken):
        model.requests()
