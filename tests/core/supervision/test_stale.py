from __future__ import annotations

import pytest

from agentlink.core.host.values import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    Event,
    ModelChanged,
    ModelChoice,
    PresetChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from agentlink.core.supervision.digest import digest
from agentlink.core.supervision.stale import what_changed

TASK = "dsh_0123456789ab"
AT = {"seq": 1, "time_ms": 1}


def changed(event: Event, *, session: str | None = None) -> str | None:
    told = digest(event, task=TASK, session=session)
    return None if told is None else what_changed([told])


@pytest.mark.parametrize(
    "event",
    [
        TurnEnded(turn=1, kind="completed", **AT),
        ApprovalAsked(approval="a", **AT),
        ApprovalDecided(approval="a", outcome="rejected", **AT),
        ToolCalled(call="q", name="ask_user_question", **AT),
        ToolEnded(call="q", text='{"answers":[]}', **AT),
        ToolEnded(call="q", failed=True, error_code="ASK_ABORTED", **AT),
        UserMessage(request="somebody.1.0", by_person=True, text="hi", **AT),
        UserMessage(request=None, by_person=True, text="hi", **AT),
        PresetChanged(preset="other", **AT),
        ModelChanged(model=ModelChoice("p", "m"), **AT),
    ],
)
def test_news_that_a_writer_has_to_know_makes_its_view_stale(event: Event) -> None:
    assert changed(event)
    assert changed(event, session="child") is None


@pytest.mark.parametrize(
    "event",
    [
        TurnStarted(turn=1, **AT),
        AssistantMessage(text="on my way", calls_tools=True, **AT),
        ToolCalled(call="t", name="bash", arguments="{}", **AT),
        ToolEnded(call="t", text="(no output)", **AT),
        UserMessage(request=f"{TASK}.1.3", by_person=True, text="ours", **AT),
        UserMessage(request=None, by_person=False, source="runtime-context", **AT),
        UserMessage(request=None, by_person=False, source="subagent-settled", reports="c", **AT),
    ],
)
def test_our_own_prompts_and_the_agents_work_make_no_view_stale(event: Event) -> None:
    assert changed(event) is None
