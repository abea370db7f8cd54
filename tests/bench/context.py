"""What the benchmarks of one run share: a place on the disk, one real Host, and journals that are made once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from platformdirs import user_cache_path

from agentlink.lab import Lab, lab
from tests.bench.synthetic import Written, write_journal

_OURS = ("AGENTLINK_", "DSH_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "PYTHON")


class Context:
    """Use it as a context manager: everything it made is gone at the end."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self._stack = ExitStack()
        self._journals: dict[int, Written] = {}
        self._lab: Lab | None = None
        self._homes = 0

    def __enter__(self) -> Context:
        # Beside the lab, not in the system's temporary directory: that may be in memory, where a flush costs nothing.
        parent = user_cache_path("agentlink", ensure_exists=True)
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=parent)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Some hundred sessions are many files: the lab's remover may need longer than the lab waits, and goes on alone.
        with suppress(subprocess.TimeoutExpired):
            self._stack.close()

    @property
    def many(self) -> int:
        """The tasks of a large journal: 10⁵, or few for a quick run."""
        return 500 if self.quick else 100_000

    def count(self, full: int, quick: int) -> int:
        """How often something is measured."""
        return quick if self.quick else full

    def lab(self) -> Lab:
        """The real Host, started when the first benchmark asks for it."""
        if self._lab is None:
            self.tell("starting a Host")
            self._lab = self._stack.enter_context(lab())
        return self._lab

    def new_home(self) -> Path:
        """A path for a home that does not exist yet."""
        self._homes += 1
        return self.root / f"home-{self._homes}"

    def home_with(self, tasks: int, *, held: bool = False) -> Path:
        """A home of its own whose journal holds this many tasks; `held`: none has given its claim back."""
        home = self.new_home()
        if held:
            write_journal(home, tasks, held=True)
        elif tasks:
            shutil.copytree(self.journal(tasks).home / "journal", home / "journal")
        return home

    def journal(self, tasks: int) -> Written:
        """A journal of this many finished tasks, to be read only."""
        if tasks not in self._journals:
            self._journals[tasks] = write_journal(self.new_home(), tasks)
        return self._journals[tasks]

    def environment(self, home: Path, *, host: bool = False) -> dict[str, str]:
        """The environment of a process with this home and nothing of the person's own settings."""
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(_OURS)}
        kept["AGENTLINK_HOME"] = str(home)
        if host:
            kept["AGENTLINK_HOST_URL"] = self.lab().host.launch_url
        return kept

    def tell(self, what: str) -> None:
        """Progress, for whoever waits."""
        print(f"… {what}", file=sys.stderr, flush=True)
