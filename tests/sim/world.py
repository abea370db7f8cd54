"""One simulated world: a Host, a home, processes that come and go, and the invariants that must hold in the end."""

import itertools
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentlink.app.delegate import DelegateRequest, delegate
from agentlink.app.followup import FollowUp, follow_up
from agentlink.app.recover import recover_all, recover_task
from agentlink.app.release import release_workspace
from agentlink.app.routes import RoutesFile
from agentlink.app.runtime import Runtime
from agentlink.app.status import task_status
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import WriteIntended, WriteSettled
from agentlink.core.host.find_prompt import find_prompt
from agentlink.core.ids import SessionId, TaskId
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView, replay
from agentlink.core.launch.state import Launch
from agentlink.journal.store import FileStore
from tests.fakes.sim_host import SimClock, SimHost
from tests.sim.crash import Crash, CrashLink, Plan, journal_moments

RULES = """
version = 1
[[rule]]
id = "review"
preset = "minimal"
match = { kind = "review" }
"""
EXPLAINED = {machine.PROMPT_SENT, machine.LAUNCH_FAILED}


def crashed(error: BaseException) -> bool:
    """Whether this is the end of a simulated process, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(crashed(part) for part in error.exceptions)
    return isinstance(error, Crash)


class World:
    """Use once. `directory` is the state home and the workspace."""

    def __init__(
        self,
        directory: Path,
        *,
        pickup_s: float = 0.001,
        message_s: float = 0.05,
        segment_bytes: int | None = None,
        automatic: bool = False,
    ) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.directory = directory
        self.clock = SimClock()
        self.host = SimHost(self.clock, pickup_s=pickup_s, message_s=message_s)
        self.accepted: list[str] = []
        """Tasks that some caller was told of."""
        self.released: set[str] = set()
        """Tasks whose claim a person took away by force."""
        self.may_have_sent = 0
        """Follow-ups whose caller was not told that nothing was sent."""
        self.acknowledged: set[str] = set()
        """Follow-ups that some caller was told are accepted."""
        self.wall_clock = "2026-01-01T00:00:00.000Z"
        self.outcomes: Counter[str] = Counter()
        self._segment_bytes = segment_bytes
        self.automatic = automatic
        if automatic:
            (directory / "routes.toml").write_text(RULES)
        self._numbers = itertools.count(1)
        # Another session of ours, as every used home has: made long ago, on disk.
        self.host.create("session-old", "/old", None)
        self.clock.advance(1)

    def runtime(self, plan: Plan | None = None, *, late_s: float = 0.0, binding: str | None = "login-1") -> Runtime:
        """A process: nothing in memory, the home and the Host as they are."""
        return Runtime(
            store=FileStore(self.directory, clock=lambda: self.wall_clock),
            host=CrashLink(self.host, plan or Plan(), late_s=late_s, binding=binding),  # type: ignore[arg-type]
            secret=lambda: b"s" * 32,
            task_ids=lambda: TaskId(f"dsh_{next(self._numbers):012x}"),
            session_ids=lambda: SessionId(f"session-{next(self._numbers)}"),
            clock=self.clock,
            routes=RoutesFile(self.directory / "routes.toml"),
        )

    async def process(self, plan: Plan, work: Callable[[Runtime], Awaitable[Any]], *, late_s: float = 0.0) -> Any:
        """Runs one process to its end, natural or not. A Failure is an end like any other."""
        with journal_moments(plan, segment_bytes=self._segment_bytes):
            try:
                result = await work(self.runtime(plan, late_s=late_s))
            except Failure as failure:
                self.outcomes[failure.code.value] += 1
                self.hear(failure.task, failure.prompt_sent)
                return failure
            except BaseException as error:
                if not crashed(error):
                    raise
                self.outcomes["crashed"] += 1
                return error
        self.outcomes["ok"] += 1
        return result

    def hear(self, task: str | None, prompt_sent: bool | None) -> None:
        """A caller was told something: it must stay true."""
        if task is None:
            return
        self.accepted.append(task)
        if prompt_sent is False:
            # Of the launch's own prompt: what a later follow-up did is told by that.
            requests = [r for r in self.host.runs if r and r.startswith(task) and r.endswith(".0")]
            assert not requests, f"promptSent false, but the Host ran {requests}"

    # -- the processes

    async def delegate(self, plan: Plan, *, key: str | None = None, late_s: float = 0.0, cwd: str = "") -> Any:
        request = DelegateRequest(
            prompt="p",
            cwd=cwd or str(self.directory),
            preset=None if self.automatic else "minimal",
            auto=self.automatic,
            hints={"kind": "review"} if self.automatic else None,
            request_key=key,
        )

        async def work(runtime: Runtime) -> Any:
            answer = await delegate(runtime, request)
            self.hear(answer.task_id, answer.launch.prompt_sent)
            return answer

        return await self.process(plan, work, late_s=late_s)

    async def follow_up(self, plan: Plan, *, key: str | None = None, late_s: float = 0.0) -> Any:
        """Another prompt for the oldest task that has its first one."""

        async def work(runtime: Runtime) -> Any:
            sent = [view for view in await self.views(runtime) if view.launch.prompt_sent]
            if not sent:
                return None
            self.may_have_sent += 1
            try:
                answer = await follow_up(runtime, sent[-1].task, FollowUp(prompt="f", request_key=key))
            except Failure as failure:
                self.may_have_sent -= failure.prompt_sent is False
                self.outcomes[failure.code.value] += 1
                return failure
            self.acknowledged.add(answer.request_id)
            return answer

        return await self.process(plan, work, late_s=late_s)

    async def look(self, plan: Plan | None = None) -> None:
        async def work(runtime: Runtime) -> None:
            for view in await self.views(runtime):
                await task_status(runtime, view.task)

        await self.process(plan or Plan(), work)

    async def recover_everything(self, plan: Plan | None = None) -> None:
        """Sends the prompt into whatever can be recovered."""

        async def work(runtime: Runtime) -> None:
            await recover_all(runtime)
            for view in await self.views(runtime):
                chosen = not self.automatic or view.launch.preset is not None
                if view.launch.failed and not view.launch.abandoned and chosen:
                    answer = await recover_task(runtime, view.task, "p")
                    self.hear(answer.task_id, answer.launch.prompt_sent)

        await self.process(plan or Plan(), work)

    async def release(self, plan: Plan) -> None:
        """A person frees whatever claim is held, by force."""

        async def work(runtime: Runtime) -> None:
            for view in await self.views(runtime):
                if view.launch.claim_held:
                    self.released.add(view.task)
                    await release_workspace(runtime, view.task, force=True)

        await self.process(plan, work)

    async def views(self, runtime: Runtime) -> tuple[TaskView, ...]:
        return await runtime.store.page(limit=100)

    async def settle(self) -> None:
        """A quiet end: the Host is up, time passes, and every task is looked at."""
        if not self.host.up:
            self.host.restart()
        for _ in range(5):
            self.clock.advance(5)
            await self.look()
        self.clock.advance(5)

    # -- what must hold

    async def check(self) -> None:
        """The invariants of a settled world."""
        runtime = self.runtime()
        assert await runtime.store.problem() is None
        views = await self.views(runtime)
        assert set(self.accepted) <= {view.task for view in views}, "an accepted task is not in the journal"
        twice = {request: times for request, times in self.host.runs.items() if request and times > 1}
        assert not twice, f"delivered twice: {twice}"
        for view in views:
            self._check_task(view.task, view.launch)
            lines = await runtime.store.history(view.task)
            assert replay(lines) == view.launch
            self._check_writes(view.launch, [fact for line in lines for fact in line.facts])
        ran = [request for request in self.host.runs if request and not request.endswith(".0")]
        assert len(ran) <= self.may_have_sent, f"{ran} ran, though their callers were told that nothing was sent"
        exclusive = [view.launch.cwd for view in views if view.launch.claim_held]
        assert len(exclusive) == len(set(exclusive)), "two exclusive claims on one directory"

    def _check_task(self, task: str, launch: Launch) -> None:
        assert launch.state in EXPLAINED, f"{task} is left in {launch.state}"
        ran = sum(self.host.runs.get(f"{task}.{attempt}.0", 0) for attempt in range(launch.attempt + 1))
        assert ran <= 1, f"the prompt of {task} ran {ran} times"
        if launch.failed:
            assert launch.code in set(Code), "a failure without a reason"
            assert not launch.claim_held, "a failed launch leaks its claim"
            assert ran == 0, f"{task} is said to have failed ({launch.code}), but its prompt ran"
        else:
            assert launch.claim_held or task in self.released, "a sent prompt lost its claim"
            session = self.host.sessions.get(launch.session or "")
            assert session is not None, "prompt-sent for good, but the session is gone"
            standing = find_prompt(session.log, launch.request or "").standing
            assert standing in ("delivered", "waiting"), f"prompt-sent for good, but the log says {standing}"

    def _check_writes(self, launch: Launch, facts: list[Any]) -> None:
        """Every follow-up has an outcome, and the Host agrees with it."""
        outcomes: dict[str, str | None] = {}
        for fact in facts:
            if isinstance(fact, WriteIntended):
                outcomes[fact.request] = None
            elif isinstance(fact, WriteSettled):
                outcomes[fact.request] = fact.outcome
        session = self.host.sessions.get(launch.session or "")
        for request, outcome in outcomes.items():
            ran = self.host.runs.get(request, 0)
            standing = "absent" if session is None else find_prompt(session.log, request).standing
            story = f"{request}: {outcome}, ran {ran} times, the log says {standing}"
            if launch.state != machine.PROMPT_SENT:
                continue  # its own prompt was lost: what came after it was lost with it
            assert outcome is not None, f"{story}: never settled"
            if request in self.acknowledged:
                assert outcome not in ("refused", "absent", "unknown"), f"{story}: was acknowledged"
            if outcome in ("refused", "absent", "lost", "discarded", "consumed"):
                assert ran == 0, story
            if outcome == "history":
                assert standing == "delivered", story
            if outcome == "receipt":
                assert standing in ("waiting", "claimed"), story
