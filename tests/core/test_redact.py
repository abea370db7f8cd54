from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.redact import redact

PEM = "-----BEGIN RSA PRIVATE KEY-----\nS8S8S8\nS8==\n-----END RSA PRIVATE KEY-----"
F20 = (
    ("Authorization: Basic S0S0", "Authorization"),
    ("Bearer S1S1", "Bearer"),
    ("GET /?csrf-token=S2S2&webhook-secret=S3S3 failed", "csrf-token webhook-secret failed"),
    ('{"a":{"accessToken":"S4S4","client_secret":"S5S5"}}', "accessToken client_secret"),
    ("https://u:S6S6@example.test/", "https://u: example.test"),
    ("Cookie: dsh-auth-x=S7S7", "Cookie dsh-auth-x"),
    (f"key {PEM} end", "key end"),
    ("Authorization: Basic S9S9|Cookie: sid=SaSa", "Authorization Cookie sid"),
    ("X-Api-Key: SbSb | Proxy-Authorization: Bearer ScSc", "X-Api-Key Proxy-Authorization"),
    ("dsh web: http://127.0.0.1:3080/?token=SdSd", "token 127.0.0.1:3080"),
)
VALUES = [c * 2 for c in ("S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "Sa", "Sb", "Sc", "Sd")]


@pytest.mark.parametrize(("text", "names"), F20)
def test_f20_no_value_survives_and_the_names_stay_readable(text: str, names: str) -> None:
    shown = redact(text)
    assert not [value for value in VALUES if value in shown]
    assert not [name for name in names.split() if name not in shown]


def test_f20_no_value_survives_in_a_traceback_that_holds_all_of_them() -> None:
    text = "Traceback (most recent call last):\n" + "\n".join(f"  {line}" for line, _ in F20)
    shown = redact(text, limit=5_000)
    assert not [value for value in VALUES if value in shown]
    assert "\n" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "Cookie: a=S0S0; b=S0S0;c=S0S0",
        "Set-Cookie: a=S0S0; Path=/; HttpOnly",
        "cookie: S0S0",
        '"cookie":"a=S0S0; b=S0S0"',
        '{\\"accessToken\\":\\"S0S0\\"}',
        '{"password":"a\\"S0S0"}',
        "{'password': 'S0S0 S0S0'}",
        '"refresh_tokens":["S0S0","S0S0"]',
        "https://S0S0@host/",
        "https://u:a@S0S0@host/",
        'Authorization: Digest username="S0S0", response="S0S0"',
        "error: token=S0S0",
        "next=x&token=S0S0",
        '"token":"S0S0 cut off here S0S0',
        "-----BEGIN OPENSSH PRIVATE KEY----- S0S0",
        "api_key = S0S0",
        "PASSPHRASE=S0S0",
        "dsh-auth-1a2b=v1.S0S0",
        "AUTHORIZATION=S0S0",
        "access-key: S0S0, private_key: S0S0",
    ],
)
def test_other_spellings_of_a_credential_are_hidden_too(text: str) -> None:
    assert "S0S0" not in redact(text)


@pytest.mark.parametrize(
    "text",
    ["Unknown agent preset: builder", "missing (@deepseek-ai/x): never started", "http://127.0.0.1:3080/a@b", "a = b"],
)
def test_text_without_a_credential_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


PIECES = st.sampled_from(
    (
        *("token", "=", ":", " ", '"', "'", "\\", "Cookie", ";", "|", "https://", "u", "@", "/", "Bearer", "[", "]"),
        *("{", "}", "Authorization", "Digest", "dsh-auth-x", "[redacted]", "-----BEGIN KEY-----", ",", "\n", "?"),
        *("-----END KEY-----", "S0", "&", "(", ".", "-", "…"),
    )
)
MESSY = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=60)


@given(MESSY, st.integers(1, 80))
def test_the_result_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    shown = redact(text, limit=limit)
    assert len(shown) <= limit
    assert shown.splitlines() in ([], [shown])


@given(MESSY)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.from_regex(r"[A-Za-z0-9]{8,20}", fullmatch=True), st.sampled_from(F20[:6]))
def test_no_value_survives_whatever_it_is(value: str, sample: tuple[str, str]) -> None:
    text = sample[0]
    for known in VALUES:
        text = text.replace(known, value)
    assert value not in redact(text)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "unit", ["a", "a.", "token", "token =", "cookie: ", "a://", "a://b:", "bearer ", "-----BEGIN ", '"', '\\"', "a@"]
)
def test_a_long_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    assert len(redact(unit * (500_000 // len(unit)))) <= 300
