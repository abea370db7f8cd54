"""Scrubs credentials from text that comes from a Host or an exception, and bounds its length.

Every pattern starts only where a word starts and never goes back over what it took, so the work grows with the
text and not with its square: a Host may answer with a megabyte of anything.
"""

import re

_HIDDEN = "[redacted]"
_SECRET_NAME = (
    r"(?=[\w.-]*?(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|session[_-]?key"
    r"|authorization|credential|cookie))[\w.-]++"
)
# In this order: text in escaped quotes (JSON inside JSON), in quotes, a list, a bare word. An end that was cut off
# counts as the end. What is hidden already, with or without a cookie's name before it, stays as it is.
_SECRET_VALUE = (
    r"(?!(?:[^\s=;\"']+=)?\[redacted\])"
    r"(?:\\\"[^\"\\]*+(?:\\\"?|\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z)|\[[^\]]*+(?:\]|\Z)"
    r"|[^\s&|,;}\"']++)"
)
_COOKIE = re.compile(r"(?i)(?<![\w-])((?:set-)?cookie\s*+:\s*+)([^\s;|]++(?:\s*+;\s*+[^\s;|]++)*+)")
_COOKIE_VALUE = re.compile(r"([^\s;=]++=)?+[^\s;]++")
_PATTERNS = (
    (
        re.compile(r"-----BEGIN [A-Z0-9 ]*+-----.*?(?:-----END [A-Z0-9 ]*+-----|\Z)"),
        "[key]",
    ),
    (
        re.compile(
            r"(?i)(?<![\w-])((?:proxy-)?authorization\s*+[:=]\s*+)(?:digest\s[^|]*+|(?:[a-z]++\s++)?[^\s|,;\"']++)"
        ),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)(\s++)[A-Za-z0-9._~+/=-]++"), rf"\1\2{_HIDDEN}"),
    (re.compile(rf"(?is)(?<![\w.-])({_SECRET_NAME}\\?[\"']?\s*+[:=]\s*+){_SECRET_VALUE}"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*+://(?:[^/\s:@?#]*+:)?)[^/\s?#]+@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"(?i)(?<![\w-])(dsh-auth-[\w-]++=)[^;\s|\"']++"), rf"\1{_HIDDEN}"),
)


def redact(text: str, *, limit: int = 300) -> str:
    """One line without credentials, at most `limit` characters; the names of what was hidden stay readable."""
    text = " ".join(text.split())
    text = _COOKIE.sub(lambda header: header[1] + _COOKIE_VALUE.sub(_without_value, header[2]), text)
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _without_value(pair: re.Match[str]) -> str:
    return (pair[1] or "") + _HIDDEN
