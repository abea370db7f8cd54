"""The journal against a plain list: two stores on one home, torn tails, restarts, wrong writers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentlink.core.ids import TaskId
from agentlink.core.launch.history import StaleTask
from agentlink.core.launch.state import IllegalFact, fold
from tests.journal.home import A, B, C, Journal
from tests.strategies import ANY_TASK_FACT, legal_facts, legal_kinds

TASKS = st.sampled_from((A, B, C))
STORES = st.integers(0, 1)


class JournalModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.home = Path(tempfile.mkdtemp())
        self.stores = [Journal(self.home), Journal(self.home)]
        self.lines: list[tuple[TaskId | None, tuple[Any, ...]]] = []
        self.torn: list[bytes] = []
        self.tail = b""

    def teardown(self) -> None:
        if hasattr(self, "home"):
            shutil.rmtree(self.home)

    def facts_of(self, task: TaskId) -> list[Any]:
        return [fact for owner, facts in self.lines if owner == task for fact in facts]

    def n_of(self, task: TaskId) -> int:
        return sum(owner == task for owner, _ in self.lines)

    def mended(self) -> None:
        if self.tail:
            self.lines.append((None, ()))
            self.torn.append(self.tail)
            self.tail = b""

    @rule(store=STORES, task=TASKS, data=st.data())
    def append(self, store: int, task: TaskId, data: st.DataObject) -> None:
        facts = data.draw(legal_facts(max_size=3, launch=fold(self.facts_of(task))))
        if facts:
            view = self.stores[store].append(task, *facts, n=self.n_of(task))
            self.mended()
            self.lines.append((task, tuple(facts)))
            assert (view.n, view.launch) == (self.n_of(task), fold(self.facts_of(task)))

    @rule(store=STORES, task=TASKS, fact=ANY_TASK_FACT, off=st.sampled_from((-1, 1, 5)))
    def append_with_a_stale_expectation(self, store: int, task: TaskId, fact: Any, off: int) -> None:
        with pytest.raises(StaleTask):
            self.stores[store].append(task, fact, n=self.n_of(task) + off)
        self.mended()

    @rule(store=STORES, task=TASKS, fact=ANY_TASK_FACT)
    def append_what_cannot_follow(self, store: int, task: TaskId, fact: Any) -> None:
        if type(fact) not in legal_kinds(fold(self.facts_of(task))):
            with pytest.raises(IllegalFact):
                self.stores[store].append(task, fact, n=self.n_of(task))
            self.mended()

    @rule(tail=st.binary(min_size=1, max_size=40).map(lambda raw: raw.replace(b"\n", b"x")))
    def die_while_writing(self, tail: bytes) -> None:
        self.stores[0].file.parent.mkdir(parents=True, exist_ok=True)
        with self.stores[0].file.open("ab") as file:
            file.write(tail)
        self.tail += tail

    @rule(store=STORES)
    def restart(self, store: int) -> None:
        self.stores[store] = Journal(self.home)

    @rule()
    def lose_the_head(self) -> None:
        self.stores[0].head.unlink(missing_ok=True)

    @rule(store=STORES)
    def look(self, store: int) -> None:
        journal = self.stores[store]
        order = list(dict.fromkeys(owner for owner, _ in self.lines if owner is not None))
        assert journal.page() == order[::-1]
        for task in order:
            expected = [(seq, facts) for seq, (owner, facts) in enumerate(self.lines, 1) if owner == task]
            assert [(seq, facts) for seq, _, facts in journal.history(task)] == expected
            assert [n for _, n, _ in journal.history(task)] == list(range(1, len(expected) + 1))

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "home"):
            assert self.stores[0].problem() is None
            kept = sorted(path.read_bytes() for path in self.home.glob("journal/*.torn"))
            assert kept == sorted(self.torn)


JournalModel.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
TestJournalAgainstAList = JournalModel.TestCase
