"""The live engine: a `transitions` machine built from a table. The only module that knows that library.

Replay steps a table by dictionary (`Stepper`); a live step goes through here, where the guards are named and "what
may happen next" can be asked. Tests prove that both give the same answer in every state.

What is odd here, and why:
- The library is imported when an engine is made: commands that only read pay nothing for it.
- It hears made-up names (`s3`, `t5`). Ours, such as `launch/claimed`, are no Python identifiers, and to it a state
  `*` means every state and a target `=` the state itself.
- Each question gets a model of its own and forgets it, so nothing of one task is left for the next.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic

from agentlink.core.statechart.table import START, M, Table, TableInvalid


class IllegalStep(Exception):
    """The trigger may not happen in this state, or no guard lets it; nothing has changed."""

    def __init__(self, state: str, trigger: str) -> None:
        super().__init__(f"{trigger} cannot follow in state {state}")
        self.state = state
        self.trigger = trigger


class _Model(Generic[M]):
    """What the library moves. A plain object: equal Structs would count as one model and be dropped silently."""

    state: str

    def __init__(self, value: M) -> None:
        self.value = value


class Engine(Generic[M]):
    """Answers one table's live questions; made once and used for every step. Guards read the machine's own value."""

    def __init__(self, table: Table, guards: Mapping[str, Callable[[M], bool]]) -> None:
        from transitions import Machine

        mismatch = set(table.guards) ^ set(guards)
        if mismatch:
            raise TableInvalid(f"{table.name}: guards do not match the table: {sorted(mismatch)}")
        names = (START, *(state.name for state in table.states))
        self._inner = {name: f"s{number}" for number, name in enumerate(names)}
        self._outer = {inner: name for name, inner in self._inner.items()}
        self._triggers: dict[str, str] = {}
        self._leaving: dict[str, tuple[str, ...]] = {}
        for row in table.rows:
            self._triggers.setdefault(row.trigger, f"t{len(self._triggers)}")
            known = self._leaving.get(row.source, ())
            self._leaving[row.source] = known if row.trigger in known else (*known, row.trigger)
        self._machine: Any = Machine(
            model=None,
            states=list(self._outer),
            initial=self._inner[START],
            transitions=[
                {
                    "trigger": self._triggers[row.trigger],
                    "source": self._inner[row.source],
                    "dest": self._inner[row.target],
                    "conditions": [] if row.guard is None else [_condition(guards[row.guard])],
                }
                for row in table.rows
            ],
            auto_transitions=False,
            send_event=True,
        )

    def step(self, state: str, trigger: str, model_value: M) -> str:
        """The state that the trigger leads to. Raises IllegalStep."""
        # The library's own error also stands for a misuse of the library; legality is asked for, not caught.
        if trigger not in self._leaving.get(state, ()):
            raise IllegalStep(state, trigger)
        model = self._enter(state, model_value)
        try:
            if not model.trigger(self._triggers[trigger]):
                raise IllegalStep(state, trigger)
            return self._outer[model.state]
        finally:
            self._machine.remove_model(model)

    def allowed(self, state: str, model_value: M) -> tuple[str, ...]:
        """The triggers that may happen next, in the table's order."""
        leaving = self._leaving.get(state, ())
        if not leaving:
            return ()
        model = self._enter(state, model_value)
        try:
            return tuple(name for name in leaving if model.may_trigger(self._triggers[name]))
        finally:
            self._machine.remove_model(model)

    def _enter(self, state: str, value: M) -> Any:
        model = _Model(value)
        self._machine.add_model(model, initial=self._inner[state])
        return model


def _condition(guard: Callable[[M], bool]) -> Callable[[Any], bool]:
    return lambda event: guard(event.model.value)
