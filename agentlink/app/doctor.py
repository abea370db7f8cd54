"""The self-check: settings and their origin, home, journal, Host, wire, login. It only reads."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import anyio.to_thread

from agentlink import __version__
from agentlink.app.host_status import host_status
from agentlink.app.results import HostStatus, Result, RouteHealth
from agentlink.app.runtime import open_runtime, utc_now
from agentlink.app.settings import Settings, load_settings
from agentlink.core.errors import Failure
from agentlink.journal.store import FileStore

Verdict = Literal["ok", "warning", "failed"]
LOW_SPACE_BYTES = 64 << 20
MANY_OPEN_TASKS = 1_000


class Check(Result, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    found: str
    next: str | None = None


class Report(Result, frozen=True, kw_only=True):
    """Everything that was looked at, in order; `verdict` is the worst of it."""

    version: str
    python: str
    verdict: Verdict
    checks: tuple[Check, ...]


async def examine(environment: Mapping[str, str]) -> Report:
    """The report. Never raises for what it finds."""
    checks: list[Check] = []
    try:
        settings = load_settings(environment)
    except Failure as failure:
        checks.append(Check(name="settings", verdict="failed", found=failure.message, next=failure.next_step))
        return _report(checks)
    checks += [
        Check(name=f"setting {name}", verdict="ok", found=f"{setting.value} (from {setting.source})")
        for name, setting in settings.shown().items()
    ]
    checks.append(await anyio.to_thread.run_sync(_home, settings))
    checks.append(await _journal(settings))
    runtime = open_runtime(environment)
    try:
        checks += _host(await host_status(runtime))
    finally:
        await runtime.aclose()
    return _report(checks)


def _report(checks: list[Check]) -> Report:
    order: tuple[Verdict, ...] = ("ok", "warning", "failed")
    worst: Verdict = max((check.verdict for check in checks), key=order.index, default="ok")
    return Report(
        version=__version__, python=".".join(map(str, sys.version_info[:3])), verdict=worst, checks=tuple(checks)
    )


def _home(settings: Settings) -> Check:
    home = settings.home
    if not home.exists():
        parent = next(path for path in (home, *home.parents) if path.exists())
        usable = os.access(parent, os.W_OK)
        return Check(
            name="home",
            verdict="ok" if usable else "failed",
            found="not made yet" if usable else f"cannot be made: {parent} is not writable",
            next=None if usable else "Make it writable or set AGENTLINK_HOME.",
        )
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        return Check(name="home", verdict="failed", found="not a writable directory", next="Set AGENTLINK_HOME.")
    return _modes_and_space(home)


def _modes_and_space(home: Path) -> Check:
    mode = home.stat().st_mode & 0o777
    free = shutil.disk_usage(home).free
    if os.name == "posix" and mode & 0o077:
        return Check(name="home", verdict="warning", found=f"mode {mode:o}", next=f"chmod 700 {home}")
    if free < LOW_SPACE_BYTES:
        return Check(name="home", verdict="warning", found=f"{free >> 20} MiB free", next="Free some disk space.")
    return Check(name="home", verdict="ok", found=f"private, writable, {free >> 30} GiB free")


async def _journal(settings: Settings) -> Check:
    try:
        store = FileStore(settings.home, clock=utc_now)
        report = await store.verify()
    except Failure as failure:
        return Check(name="journal", verdict="failed", found=failure.message, next=failure.next_step)
    if report.problem is not None:
        return Check(name="journal", verdict="failed", found=report.problem, next="Run `agentlink journal repair`.")
    found = f"{report.lines} lines, {report.tasks} tasks, every sum checked" if report.lines else "none yet"
    if report.sealed_damage:
        return Check(
            name="journal",
            verdict="warning",
            found=f"{found}; {len(report.sealed_damage)} damaged lines in sealed segments",
            next="Run `agentlink journal verify`.",
        )
    stats = await store.stats()
    if stats.open_tasks > MANY_OPEN_TASKS:
        return Check(
            name="journal",
            verdict="warning",
            found=f"{found}; {stats.open_tasks} open tasks are read at every start",
            next="Release the workspaces of finished tasks; `agentlink recover` settles and lists the rest.",
        )
    if report.set_aside:
        return Check(name="journal", verdict="warning", found=f"{found}; {len(report.set_aside)} torn ends set aside")
    return Check(name="journal", verdict="ok", found=found)


def _routes(health: RouteHealth) -> Check:
    match health.state:
        case "missing":
            return Check(name="routes", verdict="ok", found="none: automatic routing is not configured")
        case "invalid":
            step = "Correct that line; manual and default delegation go on meanwhile."
            return Check(name="routes", verdict="failed", found=health.message or "invalid", next=step)
        case "valid":
            troubles = [f"{name} is absent" for name in health.absent] + [f"{name} is broken" for name in health.broken]
            found = "; ".join([f"{health.rules} rules", *troubles])
            return Check(name="routes", verdict="warning" if troubles else "ok", found=found)


def _host(status: HostStatus) -> list[Check]:
    next_step = None if status.failure is None else status.failure.next
    if status.availability != "connected":
        found = status.availability if status.failure is None else f"{status.availability}: {status.failure.message}"
        return [_routes(status.routes), Check(name="Host", verdict="failed", found=found, next=next_step)]
    broken = [preset.id for preset in status.presets if preset.broken]
    checks = [
        _routes(status.routes),
        Check(name="Host", verdict="ok", found=f"{status.origin} answers"),
        Check(name="wire", verdict="ok", found=status.wire or "unknown"),
        Check(name="login", verdict="ok", found=status.login),
    ]
    if status.failure is not None:
        checks.append(Check(name="presets", verdict="failed", found=status.failure.message or "", next=next_step))
    else:
        names = ", ".join(preset.id for preset in status.presets)
        tail = f"; broken: {', '.join(broken)}" if broken else ""
        checks.append(Check(name="presets", verdict="warning" if broken else "ok", found=names + tail))
    return checks
