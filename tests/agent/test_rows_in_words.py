"""Rows that people describe in words are predicted, and the amount that they ask for is the column to learn."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent.llm.slots.rows import amount_in, cells_in
from agent.ports import ModelMessage, Role
from tests.agent.planner_talk import answered, called, reply, user

COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "kind": "identifier", "example": "H1"},
    {"name": "area_m2", "kind": "number", "example": "80"},
    {"name": "rooms", "kind": "number", "example": "3"},
    {"name": "year_built", "kind": "number", "example": "1990"},
    {"name": "district", "kind": "category", "example": "south", "values": ["south", "north", "centre"]},
    {"name": "balcony", "kind": "boolean", "example": "no", "values": ["no", "yes"]},
    {"name": "price_eur", "kind": "number", "example": "250000"},
]
REPORT = {
    "text": "800 rows.",
    "dataset": {"name": "houses.csv"},
    "columns": COLUMNS,
    "suggested_task": "tabular_regression",
    "suggested_target": "balcony",
    "problems": [],
}
TRAINED = (
    user("train a model that predicts `price_eur`", "houses.csv"),
    called("inspect_dataset"),
    answered(REPORT),
    called("start_training", "c2", file="houses.csv", target="price_eur", task="tabular_regression"),
    answered({"approval": "approved", "run": "r-abc123"}, "c2"),
    ModelMessage(Role.ASSISTANT, "Run `r-abc123` was started."),
)
RESULTS = (  # of a look at results, whose table has columns of its own
    user("where was it most wrong?"),
    called("run_results", "c3"),
    answered({"text": "", "table": {"columns": ["row", "true"]}}, "c3"),
    ModelMessage(Role.ASSISTANT, "Mistakes of r-abc123."),
)


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (
            "a flat with 80 square metres, 3 rooms, built 1990 in the centre with a balcony",
            {"area_m2": "80", "rooms": "3", "year_built": "1990", "district": "centre", "balcony": "yes"},
        ),
        ("120 m2 and 4 rooms without balcony", {"area_m2": "120", "rooms": "4", "balcony": "no"}),
        ("rooms 3, year_built 1950", {"rooms": "3", "year_built": "1950"}),
        ("rooms=3 year_built=1950", {"rooms": "3", "year_built": "1950"}),
        ("3 rooms year_built 1950", {"rooms": "3", "year_built": "1950"}),
        ("north or south", {}),  # which one is not said
        ("eine Wohnung mit 70 Quadratmetern ohne balcony", {"area_m2": "70", "balcony": "no"}),
    ],
)
def test_cells_are_read_beside_their_columns_by_their_units_and_as_values(words: str, cells: dict[str, str]) -> None:
    assert cells_in(words, COLUMNS) == cells


@pytest.mark.parametrize(
    ("words", "column"),
    [
        ("I want to know what a flat would cost", "price_eur"),
        ("how much is it worth?", "price_eur"),
        ("was kostet eine Wohnung", "price_eur"),
        ("房价是多少", "price_eur"),
        ("what would it cost in which district", "price_eur"),
        ("how long does it take", None),
    ],
)
def test_an_amount_is_asked_for_in_other_words(words: str, column: str | None) -> None:
    assert amount_in(words, [column["name"] for column in COLUMNS if column["kind"] == "number"]) == column


def test_of_two_columns_with_such_an_amount_none_is_guessed() -> None:
    assert amount_in("what does it cost?", ["list_price", "sale_price"]) is None


async def test_the_amount_that_is_asked_for_is_learnt_and_said() -> None:
    asked = user("I have houses.csv and want to know what a flat would cost", "houses.csv")
    planned = await reply(asked, called("inspect_dataset"), answered(REPORT))
    (call,) = planned.calls
    assert json.loads(call.arguments)["target"] == "price_eur"
    assert "I take it that you mean `price_eur`." in planned.text


@pytest.mark.parametrize("before", [TRAINED, (*TRAINED, *RESULTS)], ids=["after the start", "after its results"])
@pytest.mark.parametrize(
    "words",
    [
        "what would a flat with 80 square metres, 3 rooms and a balcony cost?",
        "a flat with 80 m2, 3 rooms and with a balcony",  # no word says that it is to predict
        "predict area_m2=80 rooms=3 balcony=yes",
    ],
)
async def test_a_row_in_words_is_predicted_and_what_nobody_said_is_named(
    before: Sequence[ModelMessage], words: str
) -> None:
    predicted = await reply(*before, user(words))
    (call,) = predicted.calls
    assert call.name == "predict"
    (row,) = json.loads(call.arguments)["rows"]
    assert row == {"area_m2": "80", "rooms": "3", "balcony": "yes", "year_built": "", "district": ""}
    assert predicted.text == "I count `year_built`, `district` as unknown. Say more with “year_built=…”."


async def test_another_training_stays_one_though_it_names_columns() -> None:
    again = await reply(*TRAINED, user("train it again with 3 rooms and 80 m2 left out"))
    assert all(call.name != "predict" for call in again.calls)


@pytest.mark.parametrize(
    ("answer", "tool", "settings"),
    [
        ("rounds 200", "start_training", {"rounds": 200}),  # what the question itself offers
        ("with 200 rounds instead", "start_training", {"rounds": 200}),
        ("go on without it", "start_training", {}),
        ("which mistakes did it make?", "run_chart", {}),  # a question of its own
        ("with wobble 8", "ask_user", {}),
    ],
)
async def test_what_was_not_read_is_said_otherwise_left_out_or_let_be(
    answer: str, tool: str, settings: dict[str, int]
) -> None:
    asked = user("train it again with seed 3 and wobble 7")
    question = await reply(*TRAINED, asked)
    (asks,) = question.calls
    assert asks.name == "ask_user"
    said = answered({"text": f"alice answered: {answer}"}, asks.id)
    made = await reply(*TRAINED, asked, ModelMessage(Role.ASSISTANT, "", (asks,)), said)
    (call,) = made.calls
    arguments = json.loads(call.arguments)
    assert call.name == tool
    assert arguments.get("settings", {}) == settings
    assert arguments.get("seed", 3) == 3


@pytest.mark.parametrize("words", ["leave the id out", "leave out the rooms", "don't use the district"])
async def test_a_column_is_taken_out_of_a_plan_that_waits(words: str) -> None:
    waits = answered({"approval": "pending"}, "c2")
    changed = await reply(*TRAINED[:4], waits, ModelMessage(Role.ASSISTANT, "", ()), user(words))
    (call,) = changed.calls
    assert call.name == "start_training"
    assert json.loads(call.arguments)["drop_columns"] == [words.split()[-1] if words.split()[-1] != "out" else "id"]


SALES = {
    "text": "1,500 rows.",
    "dataset": {"name": "sales.csv"},
    "columns": [
        {"name": "day", "kind": "datetime", "example": "2024-01-01"},
        {"name": "store", "kind": "category", "example": "Berlin", "values": ["Berlin", "Paris"]},
        {"name": "units", "kind": "number", "example": "120"},
    ],
    "suggested_task": "time_series_forecasting",
    "suggested_target": "units",
    "spacing": "day",
    "problems": [],
}
FORECAST = (
    user("forecast units", "sales.csv"),
    called("inspect_dataset"),
    answered(SALES),
    called("start_training", "c2", file="sales.csv", target="units", task="time_series_forecasting"),
    answered({"approval": "approved", "run": "r-abc123"}, "c2"),
    ModelMessage(Role.ASSISTANT, "Run `r-abc123` was started."),
)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("and for the next 3 days?", {"horizon": 3}),  # no row with a day of 3
        ("what would happen with 30 days?", {"horizon": 30}),
        ("and how about 2 weeks?", {"horizon": 14}),
    ],
)
async def test_days_ahead_of_a_series_are_a_horizon_though_a_column_is_called_day(
    words: str, arguments: dict[str, int]
) -> None:
    (call,) = (await reply(*FORECAST, user(words))).calls
    assert (call.name, json.loads(call.arguments)) == ("predict", arguments)


@pytest.mark.parametrize("words", ["how sure is that?", "and how accurate is it?", "wie sicher ist das?"])
async def test_how_sure_an_answer_is_stands_in_the_results(words: str) -> None:
    (call,) = (await reply(*FORECAST, user(words))).calls
    assert call.name in {"run_results", "run_status"}


async def test_minutes_of_a_pause_are_no_horizon() -> None:
    made = await reply(*FORECAST, user("pause it for 10 minutes"))
    assert all(call.name != "predict" for call in made.calls)


@pytest.mark.parametrize(
    ("words", "otherwise"),
    [
        ("and without a balcony?", {"balcony": "no"}),
        ("what about 4 rooms?", {"rooms": "4"}),
        ("und mit 100 Quadratmetern?", {"area_m2": "100"}),
    ],
)
async def test_a_question_after_a_prediction_changes_its_row(words: str, otherwise: dict[str, str]) -> None:
    row = {"area_m2": "80", "rooms": "3", "year_built": "", "district": "", "balcony": "yes"}
    before = (
        *TRAINED,
        user("80 square metres, 3 rooms with a balcony"),
        called("predict", "c3", rows=[row]),
        answered({"text": "250,000"}, "c3"),
        ModelMessage(Role.ASSISTANT, "250,000"),
    )
    (call,) = (await reply(*before, user(words))).calls
    assert call.name == "predict"
    assert json.loads(call.arguments)["rows"] == [row | otherwise]
    again = await reply(*before, user("and train it again without the balcony"))
    assert [call.name for call in again.calls] == ["start_training"]
