"""Another prompt for a running or finished task: queued for a turn of its own, or steering the running one."""

from typing import Literal

import anyio
import msgspec

from agentlink.app.attempt import outcome_unknown
from agentlink.app.delegate import check_prompt
from agentlink.app.results import Result
from agentlink.app.runtime import Runtime
from agentlink.app.settle_writes import outcome_in_history
from agentlink.app.stale import refuse_if_stale
from agentlink.app.to_the_end import Canceled
from agentlink.app.writing import Writing, prompted, refuse_unless_it_runs, writing
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.work import WriteOutcome
from agentlink.core.host.faults import HostFault
from agentlink.core.ids import RequestId, TaskId, is_request_key
from agentlink.core.launch.decide import failure_for, stop_for_fault
from agentlink.core.launch.writes import Write

Mode = Literal["queue", "steer"]

_WILL_NOT_RUN: dict[WriteOutcome, Code] = {
    "lost": Code.PROMPT_LOST,
    "discarded": Code.PROMPT_DISCARDED,
    "consumed": Code.PROMPT_CONSUMED,
}


class FollowedUp(Result, frozen=True, kw_only=True):
    """The answer to a follow-up; `delivery` is accepted (the Host said so) or in_history (its log shows it)."""

    task_id: str
    session_id: str
    request_id: str
    mode: Mode
    delivery: Literal["accepted", "in_history"]
    repeated: bool = False
    warnings: tuple[str, ...] = ()


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks."""

    prompt: str
    mode: Mode = "queue"
    since_cursor: str | None = None
    request_key: str | None = None


async def follow_up(runtime: Runtime, task: TaskId, asked: FollowUp) -> FollowedUp:
    """Sends the prompt once. Raises Failure.

    It needs the workspace claim, and takes it again when it was released and is free. A lost answer is settled from
    the Host's history; while that cannot be told the failure is delivery_unknown, and the same requestKey settles it.
    """
    check_prompt(asked.prompt)
    key, digest = await _digests(runtime, task, asked)
    view = await prompted(runtime, task)

    async def send(_: Canceled) -> FollowedUp:
        async with writing(runtime, task) as writer:
            before = None if key is None else writer.launch.writes.under(key)
            if before is not None:
                joined = await _join(runtime, writer, before, asked, digest)
                if joined is not None:
                    return joined
            await refuse_unless_it_runs(runtime, task, writer.launch)
            await refuse_if_stale(runtime, view, asked.since_cursor)
            return await _send(runtime, writer, asked, key=key, digest=digest)

    return await runtime.to_the_end.run(send)


async def _digests(runtime: Runtime, task: str, asked: FollowUp) -> tuple[str | None, str | None]:
    if asked.request_key is None:
        return None, None
    if not is_request_key(asked.request_key):
        message = "a request key has 1 to 128 characters out of A-Z a-z 0-9 . _ : -"
        raise Failure(Code.INVALID_REQUEST, message, details={"argument": "requestKey"})
    parts = ("followup", task, asked.prompt, asked.mode)
    return runtime.key_digest(asked.request_key), await anyio.to_thread.run_sync(runtime.input_digest, parts)


async def _send(
    runtime: Runtime, writer: Writing, asked: FollowUp, *, key: str | None, digest: str | None
) -> FollowedUp:
    kind: Literal["followup-queue", "followup-steer"] = "followup-queue" if asked.mode == "queue" else "followup-steer"
    request = await writer.intend(kind, needs_claim=True, key=key, input_digest=digest)
    try:
        await runtime.host.send_prompt(writer.session, request=request, prompt=asked.prompt, mode=asked.mode)
    except HostFault as fault:
        return await _after_fault(runtime, writer, asked.mode, request, fault)
    await writer.settle(request, "receipt")
    return _answer(writer, asked.mode, request, "accepted")


async def _after_fault(
    runtime: Runtime, writer: Writing, mode: Mode, request: RequestId, fault: HostFault
) -> FollowedUp:
    told = failure_for(fault)
    if not outcome_unknown(fault):
        await writer.settle(request, "refused", host_code=getattr(fault, "code", None))
        raise writer.located(told) from fault
    write = writer.launch.writes.find(request)
    try:
        outcome = (
            None
            if write is None
            else await outcome_in_history(runtime, writer.launch, write, quiet_since=runtime.clock.now())
        )
    except HostFault:
        outcome = None
    if outcome is None:
        unknown = Failure(
            Code.DELIVERY_UNKNOWN,
            f"the prompt was sent as {request}, its answer was lost: {told.message}",
            prompt_sent=None,
            details={"requestId": request},
        )
        raise writer.located(unknown) from fault
    await writer.settle(request, outcome)
    if outcome in ("receipt", "history"):
        return _answer(writer, mode, request, "in_history")
    raise writer.located(_failed(outcome, request, told)) from fault


def _failed(outcome: WriteOutcome, request: str, told: Failure) -> Failure:
    code = _WILL_NOT_RUN.get(outcome)
    if code is None:
        return told
    return Failure(
        code,
        f"follow-up {request} will not run",
        next_step="Send the follow-up again if it is still wanted.",
        details={"requestId": request},
    )


async def _join(
    runtime: Runtime, writer: Writing, before: Write, asked: FollowUp, digest: str | None
) -> FollowedUp | None:
    """The same request key again: what became of that follow-up; None when it had no effect and may be sent."""
    if before.input != digest:
        raise writer.failure(Code.REQUEST_KEY_CONFLICT, "this requestKey was used for another follow-up of this task")
    write = before
    if before.is_open:
        try:
            outcome = await outcome_in_history(runtime, writer.launch, before, quiet_since=runtime.clock.now())
        except HostFault as fault:
            if before.outcome is None:
                stop = stop_for_fault(fault)
                told = Failure(Code.DELIVERY_UNKNOWN, stop.message, prompt_sent=None, details=stop.details)
                raise writer.located(told) from fault
            outcome = None
        if outcome is not None:
            await writer.settle(before.request, outcome)
            write = msgspec.structs.replace(before, outcome=outcome)
    match write.outcome:
        case "receipt" | "history":
            return _answer(
                writer,
                asked.mode,
                write.request,
                "accepted" if write.outcome == "receipt" else "in_history",
                repeated=True,
            )
        case None:
            unknown = Failure(Code.DELIVERY_UNKNOWN, f"what became of {write.request} is not known", prompt_sent=None)
            raise writer.located(unknown)
        case _:
            return None


def _answer(
    writer: Writing,
    mode: Mode,
    request: str,
    delivery: Literal["accepted", "in_history"],
    *,
    repeated: bool = False,
) -> FollowedUp:
    return FollowedUp(
        task_id=writer.task,
        session_id=writer.session,
        request_id=request,
        mode=mode,
        delivery=delivery,
        repeated=repeated,
        warnings=tuple(writer.warnings),
    )
