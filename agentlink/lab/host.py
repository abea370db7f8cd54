"""A disposable real DSH Host: its own home and port, a scripted model, and nothing left at the end.

For Linux and macOS: the supervision of its processes needs pipes, groups and signals.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from platformdirs import user_cache_path

from agentlink.lab.errors import LabBroken, LabNotInstalled
from agentlink.lab.model import LabModel
from agentlink.lab.presets import DEFAULT_PRESETS, Preset, write_presets
from agentlink.lab.process import RemovedAtEnd, Supervised

Progress = Callable[[str], None]

_READY_S = 30.0
_STOPPING_S = 10.0
_LOOK_S = 0.02
_TELL_S = 0.4
_ADDRESS = re.compile(r"^dsh web: (?P<url>(?P<origin>http://[^/\s]+:(?P<port>\d+))\S*)\r?\n", re.MULTILINE)
# An allow-list: whatever key or proxy a person has set, under any name, stays out of the Host.
_INHERITED = re.compile(r"PATH|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|LD_LIBRARY_PATH|DYLD_\w+|NIX_LD\w*")


@dataclass(frozen=True)
class Places:
    """Where a lab Host keeps what; all of it below one directory."""

    root: Path

    @property
    def home(self) -> Path:
        """Its `DSH_HOME`."""
        return self.root / "home"

    @property
    def workspace(self) -> Path:
        """Its working directory, the default `cwd` of sessions."""
        return self.root / "workspace"

    @property
    def user(self) -> Path:
        """Its `HOME`, so that it neither reads nor writes the person's own."""
        return self.root / "user"

    @property
    def temporary(self) -> Path:
        """Its `TMPDIR`: the Host unpacks files there that it never removes itself.

        The sandbox shows it to tools read-only, so a tool's own `mktemp` fails in a lab.
        """
        return self.root / "tmp"

    @property
    def logs(self) -> Path:
        """Its standard output and error, one pair per start."""
        return self.root / "logs"


def host_environment(places: Places, *, inherited: Mapping[str, str], model_url: str) -> dict[str, str]:
    """The Host's whole environment: a few neutral variables of ours, and its own."""
    kept = {name: value for name, value in inherited.items() if _INHERITED.fullmatch(name)}
    return kept | {
        "HOME": str(places.user),
        "TMPDIR": str(places.temporary),
        "DSH_HOME": str(places.home),
        "DSH_TELEMETRY_MODE": "DISABLED",
        "DEEPSEEK_BASE_URL": model_url,
        "DEEPSEEK_API_KEY": "lab",
    }


def find_runtime() -> str:
    """The `dsh` command beside this Python, else on the PATH."""
    beside = Path(sys.executable).with_name("dsh")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("dsh")
    if found is None:
        raise LabNotInstalled(missing="the DSH Host (command dsh)")
    return found


class LabHost:
    """A running Host; `origin`, `launch_url` and `pid` are those of its latest start."""

    def __init__(self, places: Places, command: Sequence[str], *, env: Mapping[str, str], holds: Sequence[int]) -> None:
        self._places = places
        self._command = tuple(command)
        self._env = env
        self._holds = tuple(holds)
        self._starts = 0
        self._process: Supervised | None = None
        self.port = 0
        self.origin = ""
        self.launch_url = ""

    @classmethod
    def start(
        cls,
        root: Path,
        *,
        model: LabModel,
        on_progress: Progress | None = None,
        port: int = 0,
        runtime: str | None = None,
        patch: str | None = None,
        flags: Sequence[str] = ("--no-open",),
        presets: Sequence[Preset] = DEFAULT_PRESETS,
        holds: Sequence[int] = (),
    ) -> LabHost:
        """Start a Host whose files are all below `root`, and return when it has said its address.

        `runtime` is another `dsh` command, `patch` the text of an extra profile patch, `flags` go to its
        web app, `holds` are descriptors kept open until its last process is gone. Presets are written
        only into a home that has none; Hosts before 0.2.1 do not start with them, so give those `()`.
        """
        places = Places(root.resolve())
        command = [runtime or find_runtime(), "web"]
        for directory in (places.home, places.workspace, places.user, places.temporary, places.logs):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (places.home / "profiles").exists():
            write_presets(places.home, presets)
        if patch is not None:
            file = places.root / "extra.patch.yml"
            file.write_text(patch, encoding="utf-8")
            command += ["--patch", str(file)]  # a flag of the launcher: it must come before the app's own
        env = host_environment(places, inherited=os.environ, model_url=model.url)
        host = cls(places, [*command, *flags], env=env, holds=holds)
        host._launch(port, on_progress)
        return host

    @property
    def home(self) -> Path:
        """Its `DSH_HOME`."""
        return self._places.home

    @property
    def workspace(self) -> Path:
        """Its working directory, the default `cwd` of sessions."""
        return self._places.workspace

    @property
    def pid(self) -> int:
        """The Host's own process."""
        return self._running.pid

    def kill(self) -> None:
        """SIGKILL the Host and wait until nothing of it is left."""
        self._running.signal(signal.SIGKILL)
        self._end(timeout_s=_STOPPING_S)

    def terminate(self) -> None:
        """SIGTERM the Host and wait until nothing of it is left; after ten seconds it is killed."""
        self._running.signal(signal.SIGTERM)
        self._running.signal(signal.SIGCONT)
        self._end(timeout_s=_STOPPING_S)

    def restart(self, *, on_progress: Progress | None = None) -> None:
        """Start it again on the same port and home; a running one is terminated first."""
        if self._process is not None:
            self.terminate()
        self._launch(self.port, on_progress)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._running.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._running.signal(signal.SIGCONT)

    def close(self) -> None:
        """End it at once, if it still runs."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def __enter__(self) -> LabHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _running(self) -> Supervised:
        if self._process is None:
            raise LabBroken(what="the Host is not running", tail="")
        return self._process

    def _end(self, *, timeout_s: float) -> None:
        self._running.wait(timeout_s=timeout_s)
        self.close()

    def _launch(self, port: int, on_progress: Progress | None) -> None:
        tell = on_progress or (lambda _: None)
        tell("starting the Host…")
        self._starts += 1
        out = self._places.logs / f"host-{self._starts}.out"
        err = out.with_suffix(".err")
        self._process = Supervised.start(
            [*self._command, "--port", str(port)],
            env=self._env,
            cwd=self.workspace,
            out=out,
            err=err,
            holds=self._holds,
        )
        try:
            address = _wait_for_address(self._process, out, err, tell)
        except BaseException:
            self.close()
            raise
        self.launch_url, self.origin, self.port = address["url"], address["origin"], int(address["port"])


def _wait_for_address(process: Supervised, out: Path, err: Path, tell: Progress) -> re.Match[str]:
    started = time.monotonic()
    told = 0.0
    while True:
        ended = not process.is_alive  # asked first: what it wrote before its end is then complete
        match = _ADDRESS.search(out.read_text(encoding="utf-8", errors="replace"))
        if match and not ended:
            return match
        elapsed = time.monotonic() - started
        if ended or elapsed > _READY_S:
            what = "the Host ended" if ended else f"the Host gave no address within {_READY_S:.0f} s"
            raise LabBroken(what=what, tail=_tail(err) or _tail(out))
        if elapsed - told >= _TELL_S:
            told = elapsed
            tell(f"waiting for its address… {elapsed:.1f} s")
        time.sleep(_LOOK_S)


def _tail(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")[-2000:]


@dataclass(frozen=True)
class Lab:
    """A Host and its model, running."""

    host: LabHost
    model: LabModel
    directory: Path


@contextmanager
def lab(
    root: Path | None = None,
    *,
    on_progress: Progress | None = None,
    runtime: str | None = None,
    patch: str | None = None,
    presets: Sequence[Preset] = DEFAULT_PRESETS,
) -> Iterator[Lab]:
    """Run a Host with its model in a new directory below `root`; nothing is left, even after SIGKILL.

    Without a `root` the person's cache directory is used: the sandbox of the Host hides the system's
    temporary directory from its tools.
    """
    parent = root if root is not None else user_cache_path("agentlink") / "lab"
    directory = parent.resolve() / f"lab-{secrets.token_hex(6)}"
    with ExitStack() as stack:
        removal = stack.enter_context(RemovedAtEnd(directory))
        model = stack.enter_context(LabModel.start())
        host = stack.enter_context(
            LabHost.start(
                directory,
                model=model,
                on_progress=on_progress,
                runtime=runtime,
                patch=patch,
                presets=presets,
                holds=(removal.descriptor,),
            )
        )
        model.requests()  # up by now; better a clear error here than a turn that waits for its model
        yield Lab(host=host, model=model, directory=directory)
