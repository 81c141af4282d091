"""Requests as strangers said them: columns ruled out, acts amid talk, looks instead of acts, what is none of ours."""

import json
from typing import Any

import pytest

from agent.llm.offline import OfflinePlanner
from agent.llm.slots.limits import reach_said
from agent.llm.slots.rows import cells_in
from agent.llm.slots.settings import held_out_in, text_column_in
from agent.tools.targets import left_out, target_in
from tests.agent.heldout import Said, judged_of
from tests.agent.planner_talk import answered, called, reply, user

SALES = ("month", "store", "price", "units")
CUSTOMERS = ("customer_id", "age", "plan", "monthly_fee", "signup_date", "complaint", "churned")


@pytest.mark.parametrize(
    ("words", "names", "unwanted", "target"),
    [
        ("forecast units. price mustn't go in, we only set it afterwards", SALES, ("price",), "units"),
        ("predict units and price must not be used", SALES, ("price",), "units"),
        ("predict churned; age is off the table", CUSTOMERS, ("age",), "churned"),
        ("predict churned. signup_date and complaint are not to be used", CUSTOMERS, CUSTOMERS[4:6], "churned"),
        ("prédis churned, signup_date ne doit pas entrer", CUSTOMERS, ("signup_date",), "churned"),
        ("predice churned, signup_date no debe entrar", CUSTOMERS, ("signup_date",), "churned"),
        ("预测churned,complaint和signup_date这两列别用", CUSTOMERS, CUSTOMERS[4:6], "churned"),
        (
            "predict the stars from the review, topic must not be used",
            ("review", "topic", "stars"),
            ("topic",),
            "stars",
        ),
        ("predict churned from age, plan and monthly_fee", CUSTOMERS, (), "churned"),
        (
            "predict readmission, whole patients together in the split (patient_id)",
            ("patient_id", "readmitted"),
            (),
            "",
        ),
    ],
)
def test_columns_that_may_not_be_used_are_left_out(
    words: str, names: tuple[str, ...], unwanted: tuple[str, ...], target: str
) -> None:
    assert set(left_out(words, names)) == set(unwanted)
    assert target_in(words, names)[0] == (target or "readmitted")


@pytest.mark.parametrize(
    ("words", "share"),
    [
        ("train on half the rows and test on the other half", 0.5),
        ("ein Modell für price trainieren, ein Viertel als Testdaten", 0.25),
        ("keep a third for testing", 1 / 3),
        ("half of the customers leave", None),
    ],
)
def test_a_part_in_words_is_kept_for_the_test(words: str, share: float | None) -> None:
    assert held_out_in(words) == share


def test_a_text_column_is_named_by_what_is_read() -> None:
    assert text_column_in("use just the notes to tell who comes back", ["notes"]) == "notes"
    assert text_column_in("Trainier das bitte auf body", ["subject", "body"]) == "body"
    assert reach_said("fit it, and keep it off the internet") == {"network": "none"}


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        ("what about someone who's 45 on pro paying 30?", {"age": "45", "plan": "pro", "monthly_fee": "30"}),
        (
            "was sagt es zu einer 60-Jährigen im Tarif basic für 12 Euro?",
            {"age": "60", "plan": "basic", "monthly_fee": "12"},
        ),
        ("a customer aged 23, pro and con", {"age": "23"}),  # “pro” is no plan there
    ],
)
def test_a_person_is_described_in_words(words: str, cells: dict[str, str]) -> None:
    columns: list[dict[str, Any]] = [
        {"name": "age", "kind": "number"},
        {"name": "plan", "kind": "category", "values": ["basic", "plus", "pro"]},
        {"name": "monthly_fee", "kind": "number"},
    ]
    assert cells_in(words, columns) == cells


@pytest.mark.parametrize(
    ("context", "words", "tool"),
    [
        ("running", "Sorry to be a pain, but could you pause it while our webinar is on?", "pause_run"),
        ("running", "mets en pause le temps que Julien finisse", "pause_run"),
        ("paused", "Legal has signed off on the data now. You can let r-abc123 go on.", "resume_run"),
        ("queued", "bump this up, the board deck depends on it", "set_priority"),
        ("running", "dont stop it, just show me valid/loss", "run_chart"),
        ("paused", "did somebody pause this?", "run_status"),
        ("two", "what differs between these two runs?", "compare_runs"),
        ("finished", "imagine we'd trained it with lr 1.0, that would have exploded right", ""),
        ("tickets.csv", "Hey @Marek, please train the new hires on the billing queue this week", ""),
        ("finished", "can you submit the model to the app store for us?", ""),
        ("train.py_data.csv", "skip my script, just fit y from x with your own stuff", "start_training"),
    ],
)
async def test_what_is_said_amid_talk_is_done_and_what_is_none_of_ours_is_not(
    context: str, words: str, tool: str
) -> None:
    right = ((tool, {}),) if tool else ()
    (verdict,) = await judged_of(OfflinePlanner(), [Said("1", "en", words, context, right)])
    assert verdict.kind == "right", verdict


def test_a_plan_is_no_column_where_the_word_is_a_verb() -> None:
    assert target_in("plan a new one like it", CUSTOMERS) == (None, False)
    assert target_in("predict plan for each customer", CUSTOMERS) == ("plan", True)


async def test_one_reading_alone_is_offered_and_an_act_is_not() -> None:
    report = {"text": "", "dataset": {"name": "a.csv"}, "columns": [{"name": "x", "kind": "number"}], "problems": []}
    before = (user("train a model that predicts `x`", "a.csv"), called("inspect_dataset"), answered(report))
    for words in ("stop the third one", "kill the worse one"):
        assert not (await reply(*before, user(words))).calls
    (call,) = (await reply(user("train a model that predicts y w/o the x column", "a.csv"))).calls
    assert json.loads(call.arguments)["file"] == "a.csv"


@pytest.mark.parametrize(
    "words",
    ["thanks a lot, that was quick", "vielen Dank, super gemacht", "谢谢，辛苦了", "merci, c'est parfait"],
)
async def test_thanks_are_answered_with_whatever_is_said_beside_them(words: str) -> None:
    assert (await reply(user(words))).text == "You are welcome."


async def test_thanks_before_a_request_hide_nothing_of_it() -> None:
    for words in ("thanks! now train a model that predicts y", "next train a model", "nothing yet? then train a model"):
        (call,) = (await reply(user(words, "a.csv"))).calls
        assert call.name == "inspect_dataset"
    for words in ("no, train nothing", "do not train a model yet", "never train it", "n'entraîne rien"):
        assert not (await reply(user(words, "a.csv"))).calls
