"""Reading, locking and editing the rules files: what is not the changed rule keeps every byte.

tomlkit writes the rules. It does not place them: it takes the comment above a `[[rule]]` for the end of the rule
before, so that replacing a rule would lose its neighbour's comment. The lines of a rule come from the same walk that
names the lines of defects, and what was made is read again and compared before anybody may write it.
"""

import codecs
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomlkit

from agentlink.app.routes import MAX_BYTES
from agentlink.core.errors import Code, Failure
from agentlink.core.routing.defects import MOST_SHOWN, RuleDefect, config_invalid
from agentlink.core.routing.document import read_document, read_text
from agentlink.core.routing.hints import FIELDS
from agentlink.core.routing.locate import line_at, locate
from agentlink.core.routing.rules import VERSION, Condition, Rule, Rules, decode_rules, rules_of
from agentlink.core.routing.wording import brief, is_plain_line
from agentlink.files.private import ensure_private_dir, fsync_dir, read_private
from agentlink.journal.locks import LockHeld, acquire, make_lock

CANDIDATES = "routes.candidates.toml"
LOCK_TIMEOUT_S = 3.0


def skeleton() -> bytes:
    """A rules file without a rule, which explains the format; its examples begin with `#` and no space."""
    vocabulary = [f"#   {field.name}: {', '.join(field.values)}\n#     ({field.says})" for field in FIELDS]
    text = f"""\
# Agentlink's rules for automatic routing. Without a rule, automatic routing is not configured.
# Check this file with `agentlink route validate`, try it with `agentlink route explain`.

version = {VERSION}

# A rule has:
#   id         its own name: 1 to 64 of a-z 0-9 . _ - and a letter or digit first
#   preset     the id of a preset on the Host (`agentlink route presets`)
#   match      the hints it takes: {{ field = "value" }} or {{ field = ["value", "value"] }}; every field must fit,
#              and a field that the caller gave no hint for does not fit
#   exclude    optional, the same form: hints that it never takes
#   catch_all  true, in place of match: takes any task, below every rule that matches
#   priority   optional integer, default 0: decides between rules that name the kind equally closely and equally
#              many other fields; the greater wins, and equal ones are refused as ambiguous
#   reason     optional, one line of at most 120 characters
#   source     optional: builtin or user (default)
#
# The fields and their values; any other is an error:
{chr(10).join(vocabulary)}
#
# Examples, not active. Remove the # to use one.
#
#[[rule]]
#id = "large-implementation"
#preset = "standard"
#priority = 10
#reason = "full tool set"
#match = {{ kind = ["implementation", "debugging"], scale = "large" }}
#exclude = {{ evidence = "external-evidence" }}
#
#[[rule]]
#id = "anything-else"
#preset = "minimal"
#catch_all = true
"""
    return text.encode()


def rule_table(rule: Rule) -> dict[str, Any]:
    """The rule as its file says it; defaults are left out."""
    return {
        "id": rule.id,
        "preset": rule.preset,
        "priority": rule.priority,
        "reason": rule.reason,
        "match": _condition_table(rule.match),
        "exclude": _condition_table(rule.exclude),
        "catch_all": rule.catch_all,
    }


def _condition_table(conditions: tuple[Condition, ...]) -> dict[str, list[str]]:
    return {condition.field: list(condition.values) for condition in conditions}


def render_rule(table: Mapping[str, Any]) -> str:
    """One `[[rule]]` as TOML; an empty or zero value is left out."""
    written = tomlkit.table()
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            inline = tomlkit.inline_table()
            inline.update({field: given[0] if len(given) == 1 else given for field, given in value.items()})
            written.add(key, inline)
        elif value:
            written.add(key, value)
    rules = tomlkit.aot()
    rules.append(written)
    return tomlkit.dumps({"rule": rules})


def decode_candidates(data: bytes, *, name: str, next_step: str) -> tuple[Rule, ...]:
    """Proposed rules. Raises Failure routing_config_invalid, also for one that claims to come with Agentlink."""
    try:
        rules = decode_rules(data, name=name).rules
        _refuse_builtin(rules, data, name=name)
    except Failure as failure:
        raise Failure(failure.code, failure.message, details=failure.details, next_step=next_step) from None
    return rules


def _refuse_builtin(rules: tuple[Rule, ...], data: bytes, *, name: str) -> None:
    claimed = [position for position, rule in enumerate(rules) if rule.source != "user"]
    if not claimed:
        return
    lines = locate(read_text(data, name=name))
    defects = [
        RuleDefect(
            file=name,
            line=line_at(lines, ("rule", position, "source")),
            found="builtin",
            nearest="user",
            message='a proposed rule cannot have source = "builtin"; leave source out',
        )
        for position in claimed
    ]
    raise config_invalid(defects[:MOST_SHOWN], count=len(defects))


def merged(data: bytes | None, rules: Sequence[Rule], *, name: str) -> bytes:
    """The file with these rules in it: in the place of the rule with the same id, or at the end.

    A rule that is there already, in whatever words, is left as it is. Raises Failure when the file is not valid or
    would not be so afterwards.
    """
    held = () if data is None else decode_rules(data, name=name).rules
    place = {rule.id: position for position, rule in enumerate(held)}
    new = [rule for rule in rules if rule.id not in place]
    changed = {place[rule.id]: rule for rule in rules if rule.id in place and held[place[rule.id]] != rule}
    if data is not None and not new and not changed:
        return data
    blocks = {position: render_rule(rule_table(rule)) for position, rule in changed.items()}
    file = _Lines(data or b"", count=len(held), name=name)
    file.replace(blocks)
    if not held and not file.document:
        file.append(f"version = {VERSION}\n")
    for rule in new:
        file.append(render_rule(rule_table(rule)))
    expected = tuple(changed.get(position, rule) for position, rule in enumerate(held)) + tuple(new)
    return _checked(file.data(), expected, name=name)


def without(data: bytes, rule_id: str, *, name: str) -> bytes:
    """The file without this rule, which it holds. Raises Failure as `merged` does."""
    held = decode_rules(data, name=name).rules
    (position,) = (position for position, rule in enumerate(held) if rule.id == rule_id)
    file = _Lines(data, count=len(held), name=name)
    file.replace({position: ""})
    return _checked(file.data(), held[:position] + held[position + 1 :], name=name)


class _Lines:
    """The lines of a valid rules file whose rules are `[[rule]]` tables."""

    def __init__(self, data: bytes, *, count: int, name: str) -> None:
        text = read_text(data, name=name)
        self.document = read_document(text, name=name)
        self._mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        self._lines = data.decode("utf-8-sig").split("\n")
        self._end = "\r\n" if self._lines[0].endswith("\r") else "\n"
        places = locate(text)
        self._starts = [places["rule", position] - 1 for position in range(count)]
        if "rule" in self.document and not all(self._lines[start].lstrip().startswith("[[") for start in self._starts):
            raise _not_editable(name, line_at(places, ("rule",)))
        if "rule" in self.document and not count:
            raise _not_editable(name, line_at(places, ("rule",)))

    def replace(self, blocks: Mapping[int, str]) -> None:
        """Puts each block in the place of the rule at that position; an empty one removes it."""
        for position in sorted(blocks, reverse=True):
            start = self._starts[position]
            end = self._starts[position + 1] if position + 1 < len(self._starts) else len(self._lines)
            # What stands below the last value belongs to the next rule, or to the person who wrote it there.
            while self._lines[end - 1].lstrip()[:1] in ("", "#"):
                end -= 1
            at_the_end = [""] if end == len(self._lines) else []
            self._lines[start:end] = self._own(blocks[position]) + at_the_end

    def append(self, block: str) -> None:
        """Adds the block after everything else, with a blank line between."""
        if self._lines[-1]:
            self._lines[-1] += self._end.removesuffix("\n")
            self._lines.append("")
        before = [self._end.removesuffix("\n")] if len(self._lines) > 1 and self._lines[-2].strip() else []
        self._lines[-1:] = [*before, *self._own(block), ""]

    def _own(self, block: str) -> list[str]:
        return [line + self._end.removesuffix("\n") for line in block.split("\n")[:-1]]

    def data(self) -> bytes:
        return self._mark + "\n".join(self._lines).encode()


def _checked(data: bytes, expected: tuple[Rule, ...], *, name: str) -> bytes:
    if decode_rules(data, name=name).rules != expected:
        raise _not_editable(name, 1)
    return data


def _not_editable(name: str, line: int) -> Failure:
    return Failure(
        Code.INVALID_REQUEST,
        f"{name}:{line}: the rules are written in a form that cannot be edited without touching the rest",
        next_step="Write each rule as a [[rule]] table of its own, or make the change by hand.",
        details={"file": name, "line": line},
    )


def rules_in(data: bytes | None, *, name: str) -> Rules:
    """The rules in a file's bytes; none where there is no file. Raises Failure routing_config_invalid."""
    return rules_of((), name=name) if data is None else decode_rules(data, name=name)


def candidates_in(data: bytes | None) -> tuple[Rule, ...]:
    """The candidates that wait; none where there is no file. Raises Failure routing_config_invalid."""
    step = "Correct the named line, or drop the candidates with `agentlink route discard`."
    return () if data is None else decode_candidates(data, name=CANDIDATES, next_step=step)


def read_rules(path: Path) -> bytes | None:
    """One of our files, or None. Raises Failure routing_config_invalid where it cannot be read."""
    try:
        return read_private(path, limit=MAX_BYTES)
    except OSError as error:
        message = f"{path.name} cannot be read: {error}"
        raise Failure(Code.ROUTING_CONFIG_INVALID, message, details={"file": path.name}) from error


def files_digest(*files: bytes | None) -> str:
    """Stands for these bytes in this order; a missing file is not an empty one."""
    digest = hashlib.blake2b(digest_size=6)
    for data in files:
        digest.update(b"-" if data is None else b"%d:" % len(data) + data)
    return digest.hexdigest()


def in_words(rule: Rule) -> str:
    """What the rule takes, as a person would say it."""
    said = [f"{condition.field} {' or '.join(condition.values)}" for condition in rule.match]
    never = [f"not {condition.field} {' or '.join(condition.values)}" for condition in rule.exclude]
    return ", ".join([*(said or ["anything"]), *never])


def shown_lines(data: bytes | None) -> list[str]:
    """The lines as a terminal may show them: a comment can hold marks that would rewrite what is seen."""
    lines = (data or b"").decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
    return ["".join(c if c == "\t" or is_plain_line(c) else "\ufffd" for c in line) for line in lines] if data else []


def shown_path(path: Path) -> str:
    """A path as any terminal and JSON can show it; the shell passes names that are no text."""
    return brief(str(path), limit=400)


def read_given(path: Path) -> bytes:
    """A file that the person named. Raises Failure invalid_request where there is none to read."""
    try:
        data = read_private(path, limit=MAX_BYTES) if path.is_file() or not path.exists() else None
    except OSError as error:
        raise Failure(
            Code.INVALID_REQUEST,
            f"{shown_path(path)} cannot be read: {brief(str(error.strerror))}",
            details={"argument": "file"},
        ) from error
    if data is None:
        raise Failure(Code.INVALID_REQUEST, f"{shown_path(path)} is no file", details={"argument": "file"})
    return data


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Keeps other maintenance commands out. An editor takes no lock: what it saved before this is noticed."""
    path = home / "locks" / "routes.lock"
    with writing(path):
        ensure_private_dir(path.parent)
    lock = make_lock(path, timeout_s=LOCK_TIMEOUT_S)
    try:
        acquire(lock)
    except LockHeld as held:
        message = f"another command works on the rules; {path} is held for more than {LOCK_TIMEOUT_S:g} s"
        step = "Call again once that command has ended."
        raise Failure(Code.LOCK_TIMEOUT, message, details={"lock": str(path)}, next_step=step) from held
    try:
        yield
    finally:
        lock.release()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tells a person what kept the file from being written. Raises Failure invalid_request."""
    try:
        yield
    except OSError as error:
        step = "Free disk space, fix the permissions, or put a regular file there; then call again."
        raise Failure(Code.INVALID_REQUEST, f"{path} cannot be written: {error}", next_step=step) from error


def remove(path: Path) -> None:
    """Removes the file durably, if there is one."""
    with writing(path):
        path.unlink(missing_ok=True)
        fsync_dir(path.parent)
