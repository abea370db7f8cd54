"""Work that a caller's cancellation must not stop half-way (design section 3, rule 12)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")


class Canceled:
    """Says whether the caller has gone; the work may look at it where stopping is still harmless."""

    def __init__(self) -> None:
        self.is_set = False


class ToTheEnd:
    """Runs launches in tasks of their own, so that they reach their final fact whatever becomes of the caller.

    A server gives a group that outlives single calls: a cancelled call returns at once and its launch runs on. Without
    one, the call itself waits for its launch, which is bounded by the timeouts of the Host's calls.
    """

    def __init__(self) -> None:
        self.group: TaskGroup | None = None
        self.running = 0

    async def run(self, work: Callable[[Canceled], Awaitable[T]]) -> T:
        """The work's result. Raises what it raises."""
        done = anyio.Event()
        canceled = Canceled()
        results: list[T] = []
        failures: list[Exception] = []

        async def shielded() -> None:
            self.running += 1
            with anyio.CancelScope(shield=True):
                try:
                    results.append(await work(canceled))
                except Exception as error:  # noqa: BLE001
                    failures.append(error)  # raised below in the caller's own task
                finally:
                    self.running -= 1
                    done.set()

        async def wait(group: TaskGroup) -> None:
            group.start_soon(shielded)
            try:
                await done.wait()
            except anyio.get_cancelled_exc_class():
                canceled.is_set = True
                raise

        if self.group is not None:
            await wait(self.group)
        else:
            async with anyio.create_task_group() as group:
                await wait(group)
        if failures:
            raise failures[0]
        return results[0]
