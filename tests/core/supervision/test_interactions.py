from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.core.host.timeline import Timeline, fold_all
from agentlink.core.host.values import (
    ApprovalAsked,
    AskedApproval,
    AskedQuestions,
    Attached,
    ToolCalled,
    TurnStarted,
)
from agentlink.core.supervision.interactions import (
    MAX_ARGUMENTS,
    MAX_REASON,
    MAX_SHOWN,
    Answer,
    BadAnswer,
    Option,
    Pending,
    Question,
    checked_answers,
    offers_for,
    pending_items,
    questions_in_call,
    questions_in_offer,
    says_the_same,
    shown,
)

Q1 = Question(id="q1", question="Which?", options=(Option("Yes"), Option("No")))
Q2 = Question(id="q2", question="More?", options=(Option("A"), Option("B"), Option("C")), multi_select=True)
Q3 = Question(id="q3", question="Free?")
QUESTIONS = (Q1, Q2, Q3)
GOOD = (Answer("q3", custom="text"), Answer("q1", custom="later"), Answer("q2", ("A", "C"), "also D"))
ARGUMENTS = (
    '{"questions":[{"id":"q1","question":"Which?","options":[{"label":"Yes"},{"label":"No"}],"multi_select":false},'
    '{"id":"q2","question":"More?","options":[{"label":"A"},{"label":"B"},{"label":"C"}],"multi_select":true},'
    '{"id":"q3","question":"Free?"}]}'
)


def test_a_good_answer_goes_back_with_the_issued_ids_in_the_issued_order() -> None:
    assert checked_answers(QUESTIONS, GOOD) == [
        {"id": "q1", "selected": [], "custom": "later"},
        {"id": "q2", "selected": ["A", "C"], "custom": "also D"},
        {"id": "q3", "selected": [], "custom": "text"},
    ]


@pytest.mark.parametrize(
    ("changed", "question"),
    [
        ((Answer("Which?", ("Yes",)), GOOD[0], GOOD[2]), "Which?"),
        ((Answer("q1", ("Maybe",)), GOOD[0], GOOD[2]), "q1"),
        ((GOOD[1], GOOD[0], Answer("q2", ("A", "A"))), "q2"),
        ((GOOD[1], GOOD[2]), "q3"),
        ((GOOD[1], GOOD[2], Answer("q3", custom="  ")), "q3"),
        ((Answer("q1", ("Yes",), "and more"), GOOD[0], GOOD[2]), "q1"),
        ((Answer("q1", ("Yes", "No")), GOOD[0], GOOD[2]), "q1"),
        ((*GOOD, Answer("q1", ("Yes",))), "q1"),
        ((GOOD[1], GOOD[2], Answer("q3", ("Yes",))), "q3"),
        ((), "q1"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_its_question(changed: tuple[Answer, ...], question: str) -> None:
    with pytest.raises(BadAnswer) as bad:
        checked_answers(QUESTIONS, changed)
    assert bad.value.question == question


def test_an_unknown_label_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadAnswer) as bad:
        checked_answers(QUESTIONS, (Answer("q1", ("Maybe",)), GOOD[0], GOOD[2]))
    assert bad.value.allowed == ("Yes", "No")


def test_a_question_may_be_skipped_by_saying_so() -> None:
    assert checked_answers((Q1, Q3), (Answer("q1"), Answer("q3"))) == [
        {"id": "q1", "selected": []},
        {"id": "q3", "selected": []},
    ]


@given(
    st.lists(
        st.builds(
            Answer,
            st.sampled_from(("q1", "q2", "q3", "q4")),
            st.lists(st.sampled_from(("Yes", "No", "A", "B", "?")), max_size=3).map(tuple),
            st.none() | st.sampled_from(("", " ", "own")),
        ),
        max_size=5,
    )
)
def test_whatever_is_sent_answers_every_question_once_with_labels_of_its_own(answers: list[Answer]) -> None:
    try:
        sent = checked_answers(QUESTIONS, answers)
    except BadAnswer:
        return
    assert [one["id"] for one in sent] == ["q1", "q2", "q3"]
    for question, one in zip(QUESTIONS, sent, strict=True):
        labels = [option.label for option in question.options]
        assert set(one["selected"]) <= set(labels)
        assert len(one["selected"]) == len(set(one["selected"]))
        assert one.get("custom", "x").strip()
        if not question.multi_select:
            assert len(one["selected"]) + ("custom" in one) <= 1


def test_the_log_and_the_offer_spell_the_same_questions() -> None:
    offered = ARGUMENTS.removeprefix('{"questions":').removesuffix("}").replace("multi_select", "multiSelect").encode()
    assert questions_in_call(ARGUMENTS) == questions_in_offer(offered)
    assert [question.id for question in questions_in_call(ARGUMENTS)] == ["q1", "q2", "q3"]


@given(st.text() | st.sampled_from(["{}", '{"questions":1}', "[" * 5000, '{"questions":[{"options":3}]}', "\ud800"]))
def test_any_arguments_give_questions_or_none(text: str) -> None:
    assert isinstance(questions_in_call(text), tuple)
    assert isinstance(questions_in_offer(text.encode("utf-8", "surrogatepass")), tuple)
    assert says_the_same(text, {"answers": 7}) in (False, None)


def test_what_waits_is_named_by_the_call_that_survives_in_the_log() -> None:
    timeline = fold_all(
        Timeline(),
        [
            TurnStarted(seq=0, time_ms=0, turn=1),
            ToolCalled(seq=1, time_ms=1, call="call-q", name="ask_user_question", arguments=ARGUMENTS),
            ToolCalled(seq=2, time_ms=2, call="call-b", name="bash", arguments="{}"),
            ApprovalAsked(seq=3, time_ms=3, approval="id-1", tool="bash", call="call-b", reason="need it"),
            ApprovalAsked(seq=4, time_ms=4, approval="id-2", tool="bash", reason="no call"),
        ],
    )
    approval, other, question = pending_items(timeline)
    assert (approval.request_id, approval.call_id) == ("id-1", "call-b")
    assert (approval.tool, approval.reason) == ("bash", "need it")
    assert (other.request_id, other.call_id) == ("id-2", None)
    assert (question.request_id, question.call_id, len(question.questions)) == ("call-q@1", "call-q", 3)


def test_items_that_a_model_gives_one_call_id_have_names_of_their_own() -> None:
    asked = [ApprovalAsked(seq=2 + n, time_ms=2, approval=f"id-{n}", tool="bash", call="same") for n in range(2)]
    calls = [ToolCalled(seq=4 + n, time_ms=4, call="same", name="ask_user_question", arguments="{}") for n in range(2)]
    start = TurnStarted(seq=0, time_ms=0, turn=1)
    tool = ToolCalled(seq=1, time_ms=1, call="same", name="bash", arguments="{}")
    timeline = fold_all(Timeline(), [start, tool, *asked, *calls])
    names = [item.request_id for item in pending_items(timeline)]
    assert names == ["id-0", "id-1", "same@4", "same@5"]


def test_an_approval_shows_what_the_tool_would_be_called_with() -> None:
    call = ToolCalled(seq=1, time_ms=1, call="c", name="bash", arguments='{"command":"rm -r x"}' + " " * 9_000)
    asked = ApprovalAsked(seq=2, time_ms=2, approval="a", tool="bash", call="c", reason="r" * 9_000)
    (item,) = pending_items(fold_all(Timeline(), [TurnStarted(seq=0, time_ms=0, turn=1), call, asked]))
    assert (item.arguments, item.reason) == (call.arguments, asked.reason)
    (told,) = shown([item])
    assert told.arguments == call.arguments[:MAX_ARGUMENTS]
    assert told.reason == asked.reason[:MAX_REASON]
    assert (told.cut, told.sizes, told.event) == (True, (9_000, len(call.arguments)), "root:1")


def test_an_item_that_is_shown_whole_says_nothing_of_a_cut() -> None:
    item = Pending(request_id="a", kind="approval", tool="bash", reason="r", arguments="{}", event="root:1")
    (told,) = shown([item])
    assert (told.cut, told.sizes, told.event) == (False, None, None)


def test_very_long_questions_are_shown_in_part_and_that_is_said() -> None:
    options = tuple(Option(f"label {n}" * 5_000, "d" * 20_000) for n in range(8))
    long = Question(id="q", question="w" * 90_000, header="h" * 90_000, options=options)
    item = Pending(request_id="c", kind="question", tool="ask_user_question", questions=(long, Q1))
    (cut,) = shown([item])
    assert len(msgspec.json.encode(cut)) < 2 * MAX_SHOWN
    assert cut.cut is True
    assert shown([Pending(request_id="c", kind="question", tool="t", questions=QUESTIONS)])[0].questions == QUESTIONS


def test_an_approval_is_joined_by_its_call_and_a_question_by_its_session_and_content() -> None:
    approval = Pending(request_id="id", kind="approval", tool="bash", reason="r", call_id="call-b")
    mine = AskedApproval("k1", "s", "bash", "call-b", "r")
    others = [AskedApproval("k2", "s", "bash", "call-x", "r"), AskedApproval("k3", "other", "bash", "call-b", "r")]
    assert offers_for(approval, [Attached("c"), *others, mine], session="s") == [mine]
    question = Pending(request_id="call-q", kind="question", tool="ask_user_question", questions=(Q1,))
    same = AskedQuestions("k4", "s", msgspec.json.encode([Q1]))
    twin = AskedQuestions("k5", "s", msgspec.json.encode([Q1]))
    different = AskedQuestions("k6", "s", msgspec.json.encode([Q2]))
    elsewhere = AskedQuestions("k7", "other", msgspec.json.encode([Q1]))
    assert offers_for(question, [same, different, elsewhere, mine], session="s") == [same]
    assert offers_for(question, [same, twin], session="s") == [same, twin]


def test_the_log_tells_whether_it_was_this_very_answer() -> None:
    value = {"answers": checked_answers(QUESTIONS, GOOD)}
    assert says_the_same(msgspec.json.encode(value).decode(), value)
    assert not says_the_same('{"answers":[]}', value)
    assert says_the_same("Error: ASK_ABORTED", value) is None


def test_an_answer_that_the_log_cut_off_is_known_by_its_beginning() -> None:
    value = {"answers": [{"id": "q3", "selected": [], "custom": "x" * 60_000}]}
    whole = msgspec.json.encode(value).decode()
    assert says_the_same(whole[:50_000] + "… [truncated]", value) is True
    assert says_the_same(whole.replace("x", "y")[:50_000] + "…", value) is None
    assert says_the_same(whole[:500] + "…", value) is None


def test_an_answer_that_is_no_text_is_refused_before_anything_is_sent() -> None:
    for bad in (Answer("q3", custom="half \ud800"), Answer("q3", ("\udfff",)), Answer("\ud800", custom="x")):
        with pytest.raises(BadAnswer) as refused:
            checked_answers((Q3,), (bad,))
        refused.value.question.encode()


def test_a_refusal_never_repeats_a_label_of_any_length() -> None:
    with pytest.raises(BadAnswer) as bad:
        checked_answers((Q1,), (Answer("q1", ("w" * 100_000,)),))
    assert len(str(bad.value)) < 500
