"""`status`, `list` and `release`."""

from typing import TYPE_CHECKING

import click

from agentlink.cli.output import json_option, print_json, run_with, tell
from agentlink.core.errors import Code, Failure
from agentlink.core.ids import TaskId, task_id

if TYPE_CHECKING:
    from agentlink.app.results import TaskStatus
    from agentlink.app.runtime import Runtime


def checked_task(text: str) -> TaskId:
    """The task id. Raises Failure invalid_request."""
    found = task_id(text)
    if found is None:
        raise Failure(
            Code.INVALID_REQUEST,
            f"{text!r} is no task id; one looks like dsh_0123456789ab",
            details={"argument": "task"},
        )
    return found


@click.command("status")
@click.argument("task")
@json_option
def status_command(task: str, *, as_json: bool) -> None:
    """Show TASK: its launch replayed from the journal, its conversation read from the Host."""
    from agentlink.app.status import task_status

    wanted = checked_task(task)
    if as_json:
        print_json(run_with(lambda runtime: task_status(runtime, wanted)))
        return
    from agentlink.cli.follow import whole_message

    async def work(runtime: "Runtime") -> "TaskStatus":
        return await whole_message(runtime, await task_status(runtime, wanted))

    status = run_with(work)
    from agentlink.cli.render import show_status

    show_status(status)


@click.command("list")
@click.option("--limit", default=50, show_default=True, help="Rows on this page, 1 to 200.")
@click.option("--before", help="Show the page that comes after this task id.")
@click.option("--state", type=click.Choice(["unfinished", "failed", "sent", "claimed"]), help="Only these.")
@json_option
def list_command(limit: int, before: str | None, state: str | None, *, as_json: bool) -> None:
    """List tasks, newest first; whether each is at work comes from one call of the Host."""
    from agentlink.app.listing import StateFilter, list_tasks

    start = None if before is None else checked_task(before)
    wanted: StateFilter | None = state  # type: ignore[assignment]  # click.Choice checked it
    page = run_with(lambda runtime: list_tasks(runtime, limit=limit, before=start, state=wanted))
    if as_json:
        print_json(page)
        return
    from agentlink.cli.render import show_list

    show_list(page)


@click.command("release")
@click.argument("task")
@click.option("--force", is_flag=True, help="Also while the task may still run.")
@json_option
def release_command(task: str, *, force: bool, as_json: bool) -> None:
    """Give the workspace claim of TASK back. Its session on the Host is not touched."""
    from agentlink.app.release import release_workspace

    wanted = checked_task(task)
    released = run_with(lambda runtime: release_workspace(runtime, wanted, force=force))
    if as_json:
        print_json(released)
    else:
        tell(f"{released.task_id} no longer claims {released.claim.cwd}")
