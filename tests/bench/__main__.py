"""`python -m tests.bench [NAME ...] [--quick] [--json]`: measures, then prints one table."""

from __future__ import annotations

import sys
from types import ModuleType

import click
import msgspec

from tests.bench import (
    append,
    contention,
    delegate,
    listing,
    long_session,
    memory,
    replay,
    routing,
    sizes,
    startup,
    status,
    waiting,
    watchers,
)
from tests.bench.context import Context
from tests.bench.machine import in_words, load, this_machine
from tests.bench.rows import as_data, table

MODULES = (
    delegate,
    status,
    listing,
    waiting,
    long_session,
    watchers,
    append,
    contention,
    replay,
    startup,
    memory,
    sizes,
    routing,
)
BENCHES: dict[str, ModuleType] = {module.NAME: module for module in MODULES}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)))
@click.option("--quick", is_flag=True, help="Few rounds and small journals: shows that it runs, measures nothing.")
@click.option("--json", "as_json", is_flag=True, help="Rows and machine as JSON.")
def main(names: tuple[str, ...], *, quick: bool, as_json: bool) -> None:
    """Measure the named benchmarks, or all of them."""
    with Context(quick=quick) as context:
        machine = this_machine(context.root)
        rows, loads = [], [load()]
        for name in names or BENCHES:
            context.tell(name)
            rows += BENCHES[name].run(context)
            loads.append(load())
        if as_json:
            shown = {"machine": msgspec.to_builtins(machine), "loads": loads, "rows": as_data(rows)}
            print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        else:
            print(f"{in_words(machine, loads)}\n\n{table(rows)}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
