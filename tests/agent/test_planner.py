"""The offline planner: what everyday sentences mean, alone and after what was said before."""

import json
import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from agent.brain import Brain
from agent.domain.content import Card
from agent.domain.datasets import ColumnReport, DataReport, DatasetRef
from agent.domain.errors import BadRequest
from agent.domain.orders import InspectOrder
from agent.domain.runs import RunState
from agent.llm.offline import OfflinePlanner
from agent.llm.slots.changes import settings_in
from agent.llm.slots.models import choices_in
from agent.llm.slots.settings import clusters_in, text_in
from agent.ports import AttachedFile, ModelMessage, ModelReply, Role, ToolCall
from agent.tools.targets import left_out, target_in
from tests.agent.conftest import Harness
from tests.agent.intents import intent_of
from tests.agent.stage import Stage
from tests.agent.test_turns import attached
from tests.fakes import clicked, said

REPORT = {
    "text": "1,000 rows.",
    "dataset": {"name": "visits.csv"},
    "columns": [{"name": name} for name in ("age", "health", "visited_doctor")],
    "suggested_target": "visited_doctor",
    "problems": [],
}


async def reply(*messages: ModelMessage) -> ModelReply:
    (answer,) = [piece async for piece in OfflinePlanner().stream(messages, ())]
    assert isinstance(answer, ModelReply)
    return answer


def user(text: str, *files: str) -> ModelMessage:
    return ModelMessage(Role.USER, text, files=tuple(AttachedFile(name, 9) for name in files))


def called(name: str, call_id: str = "c1", **arguments: Any) -> ModelMessage:
    return ModelMessage(Role.ASSISTANT, "", (ToolCall(call_id, name, json.dumps(arguments)),))


def answered(answer: dict[str, Any], call_id: str = "c1") -> ModelMessage:
    return ModelMessage(Role.TOOL, json.dumps(answer), call_id=call_id)


def planned(**arguments: Any) -> Sequence[ModelMessage]:
    """A conversation in which one plan was made and rejected."""
    return (
        user("train a model that predicts `visited_doctor`", "visits.csv"),
        called("inspect_dataset"),
        answered(REPORT),
        called("start_training", "c2", file="visits.csv", target="visited_doctor", **arguments),
        answered({"approval": "rejected"}, "c2"),
        ModelMessage(Role.ASSISTANT, "All right, nothing was started."),
    )


@pytest.mark.parametrize(
    ("words", "intent"),
    [
        ("train a model that predicts who visited the doctor", "train"),
        ("hello, train a model on this", "train"),
        ("can you build me a classifier for churn?", "train"),
        ("build a model that tells me if a machine will stop", "train"),
        ("I'd like to stop people from churning: train a model", "train"),
        ("train until the loss stops improving", "train"),
        ("train on history.csv, predict list_price", "train"),
        ("train a model to predict the output column", "train"),
        ("I want to know who will churn", "train"),
        ("predict which machines will fail", "predict"),
        ("run the model on this file", "predict"),
        ("score these new customers", "predict"),
        ("how is it going?", "run_status"),
        ("how's my training doing", "run_status"),
        ("are we there yet", "run_status"),
        ("why did it fail", "run_status"),
        ("what went wrong?", "run_status"),
        ("why", "run_status"),
        ("is the model better than baseline?", "run_status"),
        ("what is the accuracy", "run_metrics"),
        ("show me the logs", "run_logs"),
        ("which runs are there", "list_runs"),
        ("which gpus do we have", "list_hosts"),
        ("what columns are in the file", "inspect_dataset"),
        ("list my files", "inspect_dataset"),
        ("stop", "stop_run"),
        ("please stop the run", "stop_run"),
        ("can you stop the model?", "stop_run"),
        ("kill r-abc123", "kill_run"),
        ("cancel it please", "stop_run"),
        ("don't stop", "no"),
        ("never mind", "no"),
        ("no thanks", "no"),
        ("yes please", "yes"),
        ("ok go ahead", "yes"),
        ("thanks!", "thanks"),
        ("use health instead", "again"),
        ("train it again with 200 rounds", "again"),
        ("with learning rate 0.1", "again"),
        ("retrain", "again"),
        ("pause", "pause_run"),
        ("please pause r-abc123", "pause_run"),
        ("can you resume it?", "resume_run"),
        ("continue the run", "resume_run"),
        ("continue", None),
        ("retry", "retry_run"),
        ("try it again", "retry_run"),
        ("restart the training please", "retry_run"),
        ("train until you have to pause", "train"),
        ("should we kill the lights?", None),
        ("the pause was too long", None),
        ("give r-abc123 high priority", "set_priority"),
        ("prioritise r-abc123", "set_priority"),
        ("compare the last two runs", "compare_runs"),
        ("r-abc123 vs r-def456", "compare_runs"),
        ("clone r-abc123 with lr 0.1", "clone_run"),
        ("which checkpoints are there", "run_checkpoints"),
        ("what is in the queue?", "list_queue"),
        ("who is waiting", "list_queue"),
        ("how many attempts did it take", "run_attempts"),
        ("show errors in the log", "run_logs"),
        ("metrics as csv", "run_metrics"),
        ("cluster info", "list_hosts"),
        ("how is the cluster", "list_hosts"),
        ("show me the script of r-abc123", "run_script"),
        ("what is in train.py?", "run_script"),
        ("train on queue.csv, predict waiting", "train"),
        ("deploy it", "serve_model"),
        ("cluster these customers", "train"),
        ("find natural groups of customers", "train"),
        ("cluster iris.csv in 3 clusters", "train"),
        ("please segment my customers", "train"),
        ("find clusters in this", "train"),
        ("group these into 4 segments", "train"),
        ("is the clustering done?", "run_status"),
        ("hi", "help"),
        ("what can you do", "help"),
        ("purple monkey dishwasher", None),
        ("stop the training when the loss is below 0.1", "later"),
        ("kill it if it fails", "later"),
        ("pause it at step 500", "later"),
        ("so stop it only when it overfits", "later"),
        ("please stop the run tomorrow", "later"),
        ("cancel the run in 10 minutes", "later"),
        ("stop the run at 5pm", "later"),
        ("pause it for 10 minutes", "later"),
        ("stop the run, but not now", "later"),
        ("stop it as soon as it fails", "later"),
        ("stop the run, unless it is nearly done", "later"),
        ("resume it tomorrow at 9", "later"),
        ("give r-abc123 high priority when gpu-2 is free", "later"),
        ("stop the model from overfitting", "unclear"),
        ("hold that thought", "unclear"),
        ("retry it with a lower learning rate", "unclear"),
        ("resume it, use a lower learning rate", "unclear"),
        ("continue the training with more data", "unclear"),
        ("restart the run with batch size 8", "clone_run"),
        ("resume the run with lr 0.01", "clone_run"),
        ("retry r-abc123 lr=0.1", "clone_run"),
        ("restart it on gpu-2", "clone_run"),
        ("can you retry this with 2 gpus", "clone_run"),
        ("please don't stop the run", "no"),
        ("do not pause the training", "no"),
        ("never kill it", "no"),
        ("stop it now", "stop_run"),
        ("stop the run r-abc123 at once, thanks", "stop_run"),
        ("stop it as soon as possible", "stop_run"),
        ("stop it if you can", "stop_run"),
        ("stop the run because it will fail if it goes on", "stop_run"),
        ("stop it, it is at step 500 and diverges", "stop_run"),
        ("restart the run from the last checkpoint", "retry_run"),
        ("stop r-abc123, it overfits since the 3rd epoch", "stop_run"),
        ("stop r-abc123, it is at epoch 3/10 and overfits", "stop_run"),
        ("stop the run, learning rate 10x too high", "stop_run"),
        ("stop r-abc123, it trains 5 more epochs than needed", "stop_run"),
        ("stop it plz", "stop_run"),
        ("stop it for good", "stop_run"),
        ("stop r-abc123 (overfitting)", "stop_run"),
        ("stop r-abc123 due to overfitting", "stop_run"),
        ("stop the run with id r-abc123", "stop_run"),
        ("stop r-abc123 on gpu-2", "stop_run"),
        ("stop that one", "stop_run"),
        ("stop it before it wastes more money", "stop_run"),
        ("stop it now, before it costs more", "stop_run"),
        ("stop r-abc123, please. Later I will start a new one.", "stop_run"),
        ("stop r-abc123. In 10 minutes it used 20 GB", "stop_run"),
        ("stop r-abc123 because we do not need it until tomorrow", "stop_run"),
        ("stop r-abc123, not r-def456", "stop_run"),
        ("kill r-abc123, it uses 0% gpu", "kill_run"),
        ("kill r-abc123 if it is still alive", "kill_run"),
        ("pause r-abc123 I need the GPU", "pause_run"),
        ("kill it if it is still running in 10 minutes", "later"),
        ("kill r-abc123, it is stuck; only if pause does not work", "later"),
        ("stop it as it overfits, but only after epoch 5", "later"),
        ("stop it as it overfits but only after epoch 5", "later"),
        ("stop it, it is overfitting, but wait until the next checkpoint", "later"),
        ("stop r-abc123, it should finish the epoch first", "later"),
        ("stop it, it is overfitting, when it reaches epoch 5", "later"),
        ("stop it before it reaches epoch 10", "later"),
        ("stop it, finish the epoch first", "later"),
        ("stop it, right after epoch 5", "later"),
        ("stop it. It overfits. If it recovers, leave it", "later"),
        ("stop it, at the earliest at epoch 5", "later"),
        ("stop it\nat 5pm", "later"),
        ("pause it because gpu-2 is needed, at epoch 10", "later"),
        ("pause it, for 10 minutes", "later"),
        ("pause r-abc123, then resume it after r-def456", "later"),
        ("give r-abc123 tomorrow high priority", "later"),
        ("stop the run we started yesterday", "unclear"),
        ("retry r-abc123, it failed at epoch 3", "retry_run"),
        ("retry r-abc123, failed at epoch 3", "retry_run"),
        ("retry r-abc123, it only had 1 gpu", "retry_run"),
        ("retry the run, the host is fixed", "retry_run"),
        ("restart the training please, the host is fixed", "retry_run"),
        ("retry r-abc123; the GPUs are free now", "retry_run"),
        ("retry r-abc123 because the host was rebooted", "retry_run"),
        ("retry r-abc123 one more time", "retry_run"),
        ("retry r-abc123 with the same settings", "retry_run"),
        ("resume r-abc123, it stopped after 20 epochs", "resume_run"),
        ("resume r-abc123, the host is back", "resume_run"),
        ("resume it now, the gpu is free again", "resume_run"),
        ("resume r-abc123 where it left off", "resume_run"),
        ("resume r-abc123 from epoch 5", "unclear"),
        ("retry r-abc123, the learning rate was too high", "unclear"),
        ("retry r-abc123, it needs 2 gpus", "clone_run"),
        ("retry r-abc123; 20 epochs, seed 3", "clone_run"),
        ("resume r-abc123 when the host is back", "later"),
        ("pause it for a bit, somebody needs the gpu", "pause_run"),
        ("don't stop it, just pause it", "pause_run"),
        ("do not kill r-abc123, please stop it instead", "stop_run"),
        ("don't pause it, but tell me how it goes", "no"),
        ("the host was rebooted. retry it", "retry_run"),
        ("it should work now. resume r-abc123", "resume_run"),
        ("r-abc123 diverged, please kill it", "kill_run"),
        ("if it diverges, please kill it", "later"),
        ("alice said it is broken. stop it", None),
        ("brich r-abc123 ab, er bringt nichts mehr", "stop_run"),
        ("stoppe r-abc123, wenn er fertig ist", "later"),
        ("arrête r-abc123, il ne sert à rien demain", "later"),
        ("arrête r-abc123 proprement", "stop_run"),
        ("detén r-abc123 porque no aprende", "stop_run"),
        ("stop it and start again with lr 0.01", "unclear"),
    ],
)
def test_everyday_sentences(words: str, intent: str | None) -> None:
    assert intent_of(words) == intent


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("cluster these customers", {}),
        ("cluster iris.csv in 5 clusters, labels=species", {"k": 5, "labels": "species"}),
        ("segment my customers with k = 4 by k-means", {"k": 4, "method": "kmeans"}),
        ("find 6 groups with a gaussian mixture and compare them with `true kind`",
         {"k": 6, "method": "gmm", "labels": "true kind"}),
    ],
)  # fmt: skip
def test_what_is_said_of_clusters_is_read(words: str, settings: dict[str, object]) -> None:
    assert clusters_in(words) == settings


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("train with 20k rounds", {"rounds": 20_000}),
        ("train with 20,000 rounds", {"rounds": 20_000}),
        ("train for 5 epochs, lr 3e-4", {"epochs": 5, "learning_rate": 3e-4}),
        ("use learning rate of 0.1 and seed 3", {"learning_rate": 0.1, "seed": 3}),
        ("train on the 2024 file", {}),
        ("train a model that predicts churn. The 2nd round of last time was bad", {}),
        ("train again with learning rate 0,01", {"learning_rate": 0.01}),
        ("again with lr 0,001, seed 3.", {"learning_rate": 0.001, "seed": 3}),
        ("learning rate 1,5", {"learning_rate": 1.5}),
        ("lr=5e+1,epochs=4", {"learning_rate": 50, "epochs": 4}),
        ("set the epochs from 10 to 20", {"epochs": 20}),
        ("lr .5 and 1.5k rounds", {"learning_rate": 0.5, "rounds": 1500}),
        ("lr 0.1 epochs 5 batch size 32", {"learning_rate": 0.1, "epochs": 5, "batch_size": 32}),
        ("10 epochs 32 batch size", {"epochs": 10, "batch_size": 32}),
        ("3 epochs 2 gpus, 6 layers", {"epochs": 3, "layers": 6}),
        ("lora rank 16, alpha 32", {"lora_r": 16, "lora_alpha": 32}),
        ("photos at 96 pixels, dropout of 0.2", {"image_size": 96, "dropout": 0.2}),
        ("250 trees with max depth 5", {"rounds": 250, "max_depth": 5}),
        ("a larger learning rate, say 0.3", {"learning_rate": 0.3}),
        ("a context window of 64, at most 60 new tokens", {"block_length": 64, "max_new_tokens": 60}),
        ("early stopping patience should be 12", {"early_stopping_patience": 12}),
    ],
)
def test_numbers_are_read_as_people_write_them(words: str, settings: dict[str, float]) -> None:
    assert settings_in(words) == settings


TEXTS = REPORT | {
    "dataset": {"name": "docstrings.csv"},
    "columns": [{"name": "text"}, {"name": "library"}],
    "suggested_target": "library",
}


async def after_a_look(words: str, report: dict[str, Any]) -> ModelReply:
    """What follows the audit of the file that came with a request."""
    name = report["dataset"]["name"]
    return await reply(user(words, name), called("inspect_dataset"), answered(report))


@pytest.mark.parametrize(
    "words",
    [
        "train a model that predicts visited_doctor",
        "train on this file and predict the visited_doctor, please",
        "train a model that predicts visited_doctor from docstrings_2.csv with learning_rate 0.1",
    ],
)
async def test_a_column_that_was_named_and_is_not_there_is_said_with_those_that_are(words: str) -> None:
    said = await after_a_look(words, TEXTS)
    assert said.calls == ()
    assert said.text == (
        "`docstrings.csv` has no column `visited_doctor`. Which one should I predict? The columns: `text`, `library`."
    )


@pytest.mark.parametrize(
    ("words", "report", "text"),
    [
        ("train a model that predicts visited_docter", REPORT, ""),
        ("train a model that predicts the doctor", REPORT, "I take it that you mean `visited_doctor`."),
        ("train a model that predicts price", TEXTS, "No column is called that (there are `text`, `library`), so I"),
        ("train a model", TEXTS, "You did not name the target, so I take `library`."),
        ("train a model to predict on my_data.csv", TEXTS, "You did not name the target, so I take `library`."),
    ],
)
async def test_how_a_target_was_chosen_is_said(words: str, report: dict[str, Any], text: str) -> None:
    said = await after_a_look(words, report)
    assert said.text.startswith(text)
    assert bool(said.text) == bool(text)
    assert json.loads(said.calls[0].arguments)["target"] == report["suggested_target"]


@pytest.mark.parametrize(
    "words",
    [
        *("again with 5 epochs more", "with 5 more epochs", "raise the epochs by 5", "lr 1/1000", "lr 10%", "lr 5 %"),
        *("lr 10^-4", "lr 1,000,5", "again with epochs 5-10", "lr 1e999", "retry r-abc123 with lr 1/10"),
    ],
)
async def test_a_number_that_cannot_be_read_is_said_and_not_guessed(words: str) -> None:
    answer = await reply(*planned(), user(words))
    assert not answer.calls
    assert "number" in answer.text
    with pytest.raises(BadRequest):
        settings_in(words)


async def test_other_settings_make_a_new_run_that_people_approve(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "cannot wait" in await stage.tells("stop the training when the loss is below 0.1")
        assert "Nothing was done" in await stage.tells("stop the model from overfitting")
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
        await stage.ended(run, RunState.STOPPED)
        await brain.router.accept(said(f"restart {run.id} with batch size 8 for 0,5 hours"))
        card = (await stage.asked()).card
        assert card is not None
        assert card.table is not None
        assert [row[0] for row in card.table.rows] == ["hours at most", "batch_size"]
        assert (await brain.stores.runs.get(run.id)).state is RunState.STOPPED


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("use health instead", {"target": "health"}),
        ("train it again with 200 rounds", {"settings": {"rounds": 200, "seed_rounds": 1}}),
        ("again without `age`", {"drop_columns": ["age"]}),
        ("retrain", {}),
    ],
)
async def test_a_plan_is_made_again_with_what_is_wanted_otherwise(words: str, changed: dict[str, Any]) -> None:
    before = {"settings": {"seed_rounds": 1}, "seed": 3}
    (call,) = (await reply(*planned(**before), user(words))).calls
    assert call.name == "start_training"
    kept = {"file": "visits.csv", "target": "visited_doctor", **before}
    assert json.loads(call.arguments) == kept | changed


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("train a model that predicts health with 2 gpus for 3 hours", {"gpus": 2, "max_hours": 3}),
        ("train a model that predicts health on gpu-2, seed 4", {"host": "gpu-2", "seed": 4}),
        ("train a model for health on the box gpu-7 with engine local", {"host": "gpu-7", "engine": "local"}),
        ("train a model for health, gpu-3, one day at most", {"host": "gpu-3", "max_hours": 24}),
        ("trainiere ein Modell für health, eine halbe Stunde reicht", {"max_hours": 0.5}),
        ("train on visits.csv, predict health", {}),
        ("train a model for health, 90 min tops", {"max_hours": 1.5}),
        ("train on health but don't take longer than 2 hrs", {"max_hours": 2}),
        ("train to predict health, two days are fine, no gpu", {"max_hours": 48, "gpus": 0}),
        (
            "trainiere ein Modell für health, höchstens anderthalb Stunden auf gpu-3",
            {"max_hours": 1.5, "host": "gpu-3"},
        ),
        (
            "entraîne un modèle pour prédire health, une heure et demie au plus, sur deux GPU",
            {"max_hours": 1.5, "gpus": 2},
        ),
        ("entrena un modelo que prediga health, como máximo tres horas y media", {"max_hours": 3.5}),
        ("训练模型预测health，最多两个半小时", {"max_hours": 2.5}),
    ],
)
async def test_hours_gpus_and_host_are_part_of_a_plan(words: str, wanted: dict[str, Any]) -> None:
    (call,) = (await reply(user(words), called("inspect_dataset"), answered(REPORT))).calls
    assert json.loads(call.arguments) == {"file": "visits.csv", "target": "health"} | wanted
    again = (*planned(**wanted), user("train it again with 200 rounds"))
    (call,) = (await reply(*again)).calls
    kept = {"file": "visits.csv", "target": "visited_doctor", "settings": {"rounds": 200}}
    assert json.loads(call.arguments) == kept | wanted


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("train r-abc123 again on iris2.csv", {"file": "iris2.csv"}),
        ("train r-abc123 again on v2 of the data", {}),
        ("train r-abc123 again, it ran on gpu-1", {}),
        ("train r-abc123 again on gpu-2.", {"host": "gpu-2"}),
        (
            "retry r-abc123 with lr: 0.1, 2 gpus. It failed at epoch 3",
            {"settings": {"learning_rate": 0.1}, "gpus": 2},
        ),
    ],
)
async def test_a_new_run_has_only_what_is_wanted_otherwise(words: str, changed: dict[str, Any]) -> None:
    (call,) = (await reply(user(words))).calls
    assert (call.name, json.loads(call.arguments)) == ("clone_run", {"run": "r-abc123"} | changed)


@pytest.mark.parametrize(
    ("words", "unread"),
    [
        ("train a model for health with 3 windmills", "3 windmills"),
        ("训练一个预测health的模型,37个风车", "37"),
        ("train a model for health with the data of the last 2 hours", "2 hours"),
        ("train a model for health at 5pm", "5pm"),
        ("train a model for health tonight", "tonight"),
        ("train r-abc123 again, a bit longer", "longer"),
        ("train a model for health, everything but the parrots", "everything but"),
        ("serve r-abc123 until sunday", "until sunday"),
        ("train a model for health on the a100", "a100"),
        ("train a model for health with a gentle learning rate", "learning rate"),
        ("train a model for health with learning rates 0.01 and 0.02", "0.02"),
        ("train a model for health, start from t5-small", "t5-small"),
        ("train r-abc123 again on a100 gpus", "a100"),
        ("deploy r-abc123 with 3 replicas", "3 replicas"),
        ("plot the loss in 7 colours", "7 colours"),
        ("train r-abc123 again with twice the ribbons", "twice"),
        ("train r-abc123 again with the engine of last time", "engine"),
    ],
)
async def test_what_no_reader_took_is_asked_for_and_not_dropped(words: str, unread: str) -> None:
    said = await reply(user(words), called("inspect_dataset"), answered(REPORT)) if "health" in words else None
    said = said or await reply(user(words))
    (question,) = said.calls
    assert question.name == "ask_user"
    assert unread in json.loads(question.arguments)["question"]


async def test_values_that_nobody_could_read_are_asked_for_by_their_columns() -> None:
    said = user("predict it for somebody with 7 children")
    answer = await reply(*planned(), said)
    assert not answer.calls
    assert "so nothing was predicted" in answer.text
    assert "`predict age=… health=…`" in answer.text  # what is predicted is no value to give


@pytest.mark.parametrize("words", ["what is cat.png?", "and this one?", "which one is this"])
async def test_an_image_in_a_thread_with_a_model_of_images_is_predicted(words: str) -> None:
    trained = (user("train on it", "pets.zip"), called("start_training", task="image_classification", target="label"))
    run = answered({"approval": "approved", "run": "r-abc123"})
    (call,) = (await reply(*trained, run, user(words, "cat.png"))).calls
    assert call.name == "predict"
    others = (user("train on it", "pets.csv"), called("start_training", task="tabular_classification", target="kind"))
    assert not any(
        one.name == "predict" for one in (await reply(*others, run, user("what is cat.png?", "cat.png"))).calls
    )


async def test_who_asks_why_a_class_is_bad_sees_its_mistakes() -> None:
    run = answered({"approval": "approved", "run": "r-abc123"})
    (call,) = (await reply(user("train"), called("start_training"), run, user("why is square so bad?"))).calls
    assert (call.name, json.loads(call.arguments)["picture"]) == ("run_results", "mistakes")


async def test_examples_name_a_run_of_the_thread_and_none_that_was_only_an_example() -> None:
    ours = ModelMessage(Role.ASSISTANT, "Name a run, such as `status r-xyz789`.")
    assert "r-xyz789" not in (await reply(user("hello?"), ours, user("frobnicate"))).text
    run = answered({"approval": "approved", "run": "r-abc123"})
    said = await reply(user("train"), called("start_training"), run, ours, user("frobnicate"))
    assert "“status of r-abc123”" in said.text


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        ("go on without it", {"file": "visits.csv", "target": "health"}),
        ("without the column age", {"file": "visits.csv", "target": "health", "drop_columns": ["age"]}),
    ],
)
async def test_what_is_answered_about_a_request_is_added_to_it(answer: str, plan: dict[str, Any]) -> None:
    asked = (user("train a model for health, mind the age", "visits.csv"), called("inspect_dataset"))
    report = answered(REPORT | {"columns": [{"name": "age"}, {"name": "health"}], "dataset": {"name": "visits.csv"}})
    (question,) = (await reply(*asked, report)).calls
    assert json.loads(question.arguments)["choices"] == ["without the column age", "go on without it", "something else"]
    told = (ModelMessage(Role.ASSISTANT, "", (question,)), answered({"text": f"Al answered: {answer}"}, question.id))
    (call,) = (await reply(*asked, report, *told)).calls
    assert (call.name, json.loads(call.arguments)) == ("start_training", plan)
    told = (told[0], answered({"text": "Al answered: something else"}, question.id))
    assert not (await reply(*asked, report, *told)).calls


@pytest.mark.parametrize(
    ("words", "run"),
    [
        ("arrête le premier", "r-aaaaaa"),
        ("stopp den zweiten", "r-bbbbbb"),
        ("停掉第一个", "r-aaaaaa"),
        ("stop the other one", "r-aaaaaa"),
        ("stop the third one", None),
        ("kill the worse one", None),
        ("stop Lena's run", None),
        ("resume r-aaaaaa and stop r-bbbbbb", None),
        ("nicht den fertigen, den anderen bitte pausieren", None),
    ],
)
async def test_an_act_is_done_on_no_other_run_than_the_one_that_is_meant(words: str, run: str | None) -> None:
    answer = await reply(*_started("r-aaaaaa", "1"), *_started("r-bbbbbb", "2"), user(words))
    assert [json.loads(call.arguments).get("run") for call in answer.calls] == ([run] if run else [])


@pytest.mark.parametrize(
    "words", ["is Tom's run done", "the log of the previous run", "status of the run before this one"]
)
async def test_a_run_that_is_not_known_here_is_looked_up_and_not_taken_for_the_newest(words: str) -> None:
    (call,) = (await reply(*_started("r-aaaaaa", "1"), user(words))).calls
    assert call.name == "list_runs"


async def test_which_of_two_runs_is_meant_is_asked_for_where_only_their_state_is_said() -> None:
    runs = (*_started("r-aaaaaa", "1"), *_started("r-bbbbbb", "2"))
    (question,) = (await reply(*runs, user("the log of the finished one"))).calls
    assert json.loads(question.arguments)["choices"] == ["r-aaaaaa", "r-bbbbbb", "something else"]
    told = (ModelMessage(Role.ASSISTANT, "", (question,)), answered({"text": "Al answered: r-aaaaaa"}, question.id))
    (call,) = (await reply(*runs, user("the log of the finished one"), *told)).calls
    assert (call.name, json.loads(call.arguments)) == ("run_logs", {"run": "r-aaaaaa"})


def _started(run: str, call_id: str) -> Sequence[ModelMessage]:
    """A conversation in which a run was started."""
    return (
        user("train a model that predicts `health`", "visits.csv"),
        called("start_training", call_id, file="visits.csv", target="health"),
        answered({"approval": "approved", "run": run, "text": ""}, call_id),
    )


@pytest.mark.parametrize(
    ("words", "tool", "arguments"),
    [
        ("pause r-abc123 until tomorrow morning", "pause_run", {"run": "r-abc123"}),
        ("lunch is over, you can resume r-abc123", "resume_run", {"run": "r-abc123"}),
        ("in the script replace k = 8 by k = 9", "update_script", {"replace": [{"old": "k = 8", "new": "k = 9"}]}),
        ("a table of all metrics of r-abc123", "run_metrics", {"run": "r-abc123"}),
        (
            "hey, one more thing: priority of r-abc123 back to normal",
            "set_priority",
            {"run": "r-abc123", "priority": "normal"},
        ),
        ("clone r-abc123, at most a quarter of an hour", "clone_run", {"run": "r-abc123", "max_hours": 0.25}),
        ("clone r-abc123, fewer rounds: take 90", "clone_run", {"run": "r-abc123", "settings": {"rounds": 90}}),
    ],
)
async def test_what_a_request_comes_to(words: str, tool: str, arguments: dict[str, Any]) -> None:
    (call,) = (await reply(user(words))).calls
    assert (call.name, json.loads(call.arguments)) == (tool, arguments)


async def test_the_column_to_predict_is_asked_for_with_buttons() -> None:
    asked = (user("train a model on this", "a.csv"), called("inspect_dataset"))
    report = answered({"text": "", "dataset": {"name": "a.csv"}, "columns": [{"name": "b"}, {"name": "c"}]})
    (question,) = (await reply(*asked, report)).calls
    assert json.loads(question.arguments)["choices"] == ["target b", "target c", "something else"]
    told = (ModelMessage(Role.ASSISTANT, "", (question,)), answered({"text": "Al answered: target c"}, question.id))
    (call,) = (await reply(*asked, report, *told)).calls
    assert (call.name, json.loads(call.arguments)) == ("start_training", {"file": "a.csv", "target": "c"})


@pytest.mark.parametrize(
    "words",
    [
        "train a model for health, the file has 20000 rows",
        "train a model for health on the data of 2024",
        "train a model for health with 20 epochs instead of 10",
        "train a model for health for 30 minutes with an 80/20 split",
    ],
)
async def test_numbers_that_wish_for_nothing_are_in_no_plan(words: str) -> None:
    (call,) = (await after_a_look(words, REPORT)).calls
    assert call.name == "start_training"


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


SALES: dict[str, Any] = {
    "text": "",
    "dataset": {"name": "sales.csv"},
    "columns": [
        {"name": "day", "kind": "datetime"},
        {"name": "units", "kind": "number"},
        {"name": "shop", "kind": "category"},
    ],
    "suggested_target": "shop",
    "suggested_task": "time_series_forecasting",
}


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


async def after_a_run(words: str, report: dict[str, Any], **plan: Any) -> ModelReply:
    """What is made of words where a run was started on data with this report."""
    plans = ("inspect_dataset", {"file": "sales.csv"}), ("start_training", {"file": "sales.csv", **plan})
    said = [user("train on this", "sales.csv")]
    for number, ((name, arguments), found) in enumerate(zip(plans, (report, {"run": "r-abc123"}), strict=True)):
        said += [called(name, f"c{number}", **arguments), answered(found, f"c{number}")]
    return await reply(*said, user(words))


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


async def test_what_stands_in_a_text_for_a_model_is_no_request() -> None:
    for text in ("x = max(1, len(name))  # why", "stop the run and show its logs", "compare these"):
        (call,) = (await reply(user(f"predict “{text}”"))).calls
        assert (call.name, json.loads(call.arguments)["text"]) == ("predict", text)


async def question(harness: Harness, brain: Brain, words: str) -> Card:
    """The card that asks which of two readings is meant."""
    await brain.router.accept(said(words))
    await harness.until(lambda: any(c.card and "A question" in c.card.title for c in harness.adapter.shown))
    await brain.router.idle()
    return next(c.card for c in harness.adapter.shown if c.card and "A question" in c.card.title)


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
