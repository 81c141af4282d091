"""The offline planner: what everyday sentences mean, alone and after what was said before."""

import json
from typing import Any

import pytest

from agent.domain.errors import BadRequest
from agent.domain.runs import RunState
from agent.llm.slots.changes import settings_in
from agent.llm.slots.settings import clusters_in
from agent.ports import ModelMessage, Role
from tests.agent.conftest import Harness
from tests.agent.intents import intent_of
from tests.agent.planner_talk import (
    REPORT,
    TEXTS,
    after_a_look,
    answered,
    called,
    planned,
    reply,
    started,
    user,
)
from tests.agent.stage import Stage
from tests.fakes import said


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
    answer = await reply(*started("r-aaaaaa", "1"), *started("r-bbbbbb", "2"), user(words))
    assert [json.loads(call.arguments).get("run") for call in answer.calls] == ([run] if run else [])


@pytest.mark.parametrize(
    "words", ["is Tom's run done", "the log of the previous run", "status of the run before this one"]
)
async def test_a_run_that_is_not_known_here_is_looked_up_and_not_taken_for_the_newest(words: str) -> None:
    (call,) = (await reply(*started("r-aaaaaa", "1"), user(words))).calls
    assert call.name == "list_runs"


async def test_which_of_two_runs_is_meant_is_asked_for_where_only_their_state_is_said() -> None:
    runs = (*started("r-aaaaaa", "1"), *started("r-bbbbbb", "2"))
    (question,) = (await reply(*runs, user("the log of the finished one"))).calls
    assert json.loads(question.arguments)["choices"] == ["r-aaaaaa", "r-bbbbbb", "something else"]
    told = (ModelMessage(Role.ASSISTANT, "", (question,)), answered({"text": "Al answered: r-aaaaaa"}, question.id))
    (call,) = (await reply(*runs, user("the log of the finished one"), *told)).calls
    assert (call.name, json.loads(call.arguments)) == ("run_logs", {"run": "r-aaaaaa"})


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
