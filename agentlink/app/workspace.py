"""The one canonical spelling of a working directory, so that one folder is one claim (field case F19)."""

import os
from pathlib import Path

from agentlink.core.errors import Code, Failure

MAX_PATH_BYTES = 4096


def canonical_directory(text: str, *, root: Path | None = None) -> str:
    """The real, absolute path of an existing directory; `~` is expanded.

    A relative path is taken from `root`, which the caller declared; without one it is refused: neither this process's
    own directory nor the Host's is ever used silently. Raises Failure invalid_request or cwd_not_found.
    """
    if not text or "\0" in text:
        raise Failure(Code.INVALID_REQUEST, "cwd is empty or holds a NUL character", details={"argument": "cwd"})
    _refuse_unless_text(text)
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        raise Failure(Code.CWD_NOT_FOUND, f"no home directory is known for {text}", details={"cwd": text})
    if not os.path.isabs(expanded):
        if root is None:
            raise Failure(
                Code.INVALID_REQUEST,
                f"cwd must be an absolute path, got {text!r}",
                details={"argument": "cwd"},
            )
        expanded = os.path.join(root, expanded)
    try:
        real = os.path.realpath(expanded, strict=True)
        is_directory = os.path.isdir(real)
    except OSError as error:
        raise Failure(
            Code.CWD_NOT_FOUND, f"cwd {text!r} cannot be used: {error.strerror}", details={"cwd": text}
        ) from None
    if not is_directory:
        raise Failure(Code.CWD_NOT_FOUND, f"cwd {text!r} is not a directory", details={"cwd": text})
    spelled = spelling_on_disk(real)
    _refuse_unless_text(spelled)
    return spelled


def _refuse_unless_text(path: str) -> None:
    """The journal holds paths as text: one that is none, or longer than any system takes, is refused."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        reason = "cwd leads to a path that is not text in UTF-8"
        raise Failure(Code.INVALID_REQUEST, reason, details={"argument": "cwd"}) from None
    if size > MAX_PATH_BYTES:
        raise Failure(Code.INVALID_REQUEST, "cwd is longer than a path can be", details={"argument": "cwd"})


def spelling_on_disk(path: str) -> str:
    """The path as the disk spells it, where the file system takes several spellings for one name.

    Costs one look per component on a file system that tells letter case apart, and a listing of the parent on one
    that does not.
    """
    parts = Path(path).parts
    spelled = parts[0]
    for part in parts[1:]:
        spelled = os.path.join(spelled, _entry_name(spelled, part))
    return spelled


def _entry_name(parent: str, name: str) -> str:
    other = name.swapcase() if name.swapcase() != name else None
    here = os.path.join(parent, name)
    folds = other is not None and _same(here, os.path.join(parent, other))
    if not folds and name.isascii():
        return name
    try:
        entries = os.listdir(parent)
    except OSError:
        return name
    if name in entries:
        return name
    return next((entry for entry in entries if _same(here, os.path.join(parent, entry))), name)


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
