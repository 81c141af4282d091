"""Requests of users that the planner without a model once took for others: horizons with units, files, refusals."""

import json
from typing import Any

import pytest

from agent.domain.errors import BadRequest
from agent.llm.slots.horizons import ahead_in, steps_of
from tests.agent.planner_talk import SALES, after_a_look, answered, called, planned, reply, user


@pytest.mark.parametrize(
    ("words", "spacing", "steps"),
    [
        ("forecast the load for the next 2 days", "hour", 48),
        ("forecast load for the next week", "hour", 168),
        ("3 days", "hour", 72),
        ("forecast 36 hours ahead", "hour", 36),
        ("for tomorrow", "15 minutes", 96),
        ("the next 90 minutes", "15 minutes", 6),
        ("the next 3 months", "day", 90),
        ("the next two weeks", "working day", None),
        ("a year ahead", "month", 12),
        ("the coming quarter", "week", 13),
        ("horizon 24", "month", 24),
        ("the next 2 days", "", None),
    ],
)
def test_how_far_ahead_is_counted_in_steps_of_the_data(words: str, spacing: str, steps: int | None) -> None:
    span = ahead_in(words, of_series=True)
    assert (steps_of(span, spacing) if span else None) == steps


def test_what_is_shorter_than_a_step_is_refused() -> None:
    span = ahead_in("the next 6 hours")
    assert span
    with pytest.raises(BadRequest, match="one day apart"):
        steps_of(span, "day")


async def test_the_unit_of_a_horizon_is_never_dropped() -> None:
    asked = "forecast the units for the next two days"
    hourly = (await after_a_look(asked, SALES | {"spacing": "hour"})).calls[0]
    assert json.loads(hourly.arguments)["settings"] == {"horizon": 48}
    unknown = await after_a_look(asked, SALES)
    assert json.loads(unknown.calls[0].arguments)["settings"] == {"horizon": 2}
    assert "“2 days” as 2 steps" in unknown.text


@pytest.mark.parametrize(
    "words",
    [
        "@kunden.csv what is in here?",
        "what is this file",
        "tell me about this data",
        "what's in it?",
        "have a look at the attached",
        "which columns did you get",
    ],
)
async def test_a_file_that_came_is_looked_at(words: str) -> None:
    (call,) = (await reply(user(words, "kunden.csv"))).calls
    assert (call.name, json.loads(call.arguments)["file"]) == ("inspect_dataset", "kunden.csv")


async def test_a_named_file_and_column_are_never_those_of_an_earlier_plan() -> None:
    asked = (*planned(settings={"rounds": 9}), user("train on kunden.csv, target Kündigt, rounds 50"))
    (look,) = (await reply(*asked)).calls
    assert (look.name, json.loads(look.arguments)["file"]) == ("inspect_dataset", "kunden.csv")
    columns = [{"name": "Alter", "kind": "number"}, {"name": "Kündigt", "kind": "category"}]
    report: dict[str, Any] = {"text": "", "dataset": {"name": "kunden.csv"}, "columns": columns, "problems": []}
    told = (called(look.name, "c9", **json.loads(look.arguments)), answered(report, "c9"))
    (plan,) = (await reply(*asked, *told)).calls
    wanted = {"file": "kunden.csv", "target": "Kündigt", "settings": {"rounds": 50}}
    assert (plan.name, json.loads(plan.arguments)) == ("start_training", wanted)


async def test_a_setting_that_a_recipe_lacks_is_said_and_the_rest_is_planned() -> None:
    asked = (*planned(), user("actually, make it 3 folds and only 5 minutes"))
    (plan,) = (await reply(*asked)).calls
    given = json.loads(plan.arguments)
    assert given["settings"] == {"folds": 3}
    refused = answered({"error": "There is no setting “folds”. The settings are: rounds, seed."}, "c9")
    again = await reply(*asked, called("start_training", "c9", **given), refused)
    assert again.text.startswith("There is no setting “folds”.")
    assert json.loads(again.calls[0].arguments) == {
        "file": "visits.csv",
        "target": "visited_doctor",
        "max_hours": given["max_hours"],
    }
    alone = (*planned(), user("again with 3 folds"), called("start_training", "c9", **given), refused)
    assert not (await reply(*alone)).calls


async def test_who_wants_all_deleted_hears_of_the_commands() -> None:
    said = await reply(user("please delete everything"))
    assert not said.calls
    assert "`forget me`" in said.text
    assert "`new`" in said.text


@pytest.mark.parametrize(
    ("task", "example", "no_example"),
    [("time_series_forecasting", "horizon 24", "rounds"), ("tabular_classification", "rounds 200", "horizon")],
)
async def test_examples_fit_the_data(task: str, example: str, no_example: str) -> None:
    report = SALES | {"suggested_task": task, "suggested_target": "units"}
    said = await after_a_look("train a model that predicts `units`, somewhat longer, 3 blocks", report)
    asked = json.loads(said.calls[0].arguments)["question"]
    assert example in asked
    assert no_example not in asked


@pytest.mark.parametrize(
    "words",
    [
        "the others are first in line, as always",
        "the live card looks fine with log scale",
        "nobody should touch the run before noon",
        "it was a mistake to pause it",
        "the old context was useful",
        "our budget for the channel was $50 last year",
    ],
)
async def test_what_is_only_told_changes_nothing(words: str) -> None:
    assert not (await reply(*planned(), user(words))).calls
