"""The offline planner: what is to be predicted, how far ahead, how soon."""

import json
import math
import time
from typing import Any

import pytest

from agent.domain.datasets import ColumnReport, DataReport, DatasetRef
from agent.domain.orders import InspectOrder
from tests.agent.conftest import Harness
from tests.agent.planner_talk import (
    REPORT,
    SALES,
    after_a_look,
    after_a_run,
    answered,
    called,
    planned,
    reply,
    user,
)
from tests.agent.test_turns import attached
from tests.fakes import said


async def test_the_end_of_a_very_long_text_is_not_read_but_its_file_is() -> None:
    (call,) = (await reply(user("train a model " + "of these customers " * 900, "a.csv"))).calls
    asked = json.loads(call.arguments)
    assert (call.name, asked["file"]) == ("inspect_dataset", "a.csv")
    assert len(asked["about"]) <= 300
    answer = await reply(user("purple " * 2000 + "stop r-abc123"))
    assert not answer.calls


@pytest.mark.parametrize("word", ["purple ", "to ", "model ", "show ", "who ", "logs ", "r-abc123 "])
async def test_no_text_takes_long_to_read(word: str) -> None:
    """It is read in the process of everybody: ten times as much text takes no hundred times as long."""

    async def taken_s(length: int) -> float:
        best = math.inf
        for _ in range(3):
            began = time.perf_counter()
            await reply(user(word * (length // len(word)) + "!"))
            best = min(best, time.perf_counter() - began)
        return best

    assert await taken_s(4_000) < 40 * await taken_s(400)


async def test_a_plan_without_an_earlier_one_looks_at_the_data() -> None:
    (call,) = (await reply(user("train it again with 200 rounds"))).calls
    assert call.name == "inspect_dataset"
    assert not (await reply(user("use health instead"))).calls


async def test_a_file_with_words_that_name_a_target_is_trained_on_where_nothing_can_predict() -> None:
    wants = user("please predict churn from this", "a.csv")
    assert [call.name for call in (await reply(wants)).calls] == ["inspect_dataset"]
    assert [call.name for call in (await reply(*planned(), wants)).calls] == ["inspect_dataset"]  # another column
    same = user("please predict who visited the doctor in this", "a.csv")
    assert [call.name for call in (await reply(*planned(), same)).calls] == ["predict"]
    rows = user("predict on this", "a.csv")
    assert [call.name for call in (await reply(rows)).calls] == ["predict"]
    assert [call.name for call in (await reply(*planned(), rows)).calls] == ["predict"]


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("I don't know what's best, so train a model that predicts health", "health"),
        ("train, the target should be health", "health"),
        ("train a model that predicts health, don't use `age`", "health"),
    ],
)
async def test_only_what_names_the_target_is_the_target(words: str, target: str) -> None:
    asked = user(words)
    (look,) = (await reply(asked)).calls
    assert json.loads(look.arguments).get("target", target) == target
    (call,) = (await reply(asked, called("inspect_dataset"), answered(REPORT))).calls
    assert json.loads(call.arguments)["target"] == target


async def test_yes_means_what_was_offered(harness: Harness, csv: Any) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("", files=attached(csv)))
        await harness.until(lambda: any("Shall I train a model" in text for text in harness.adapter.texts()))
        await brain.router.accept(said("yes please"))
        await harness.until(lambda: any(c.card and c.card.kind == "approval" for c in harness.adapter.shown))
        await brain.router.accept(said("no thanks"))
        await harness.until(lambda: any("nothing was started" in text for text in harness.adapter.texts()))
        await brain.router.accept(said("no"))
        await harness.until(lambda: any("leave everything as it is" in text for text in harness.adapter.texts()))
        assert harness.fleet.launched == []


async def test_a_file_with_hundreds_of_columns_can_be_trained_on(harness: Harness, csv: Any) -> None:
    async def wide(order: InspectOrder) -> DataReport:
        names = [f"a_column_with_a_long_name_{number}" for number in range(400)] + ["churn"]
        columns = [ColumnReport(name=name, kind="number", missing=0, unique=9, example="1") for name in names]
        return DataReport(
            dataset=DatasetRef(sha256="a" * 64, name=csv.name, size_bytes=9),
            rows=10,
            columns=tuple(columns),
            duplicate_rows=0,
            encoding="utf-8",
            delimiter=",",
            preview=(),
        )

    harness.fleet.inspect = wide  # type: ignore[method-assign]
    async with harness.open() as brain:
        await brain.router.accept(said("train a model that predicts `churn`", files=attached(csv)))
        await harness.until(lambda: any(c.card and c.card.kind == "approval" for c in harness.adapter.shown))
        facts = [fact for c in harness.adapter.shown if c.card for fact in c.card.facts if fact.name == "Target"]
        assert [fact.value for fact in facts] == ["churn"]


@pytest.mark.parametrize(
    ("words", "priority"),
    [
        ("give r-abc123 high priority", "high"),
        ("prioritise r-abc123", "high"),
        ("set the priority of r-1bc123 to -1.", "low"),
        ("set the priority of r-1bc123 to +1", "high"),
        ("set priority 0 for it", "normal"),
        ("give it a lower priority", "low"),
        ("move r-1bc123 to the lowest priority", "low"),
        ("move r-1bc123 down in priority", "low"),
        ("give it less priority", "low"),
        ("put r-1bc123 at the bottom of the priority list", "low"),
        ("make its priority below normal", "low"),
        ("deprioritise r-abc123", "low"),
        ("raise the priority", "high"),
        ("lower the priority from high to normal", "normal"),
        ("set the priority of r-abc123 to high, it is urgent", "high"),
        ("make r-abc123 high priority, it is important", "high"),
        ("make the current run high priority", "high"),
        ("give r-abc123 high priority, the client waits", "high"),
        ("give r-abc123 low priority, there is no hurry", "low"),
        ("lower the priority of r-abc123, it isn't urgent", "low"),
        ("raise the priority of my last run", "high"),
        ("raise the priority, it is too low", "high"),
        ("give r-abc123 high priority, it needs 2 gpus", "high"),
        ("prioritize r-abc123, 2 people are waiting", "high"),
        ("raise the priority of r-abc123 for a demo", "high"),
        ("make r-abc123 high priority for a customer", "high"),
        ("increase the priority of r-abc123 by 1", "high"),
        ("set priority: low", "low"),
        ("lower its priority, others may go first", "low"),
        ("this is not urgent, lower its priority", "low"),
        ("this one can wait, the others are in a hurry", "low"),
        ("not so urgent, let the others run first", "low"),
    ],
)
async def test_a_priority_is_read_in_words_and_in_numbers(words: str, priority: str) -> None:
    (call,) = (await reply(user(words))).calls
    assert (call.name, json.loads(call.arguments)["priority"]) == ("set_priority", priority)


@pytest.mark.parametrize(
    "words",
    ["set the priority of r-abc123 to 2", "set r-abc123 to not high priority", "make it high priority, not low"],
)
async def test_a_priority_that_is_not_clear_is_asked_for(words: str) -> None:
    answer = await reply(user(words))
    assert not answer.calls
    assert "how soon" in answer.text


@pytest.mark.parametrize(
    ("words", "horizon"),
    [
        ("train a model for the coming 24 hours", 24),
        ("train a forecast 6 weeks out", 6),
        ("48h ahead forecast, please", 48),
        ("train a forecast of 13 steps", 13),
        ("train a weekly forecast for each shop, 10 weeks, 2 hours at most", 10),
        ("trainiere eine Prognose für die nächsten 10 Tage", 10),
    ],
)
async def test_an_amount_over_time_is_forecast_that_far_ahead(words: str, horizon: int) -> None:
    (call,) = (await after_a_look(words, SALES)).calls
    plan = json.loads(call.arguments)
    assert (plan["target"], plan["settings"]) == ("units", {"horizon": horizon})


@pytest.mark.parametrize(
    ("words", "tool", "horizon"),
    [
        ("forecast the next two weeks", "predict", 14),
        ("and for the next 3 days?", "predict", 3),
        ("prognostiziere die nächsten 10 Tage", "predict", 10),
        ("train it again for the next two weeks", "start_training", 14),
    ],
)
async def test_a_model_of_series_forecasts_other_horizons(words: str, tool: str, horizon: int) -> None:
    (call,) = (await after_a_run(words, {**SALES, "spacing": "day"}, target="units")).calls
    found = json.loads(call.arguments)
    assert (call.name, found.get("horizon") or found["settings"]["horizon"]) == (tool, horizon)


@pytest.mark.parametrize(
    ("words", "tool", "k"),
    [
        ("what are the groups like?", "run_results", None),
        ("how many clusters did you find", "run_results", None),
        ("wie sehen die Gruppen aus?", "run_results", None),
        ("try it with 5 groups", "start_training", 5),
        ("4 segments instead please", "start_training", 4),
    ],
)
async def test_words_on_clusters_are_about_those_that_were_found(words: str, tool: str, k: int | None) -> None:
    report = {**SALES, "suggested_task": "tabular_classification"}
    (call,) = (await after_a_run(words, report, task="clustering")).calls
    assert (call.name, json.loads(call.arguments).get("settings", {}).get("k")) == (tool, k)


async def test_no_identifier_is_guessed_as_the_target_and_no_unknown_column_dropped() -> None:
    columns = [{"name": "customer_id", "kind": "identifier"}, {"name": "year_built", "kind": "number"}]
    report = {**SALES, "columns": [*columns, {"name": "left", "kind": "category"}], "suggested_target": "left"}
    report["suggested_task"] = "tabular_classification"
    (call,) = (await after_a_look("train a model to predict whether a customer leaves", report)).calls
    assert (call.name, json.loads(call.arguments)["target"]) == ("start_training", "left")
    (call,) = (await after_a_look("trainiere auf left, ohne das Baujahr", report)).calls
    assert json.loads(call.arguments)["drop_columns"] == ["year_built"]
    (call,) = (await after_a_look("trainiere auf left, ohne das Gewicht", report)).calls
    assert (call.name, "das Gewicht" in json.loads(call.arguments)["question"]) == ("ask_user", True)
