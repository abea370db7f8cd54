from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.routing.locate import DEEPEST, Path, line_at, locate

TEXT = r"""# 1
version = 1  # 2
[[rule]]
"id" = "a # no comment"
match.kind = [
  "review",  # 6 ]

  # 8
  "testing", 'a]b',
]
[[ rule ]]  # 11
reason = QQQ
two = 13 \" \QQQ
lines = 14""QQQ
exclude = { scale = "large", 'kind' = ["review",
  "research"] }
[rule.match]
evidence = '''
''x'''
priority = -5
at = 1979-05-27 07:32:00
[other]
[other . "deep.er" . x]
""".replace("QQQ", '"' * 3)
LINES: dict[Path, int] = {
    ("version",): 2,
    ("rule",): 3,
    ("rule", 0): 3,
    ("rule", 0, "id"): 4,
    ("rule", 0, "match"): 5,
    ("rule", 0, "match", "kind"): 5,
    ("rule", 0, "match", "kind", 0): 6,
    ("rule", 0, "match", "kind", 1): 9,
    ("rule", 0, "match", "kind", 2): 9,
    ("rule", 1): 11,
    ("rule", 1, "reason"): 12,
    ("rule", 1, "exclude"): 15,
    ("rule", 1, "exclude", "scale"): 15,
    ("rule", 1, "exclude", "kind"): 15,
    ("rule", 1, "exclude", "kind", 0): 15,
    ("rule", 1, "exclude", "kind", 1): 16,
    ("rule", 1, "match"): 17,
    ("rule", 1, "match", "evidence"): 18,
    ("rule", 1, "match", "priority"): 20,
    ("rule", 1, "match", "at"): 21,
    ("other",): 22,
    ("other", "deep.er"): 23,
    ("other", "deep.er", "x"): 23,
}


def paths(value: object, path: Path = ()) -> set[Path]:
    """Every path of a parsed document."""
    inner = value.items() if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else ()
    return {(*path, key) for key, _ in inner}.union(*(paths(deeper, (*path, key)) for key, deeper in inner))


def test_every_key_and_every_list_entry_has_the_line_where_it_is_written() -> None:
    assert locate(TEXT) == LINES
    assert paths(tomllib.loads(TEXT)) == set(LINES)


def test_a_path_that_is_not_written_has_the_line_of_what_is_around_it() -> None:
    assert line_at(LINES, ("rule", 1, "preset")) == 11
    assert line_at(LINES, ("rule", 0, "match", "kind", 7)) == 5
    assert line_at(LINES, ("nothing", "of", "this")) == 1
    assert line_at(LINES, ()) == 1


@pytest.mark.parametrize("opened", ["[", '{ a.b = "}", "c" = ', "[ [], '', # ]\n"])
def test_any_depth_is_walked_without_recursion(opened: str) -> None:
    closed = "}" if opened.startswith("{") else "]"
    value = opened * 5_000 + "1" + closed * 5_000
    text = f"deep = {value}\nafter = 1\n"
    assert locate(text)["after",] == text.count("\n")


def test_a_long_key_is_cut_off() -> None:
    assert max(map(len, locate("a" + ".a" * 5_000 + " = 1"))) == DEEPEST


def test_a_text_that_is_not_valid_toml_is_refused() -> None:
    with pytest.raises(ValueError, match="not valid TOML"):
        locate('a = "no end')


KEYS = st.sampled_from(("a", "b-1", '"q # ="', "'l'", '"\\u0041 \\""'))
SPACE = st.sampled_from(("", " ", "\t"))
BREAK = st.sampled_from(("", " ", "\n", "  # ] } ' \"\n", "\n\n"))
SCALARS = st.sampled_from(
    ("1", "-1.5e3", "1979-05-27", "inf", '"s"', '"[\\"{#"', "'[\"{#'", '"""\n["]"""', '"""a"""""', "'''\n'']'''''")
)


@st.composite
def lists(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    entries = [draw(BREAK) + value + draw(BREAK) for value in draw(st.lists(values, max_size=3))]
    return "[" + ",".join(entries) + draw(st.sampled_from(("", "," if entries else ""))) + draw(BREAK) + "]"


@st.composite
def inline_tables(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(KEYS, max_size=3, unique=True))
    return "{" + ",".join(f"{draw(SPACE)}{name}{draw(SPACE)}={draw(SPACE)}{draw(values)} " for name in names) + "}"


VALUES = st.recursive(SCALARS, lambda deeper: lists(deeper) | inline_tables(deeper), max_leaves=6)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        key = draw(SPACE) + f"{draw(SPACE)}.{draw(SPACE)}".join(draw(st.lists(KEYS, min_size=1, max_size=3)))
        kind = draw(st.sampled_from(("pair", "pair", "table", "tables")))
        if kind == "pair":
            lines.append(f"{key} = {draw(VALUES)}")
        else:
            lines.append(f"[{key}]" if kind == "table" else f"[[{key}]]")
        lines.append(draw(st.sampled_from(("", "# x = [", " "))))
    return "\n".join(lines)


@given(documents())
def test_the_paths_of_any_document_are_those_that_tomllib_reads(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a key that was given twice
    assert set(locate(text)) == {path for path in paths(document) if len(path) <= DEEPEST}
