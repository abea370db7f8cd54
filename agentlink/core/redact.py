"""Scrubs credentials from text that comes from a Host or an exception, and bounds its length."""

import re

_SECRET_WORD = (
    r"[\w.-]*(?:token|secret|password|passwd|api[_-]?key|apikey|authorization|credential|cookie|session[_-]?key)"
    r"[\w.-]*"
)
_PATTERNS = (
    (
        re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.S),
        "[key]",
    ),
    (re.compile(r"(?i)\b((?:set-)?cookie\s*:\s*[^=\s|]+=)[^;|\s\"']+"), r"\1[redacted]"),
    (re.compile(r"(?i)\b((?:proxy-)?authorization\s*[:=]\s*(?:[a-z]+\s+)?)[^\s|,;\"']+"), r"\1[redacted]"),
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]+"), r"\1\2[redacted]"),
    (
        re.compile(rf"(?i)([\"']?{_SECRET_WORD}[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s&|,;}}\"']+)"),
        r"\1[redacted]",
    ),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^@/\s]+@"), r"\1[redacted]@"),
    (re.compile(r"(?i)\b(dsh-auth-[\w-]+=)[^;\s|\"']+"), r"\1[redacted]"),
)


def redact(text: str, *, limit: int = 300) -> str:
    """One line without credentials, at most `limit` characters; the names of what was hidden stay readable."""
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
