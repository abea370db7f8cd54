"""Delegating a task: everything that can be refused without the Host first, then one staged launch (003 FR-06)."""

from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread
import msgspec

from agentlink.app.attempt import CatalogRead
from agentlink.app.launching import Asked, KeyTaken, claim_look, delegated, launch_anew, reach_host, recover_into
from agentlink.app.look import settle_task
from agentlink.app.results import Delegated
from agentlink.app.runtime import Runtime
from agentlink.app.to_the_end import Canceled
from agentlink.app.workspace import canonical_directory
from agentlink.core.errors import Code, Failure
from agentlink.core.facts.launch import ClaimMode
from agentlink.core.ids import is_request_key
from agentlink.core.launch import machine
from agentlink.core.launch.history import TaskView
from agentlink.core.launch.state import Launch
from agentlink.core.routing.hints import canonical, parse_hints

MAX_PROMPT_BYTES = 8 << 20
MAX_TITLE_CHARACTERS = 200
MAX_PRESET_CHARACTERS = 200
"""As long as an id of the Host may be; the id stands in the journal."""


class DelegateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks. `root` is the directory that a relative `cwd` starts from, if the caller declared one."""

    prompt: str
    cwd: str
    preset: str | None = None
    auto: bool = False
    """Choose the preset by rules (003 FR-02): asked for each delegation, never a standing default."""
    hints: Mapping[str, object] | None = None
    claim: ClaimMode = "exclusive-write"
    title: str | None = None
    request_key: str | None = None
    root: Path | None = None


async def delegate(runtime: Runtime, request: DelegateRequest) -> Delegated:
    """Hands the task to the Host and returns once its prompt is accepted. Raises Failure.

    Cancelling it stops a launch that is not selected yet; after that the launch runs on to its final fact (rule 12).
    """
    asked = await _checked(runtime, request)
    owner = await _key_owner(runtime, asked)
    if owner is not None:
        return await _join(runtime, asked, owner)
    try:
        await claim_look(runtime, asked)
    except Failure as failure:
        # The directory may have been claimed a moment ago by this very request, sent by another process.
        owner = await _key_owner(runtime, asked) if failure.code is Code.WORKSPACE_CONFLICT else None
        if owner is None:
            raise
        return await _join(runtime, asked, owner)
    catalog = await reach_host(runtime)
    view = TaskView(runtime.new_task_id(), Launch(), 0)

    async def launch(canceled: Canceled) -> Delegated:
        async with runtime.store.drive(view.task):
            return await launch_anew(runtime, asked, view, canceled, catalog)

    try:
        return await runtime.to_the_end.run(launch)
    except KeyTaken as taken:
        return await _join(runtime, asked, taken.owner)


async def _key_owner(runtime: Runtime, asked: Asked) -> TaskView | None:
    return None if asked.key is None else await runtime.store.key_owner(asked.key)


async def _checked(runtime: Runtime, request: DelegateRequest) -> Asked:
    _check_arguments(request)
    hints = parse_hints(request.hints or {}) if request.auto else None
    rules = await runtime.routes.read() if request.auto else None
    cwd = await anyio.to_thread.run_sync(lambda: canonical_directory(request.cwd, root=request.root))
    key = digest = None
    if request.request_key is not None:
        key = runtime.key_digest(request.request_key)
        asked = None if hints is None else canonical(hints)
        parts = (request.prompt, cwd, request.preset, request.claim, request.title, asked)
        digest = await anyio.to_thread.run_sync(runtime.input_digest, parts)
    return Asked(
        prompt=request.prompt,
        cwd=cwd,
        mode="automatic" if request.auto else "dsh-default" if request.preset is None else "manual",
        preset=request.preset,
        hints=hints,
        rules=rules,
        claim=request.claim,
        title=request.title,
        key=key,
        input=digest,
    )


def check_prompt(prompt: str) -> None:
    """Raises Failure invalid_request for a prompt that cannot be sent as it is."""
    if not prompt.strip():
        raise _invalid("prompt", "the prompt is empty")
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError:
        raise _invalid("prompt", "the prompt holds half a surrogate pair and cannot be sent as it is") from None
    if size > MAX_PROMPT_BYTES:
        raise _invalid("prompt", f"the prompt has {size} bytes; at most {MAX_PROMPT_BYTES} are sent")


def _check_arguments(request: DelegateRequest) -> None:
    check_prompt(request.prompt)
    for argument, text in (("agentPreset", request.preset), ("title", request.title)):
        if text is not None and not _is_plain(text):
            raise _invalid(argument, f"{argument} holds half a surrogate pair or a control character")
    if request.preset is not None and not 0 < len(request.preset.strip()) <= MAX_PRESET_CHARACTERS:
        raise _invalid("agentPreset", f"a preset id has 1 to {MAX_PRESET_CHARACTERS} characters; absent: Host default")
    if request.auto and request.preset is not None:
        raise Failure(Code.ROUTING_REQUEST_AMBIGUOUS, "the request names a preset and asks for automatic routing")
    if request.hints is not None and not request.auto:
        raise _invalid("routing", "hints are given, but automatic routing is not asked for")
    if request.title is not None and not 0 < len(request.title.strip()) <= MAX_TITLE_CHARACTERS:
        raise _invalid("title", f"a title has 1 to {MAX_TITLE_CHARACTERS} characters")
    if request.request_key is not None and not is_request_key(request.request_key):
        raise _invalid("requestKey", "a request key has 1 to 128 characters out of A-Z a-z 0-9 . _ : -")


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return all(ord(character) >= 0x20 and character != "\x7f" for character in text)


def _invalid(argument: str, message: str) -> Failure:
    return Failure(Code.INVALID_REQUEST, message, details={"argument": argument})


# -- request keys (rule 8)


async def _join(runtime: Runtime, asked: Asked, owner: TaskView) -> Delegated:
    """The same request key again: the task's state, or the attempt that its failed launch still needs."""
    if owner.launch.input != asked.input:
        raise Failure(
            Code.REQUEST_KEY_CONFLICT,
            f"this requestKey belongs to task {owner.task}, which was asked something else",
            task=owner.task,
            prompt_sent=owner.launch.prompt_sent,
        )
    view, problem = await settle_task(runtime, owner)
    if not view.launch.failed:
        if problem is not None and view.launch.state != machine.PROMPT_SENT and problem.code is not _BUSY:
            raise problem.located(
                stage=view.launch.state,
                task=view.task,
                session=view.launch.session or view.launch.intended_session,
                prompt_sent=view.launch.prompt_sent,
            )
        return delegated(view.task, view.launch, repeated=True)
    catalog = None
    if view.launch.session is None:
        await claim_look(runtime, asked)
        catalog = await reach_host(runtime)
    return await _next_attempt(runtime, asked, view, catalog)


_BUSY = Code.LAUNCH_IN_PROGRESS


async def _next_attempt(runtime: Runtime, asked: Asked, view: TaskView, catalog: CatalogRead | None) -> Delegated:
    async def launch(canceled: Canceled) -> Delegated:
        async with runtime.store.drive(view.task):
            fresh = await runtime.store.task(view.task) or view
            if not fresh.launch.failed:
                return delegated(fresh.task, fresh.launch, repeated=True)
            if fresh.launch.unprompted:
                return await recover_into(runtime, asked, fresh)
            return await launch_anew(runtime, asked, fresh, canceled, catalog)

    try:
        return await runtime.to_the_end.run(launch)
    except Failure as failure:
        if failure.code is not _BUSY or failure.stage is not None:
            raise
        fresh = await runtime.store.task(view.task) or view
        return delegated(fresh.task, fresh.launch, repeated=True)
