"""Why each rule won or lost: for given hints against the rules and roster of now, or a past task's record (FR-08)."""

from collections.abc import Mapping

from agentlink.app.look import find_task
from agentlink.app.results import Result
from agentlink.app.runtime import Runtime
from agentlink.core.errors import Code, Failure
from agentlink.core.host.faults import HostFault
from agentlink.core.host.values import Preset
from agentlink.core.ids import TaskId
from agentlink.core.launch.history import RouteRecord, route_record
from agentlink.core.redact import redact
from agentlink.core.routing.explain import Explanation, explain
from agentlink.core.routing.hints import parse_hints


class Explained(Result, frozen=True, kw_only=True):
    """The rules against the hints; `roster` says whether the Host's presets could be looked at."""

    explanation: Explanation
    roster: str


class PastRoute(Result, frozen=True, kw_only=True):
    """What is on record of a past task's routing; why other rules lost is not kept."""

    task_id: str
    record: RouteRecord


async def explain_hints(runtime: Runtime, given: Mapping[str, object]) -> Explained:
    """Reads the rules and the roster, and no session. Raises Failure routing_*; a Host that is down only leaves the
    targets unknown."""
    hints = parse_hints(given)
    rules = await runtime.routes.read()
    roster: tuple[Preset, ...] | None = None
    said = "read"
    try:
        roster = await runtime.host.roster()
    except HostFault as fault:
        said = f"not read: {redact(fault.message)}"
    return Explained(explanation=explain(hints, rules, roster), roster=said)


async def explain_task(runtime: Runtime, task: TaskId) -> PastRoute:
    """The task's route record. Raises Failure task_not_found, or not_recoverable when no record exists yet."""
    await find_task(runtime, task)
    record = route_record(await runtime.store.history(task))
    if record is None:
        raise Failure(Code.LAUNCH_IN_PROGRESS, "the launch has no route record yet", task=task, prompt_sent=False)
    return PastRoute(task_id=task, record=record)
