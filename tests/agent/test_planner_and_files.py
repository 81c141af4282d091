"""The offline planner: runs and programs that are meant, several files, texts and images."""

import json
from typing import Any

import pytest

from agent.domain.runs import RunState
from agent.llm.slots.models import choices_in
from agent.llm.slots.settings import text_in
from agent.ports import AttachedFile, ModelMessage, Role
from agent.tools.targets import left_out, target_in
from tests.agent.conftest import Harness
from tests.agent.planner_talk import (
    REPORT,
    TEXTS,
    after_a_look,
    after_a_run,
    answered,
    called,
    planned,
    question,
    reply,
    user,
)
from tests.agent.stage import Stage
from tests.fakes import clicked


@pytest.mark.parametrize(
    ("words", "run"),
    [
        ("don't stop r-def456, stop r-abc123", "r-abc123"),
        ("r-def456 is fine. stop r-abc123", "r-abc123"),
        ("pause it as the GPU is needed by r-def456", None),
        ("stop the training, r-def456 is better", None),
        ("kill r-abc123, r-def456 is the good one", "r-abc123"),
        ("Please stop R-ABC123", "r-abc123"),
    ],
)
async def test_a_run_that_only_the_reason_names_is_left_alone(words: str, run: str | None) -> None:
    answer = await reply(user(words))
    assert [json.loads(call.arguments)["run"] for call in answer.calls] == ([run] if run else [])
    assert run or "which run is meant" in answer.text


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("run this with MODE=fast and N_STEPS=20", {"environment": {"MODE": "fast", "N_STEPS": "20"}}),
        ("run this, it needs WANDB_API_KEY and the hub", {"secrets": ["WANDB_API_KEY"]}),
        ("run it with weights from the hub", {"network": "hub"}),
        ("starte das Skript auf zwei GPUs für eine Stunde", {"gpus": 2, "max_hours": 1}),
        ("lance ce script avec --lr 0.3", {"arguments": "--lr 0.3"}),
        ("ejecuta esto en gpu-2", {"host": "gpu-2"}),
        ("python fit.py --epochs 3 --fast, 1 gpu, 8h", {"arguments": "--epochs 3 --fast", "gpus": 1, "max_hours": 8}),
    ],
)
async def test_a_program_gets_what_is_said_of_it(words: str, arguments: dict[str, Any]) -> None:
    (call,) = (await reply(user(words, "fit.py"))).calls
    assert (call.name, json.loads(call.arguments)) == ("start_script", {"file": "fit.py"} | arguments)


async def test_of_two_files_the_one_with_the_column_is_learned_from() -> None:
    asked = user("train a model that predicts visited_doctor", "docstrings.csv", "visits.csv")
    looks = (asked, called("inspect_dataset", "a"), answered(TEXTS, "a"))
    (look,) = (await reply(*looks)).calls
    assert (look.name, json.loads(look.arguments)["file"]) == ("inspect_dataset", "visits.csv")
    (plan,) = (await reply(*looks, called("inspect_dataset", "b"), answered(REPORT, "b"))).calls
    assert json.loads(plan.arguments) == {"file": "visits.csv", "target": "visited_doctor"}
    neither = user("train a model", "docstrings.csv", "visits.csv")
    looked = (
        called("inspect_dataset", "a"),
        answered(TEXTS, "a"),
        called("inspect_dataset", "b"),
        answered(REPORT, "b"),
    )
    (asks,) = (await reply(neither, *looked)).calls
    assert json.loads(asks.arguments)["choices"] == ["docstrings.csv", "visits.csv", "something else"]


async def test_of_several_runs_none_is_stopped_where_all_are_meant() -> None:
    plan = called("start_training", "c3", file="visits.csv", target="visited_doctor")
    started = [message for run in ("r-aaaaaa", "r-bbbbbb") for message in (plan, answered({"run": run}, "c3"))]
    said = await reply(*planned(), *started, user("pause everything"))
    assert not said.calls
    assert "`r-aaaaaa`, `r-bbbbbb`" in said.text


async def test_the_data_say_what_a_regression_learns_from() -> None:
    faces = {"text": "", "dataset": {"name": "faces.zip"}, "suggested_task": "image_regression"}
    report = faces | {"columns": [{"name": "image", "kind": "image"}, {"name": "age", "kind": "number"}]}
    (call,) = (await after_a_look("train a regression of age with resnet50", report)).calls
    plan = json.loads(call.arguments)
    assert (plan["task"], plan["settings"]) == ("image_regression", {"model": "resnet50"})


async def test_other_data_that_nobody_attached_is_asked_for() -> None:
    said = await reply(*planned(), user("train it again on last month's numbers"))
    assert not said.calls
    assert "Attach" in said.text


async def test_an_archive_is_a_program_only_if_it_holds_one() -> None:
    def asked(words: str, program: bool) -> ModelMessage:
        return ModelMessage(Role.USER, words, files=(AttachedFile("all.zip", 9, program),))

    (call,) = (await reply(asked("predict on this", False))).calls
    assert call.name == "predict"
    (call,) = (await reply(asked("train a classifier", False))).calls
    assert call.name == "inspect_dataset"
    (call,) = (await reply(asked("run this", True))).calls
    assert call.name == "start_script"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("run it again with --lr 2.0", {"arguments": "--lr 2.0"}),
        ("run fit.py again with learning rate 2", {"settings": {"learning_rate": 2.0}}),
        ("for 2 hours once more with --epochs 3", {"arguments": "--epochs 3", "max_hours": 2.0}),
        ("train it again with 200 epochs", {"settings": {"epochs": 200}}),
        ("the same again", {}),
    ],
)
async def test_a_program_is_run_again_with_other_options(words: str, changes: dict[str, Any]) -> None:
    before = (user("run it", "fit.py"), called("start_script", file="fit.py"), answered({"run": "r-abc123"}))
    (call,) = (await reply(*before, ModelMessage(Role.ASSISTANT, "Started."), user(words))).calls
    assert (call.name, json.loads(call.arguments)) == ("clone_run", changes)


@pytest.mark.parametrize("words", ["pause it again", "show the loss again", "stop the run again"])
async def test_what_else_is_done_again_starts_nothing(words: str) -> None:
    before = (user("run it", "fit.py"), called("start_script", file="fit.py"), answered({"run": "r-abc123"}))
    (call,) = (await reply(*before, ModelMessage(Role.ASSISTANT, "Started."), user(words))).calls
    assert call.name in {"pause_run", "run_chart", "stop_run"}


async def test_what_a_text_is_classified_into_is_the_target() -> None:
    assert target_in("classify text into library", ["text", "library"]) == ("library", True)
    assert target_in("classify the texts by kind", ["texts", "kind"]) == ("kind", True)
    assert target_in("classify library", ["text", "library"]) == ("library", True)
    machines = ["machine", "load_pct", "operator_note", "failed_within_30d"]
    assert target_in("which machines will fail in the next month?", machines) == (None, False)  # told apart by it
    assert target_in("which plans do people choose", ["plan", "age"]) == (None, False)
    assert target_in("predict which plans people choose", ["plan", "age"]) == ("plan", True)
    assert left_out("without the machine id, and don't use the note", machines) == ("machine", "operator_note")


async def test_a_regression_of_images_is_one() -> None:
    columns = [{"name": "image", "kind": "image"}, {"name": "age", "kind": "number"}]
    report = {"dataset": {"name": "faces.zip"}, "columns": columns, "suggested_target": "age"}
    said = await after_a_look("train a regression on age", report | {"suggested_task": "image_regression"})
    assert json.loads(said.calls[0].arguments)["task"] == "image_regression"


async def test_a_translator_of_a_table_without_texts_is_no_classifier() -> None:
    said = await after_a_look("train a translator on this", REPORT)
    assert json.loads(said.calls[0].arguments)["task"] == "translation"


async def test_a_file_without_a_column_to_predict_is_said_to_have_none() -> None:
    report = {"dataset": {"name": "pets.zip"}, "columns": [{"name": "image", "kind": "image"}]}
    said = await after_a_look("train an image classifier", report)
    assert (said.calls, said.text) == ((), "There is no column to predict: the card says what the file needs.")


async def test_a_language_model_is_asked_for_without_a_column() -> None:
    asked = user("train a language model on this, block length 128", "book.jsonl")
    (look,) = (await reply(asked)).calls
    assert json.loads(look.arguments) == {"file": "book.jsonl", "task": "text_generation"}
    columns = [{"name": "file"}, {"name": "text"}]
    report = {"text": "", "dataset": {"name": "book.jsonl"}, "columns": columns, "suggested_target": "text"}
    (plan,) = (await reply(asked, called("inspect_dataset"), answered(report))).calls
    said = json.loads(plan.arguments)
    assert (said["task"], said["target"], said["settings"]) == ("text_generation", "text", {"block_length": 128})


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("fine-tune Qwen/Qwen3-0.6B on these prompts", {"model": "Qwen/Qwen3-0.6B"}),
        ("translate with Helsinki-NLP/opus-mt-en-de as the base", {"model": "Helsinki-NLP/opus-mt-en-de"}),
        ("start from distilbert-base-uncased", {"model": "distilbert-base-uncased"}),
        ("read and/or write", {}),
        ("qlora with model=/models/llama and dpo", {"model": "/models/llama", "method": "dpo", "quantization": "4bit"}),
        ("fine-tune an llm on the prompts/answers", {}),
    ],
)
def test_what_is_said_of_a_language_model_is_read(words: str, settings: dict[str, str]) -> None:
    assert choices_in(words) == settings


def test_a_text_in_quotation_marks_is_answered_for() -> None:
    assert text_in("predict “Once upon a *time*”") == "Once upon a *time*"
    assert text_in("predict on this") is None
    assert text_in("isn't 'it's late again' what it says?") == "it's late again"
    assert text_in("classify this review: it came late") == "it came late"
    assert text_in("ok next try: rounds 1500, max_depth 6") is None
    assert text_in("predict 'churned'") is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("what would it say to 'the team was helpful'?", "the team was helpful"),
        ('what would it say to "the team was helpful"?', "the team was helpful"),
        ("classify this: awful late delivery", "awful late delivery"),
        ("what does the model think of “great app”?", "great app"),
    ],
)
async def test_a_text_that_is_quoted_is_for_a_model_that_reads_texts(words: str, text: str) -> None:
    (call,) = (await after_a_run(words, TEXTS, task="text_classification", target="library")).calls
    assert (call.name, json.loads(call.arguments)["text"]) == ("predict", text)


async def test_what_stands_in_a_text_for_a_model_is_no_request() -> None:
    for text in ("x = max(1, len(name))  # why", "stop the run and show its logs", "compare these"):
        (call,) = (await reply(user(f"predict “{text}”"))).calls
        assert (call.name, json.loads(call.arguments)["text"]) == ("predict", text)


async def test_of_two_readings_the_one_whose_button_is_pressed_is_done(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
        card = await question(harness, brain, f"pause or resume {run.id}")
        buttons = {button.label: button for button in card.buttons}
        assert set(buttons) == {f"pause {run.id}", f"resume {run.id}", "something else"}
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
        await brain.router.accept(clicked(buttons[f"pause {run.id}"]))
        await brain.router.idle()
        assert (await brain.stores.runs.get(run.id)).state is RunState.PAUSING


async def test_an_approval_that_only_answered_a_question_is_said_to_have_decided_nothing(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await question(harness, brain, f"pause or resume {run.id}")
        assert "nothing was approved" in await stage.tells("yes")


async def test_variables_in_capitals_are_the_environment_of_a_program() -> None:
    asked = ModelMessage(
        Role.USER, "run this script with EPOCHS=5 and DEVICE=cpu", files=(AttachedFile("train.py", 9),)
    )
    (call,) = (await reply(asked)).calls
    said = json.loads(call.arguments)
    assert (call.name, said["environment"]) == ("start_script", {"EPOCHS": "5", "DEVICE": "cpu"})


async def test_a_budget_in_words_is_answered_with_the_command_that_sets_it(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "`budget thread usd=20`" in await stage.tells("cap this thread at $20 please")
        assert "`auto usd=5`" in await stage.tells("start things without asking, up to 5 dollars")
        assert "`undo`" in await stage.tells("take back my last message")
