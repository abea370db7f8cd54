"""The bytes of a rules file as a TOML document, or the one reason why they are none (003 NFR-04, F23)."""

import re
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from typing import Any

from agentlink.core.routing.defects import RuleDefect, config_invalid
from agentlink.core.routing.hints import FIELD_NAMES, VOCABULARY
from agentlink.core.routing.wording import brief, nearest

LARGEST = 4 * 1024 * 1024
"""Bytes of a rules file at most."""

_MOST_PARTS = 16
_PART = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+"
_LONG_KEY = re.compile(rf"(?m)(?:^|[{{,\[])[ \t]*+(?:{_PART}\.[ \t]*+){{{_MOST_PARTS}}}")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BARE_WORD = re.compile(r"[A-Za-z][\w-]*+(?=[ \t]*+(?:[,\]}#]|$))")
_LAST_KEY = re.compile(r"(\w+)[ \t]*=[^=]*$")
_YAML_KEY = re.compile(r"[ \t]*+([\w-]++)[ \t]*+:(?:[ \t]|$)")
_LONG_NUMBER = re.compile(r"[0-9_]{4000}")


def read_text(data: bytes, *, name: str) -> str:
    """The text, with or without byte order mark, its lines ended by LF. Raises Failure `routing_config_invalid`."""
    if len(data) > LARGEST:
        raise _invalid(name, 1, f"the file has {len(data)} bytes; at most {LARGEST} are read")
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or data[:2].count(0) == 1:
        raise _invalid(name, 1, "the file is UTF-16; save it as UTF-8", found="UTF-16", meant="UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        byte = f"byte 0x{data[exc.start]:02x}"
        raise _invalid(name, line, f"not UTF-8 ({byte}); save the file as UTF-8", found=byte, meant="UTF-8") from None
    return text.replace("\r\n", "\n")


def read_document(text: str, *, name: str) -> dict[str, Any]:
    """The TOML document. Raises Failure `routing_config_invalid` with the place of a syntax error."""
    if long_key := _LONG_KEY.search(text):
        # tomllib's work grows with the square of a key's parts: 32 kB of them take it 1.7 s, 4 MiB hours.
        raise _invalid(name, _line(text, long_key.end()), f"a key of more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        deepest = max(text.split("\n"), key=lambda line: line.count("[") + line.count("{"))
        raise _invalid(name, text.split("\n").index(deepest) + 1, "nested too deeply") from None
    except ValueError as exc:
        raise _syntax(str(exc), text, name=name) from None


def _syntax(said: str, text: str, *, name: str) -> Exception:
    """tomllib's words about the text, with the line that they are about."""
    place = _PLACE.search(said)
    if place is None:  # only a number of thousands of digits fails without a place
        number = _LONG_NUMBER.search(text)
        return _invalid(name, _line(text, number.start() if number else 0), "a number with too many digits")
    said = said[: place.start()]
    if place[1] is None:
        return _invalid(name, _line(text, len(text.rstrip())), f"{said}: the file ends too early")
    line = int(place[1])
    written = text.split("\n")[line - 1]
    column = int(place[2]) - 1
    if word := _BARE_WORD.match(written, column):
        meant, quote = _meant_value(written[:column], word[0])
        message = f"{said}: {brief(word[0])}; did you mean {quote}{meant}{quote}?"
        return _invalid(name, line, message, found=word[0], meant=meant)
    if word := _YAML_KEY.match(written):
        meant = nearest(word[1], FIELD_NAMES) or brief(word[1])
        return _invalid(name, line, f"{said}: {brief(written)}; write {meant} = …", found=word[1], meant=meant)
    return _invalid(name, line, f"{said}: {brief(written)}", found=written)


def _meant_value(before: str, word: str) -> tuple[str, str]:
    """What was probably meant by a word without quotes, and the quotes that it needs."""
    if word.lower() in ("true", "false"):
        return word.lower(), ""
    field = _LAST_KEY.search(before)
    valid = VOCABULARY.get(field[1], ()) if field else ()
    return nearest(word, valid) or brief(word), '"'


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _invalid(name: str, line: int, message: str, *, found: str = "", meant: str | None = None) -> Exception:
    defect = RuleDefect(file=name, line=line, found=brief(found), nearest=meant, message=message)
    return config_invalid([defect], count=1)
