"""The classifier of intents: its weights belong to its table, it is quick, and what is unsure is asked, not done."""

import json
import time

import numpy as np
import pytest

from agent.domain.errors import BadRequest
from agent.llm.features import WEIGHTS, masked
from agent.llm.intents import PLANNED, decide, readings
from agent.llm.places import ACT, Place
from agent.llm.requests.trainings import task_in
from agent.llm.requests.words import TYPED
from agent.llm.slots.changes import settings_in
from agent.llm.slots.courtesy import without_courtesy
from agent.llm.slots.files import file_in
from agent.llm.slots.idioms import with_amounts
from agent.llm.slots.logs import log_arguments
from agent.llm.slots.numbers import factors_in, in_figures
from agent.llm.slots.runs import by_id, by_settings
from agent.llm.slots.settings import held_out_in, split_in
from agent.llm.slots.wishes import WISHES, card_wish
from agent.ports import ModelMessage
from agent.tools.targets import left_out, quoted_target, target_in
from tests.agent.intents import intent_of
from tests.agent.planner_talk import answered, called, planned, reply, user


def test_the_weights_are_those_of_the_table() -> None:
    from agent.llm.fit_intents import digest, table

    with np.load(WEIGHTS) as stored:
        assert str(stored["digest"]) == digest(), "run `make intents` and commit agent/llm/intents.npz"
    assert WEIGHTS.stat().st_size < 5_000_000
    assert len(table()) >= 9_000
    assert {one.language for one in table()} == {"en", "de", "fr", "es", "zh"}


def test_a_sentence_is_read_in_milliseconds() -> None:
    sentence = masked("could you please show me the last fifty lines of the log of r-abc123")
    readings(sentence)
    began = time.perf_counter()
    for _ in range(20):
        readings(masked("could you please show me the last fifty lines of the log of r-abc123"))
    assert (time.perf_counter() - began) / 20 < 0.02


def test_a_long_row_of_settings_is_read_in_one_pass() -> None:
    began = time.process_time()
    assert settings_in("lr 1 " * 200) == {"learning_rate": 1}
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("words", "intent"),
    [
        ("pick r-abc123 up where it left off", "resume_run"),
        ("what runs now", "list_runs"),
        ("which run has the best f1", "list_experiments"),
        ("bitte stoppe r-abc123", "stop_run"),
        ("mets r-abc123 en pause", "pause_run"),
        ("reanuda r-abc123", "resume_run"),
        ("停止r-abc123", "stop_run"),
        ("wie läuft es", "run_status"),
        ("muéstrame los logs", "run_logs"),
        ("有空闲的GPU吗", "list_hosts"),
        ("evaluate r-abc123 on may.csv", "evaluate_model"),
        ("please measure the model on this data", "evaluate_model"),
        ("predict every row of big.csv as a job for 2 hours", "predict_as_job"),
        ("send me the weights", "download_artifact"),
        ("give me the model metrics", "run_metrics"),
    ],
)
def test_other_words_and_other_languages_are_understood(words: str, intent: str) -> None:
    assert intent_of(words) == intent


@pytest.mark.parametrize(
    "words",
    [
        *(
            "stop everything but r-abc123",
            "pause all runs except r-abc123",
            "kill gpu-1",
            "restart the worker",
            "is r-abc123 high priority",
            "priority of r-abc123?",
            "the retry failed",
            "will it stop by itself",
            "don't pause it yet",
            "para qué sirve r-abc123",
            "wer hat r-abc123 gestoppt",
            "arrête r-abc123 demain",
            "停止之后会怎么样",
            "alice said to stop r-abc123",
            "should we pause r-abc123?",
            "who stopped r-abc123",
            "stop it, you are killing me",
        ),
        *("stop joking", "I stopped r-abc123 yesterday"),
        *("if it fails I stop r-abc123", "bitte stoppe r-abc123 nicht", "n'arrête pas r-abc123", "不要停止r-abc123"),
        *(
            "free the gpu",
            "suspend r-abc123 tomorrow",
            "halte r-abc123 an, sobald es fertig ist",
            "never kill r-abc123",
        ),
        *(
            "cancel the meeting",
            "retry the upload",
            "stopp die Musik",
            "coupe le chauffage",
            "把灯关了",
            "give it another hour",
        ),
        *("what happens if I kill r-abc123", "maybe we should retry r-abc123", "bob wants to resume r-abc123"),
    ],
)
def test_what_is_only_spoken_of_is_not_done(words: str) -> None:
    assert intent_of(words) not in ACT


@pytest.mark.parametrize(
    "words",
    [
        *("please don't train anything for now", "do not launch it yet", "did we train with 500 rounds?"),
        *("should we retrain with seed 3?", "what if we trained with twice the rounds", "why was it trained on age?"),
        *(
            "@bob can you train a model on this",
            "yesterday I trained it with 20 epochs",
            "no need to build a model now",
        ),
        *("ask bob to train it again", "evaluate whether we should deploy it"),
        *("would more epochs help?", "bitte noch nichts trainieren", "sollten wir mit mehr Epochen trainieren?"),
        *("how would one go about predicting churn", "is the api up", "train a model for churn, but not now"),
        *("we can't deploy it", "c'est quoi un epoch", "how much would it cost to train on this"),
        *("faut-il entraîner un modèle ?", "todavía no entrenes nada", "先不要训练", "要不要再训练一次？"),
    ],
)
def test_a_training_that_is_only_spoken_of_is_not_planned(words: str) -> None:
    assert intent_of(words) not in PLANNED


@pytest.mark.parametrize(
    "words",
    [
        *(
            "could you train a model for churn?",
            "don't use age, train a model for churn",
            "who will churn? train a model",
        ),
        *("is it possible to train a classifier for churn?", "train a model, it should take no longer than 2 hours"),
    ],
)
def test_a_training_that_is_asked_for_politely_is_planned(words: str) -> None:
    assert intent_of(words) == "train"


def test_settings_beside_a_file_are_those_of_a_training() -> None:
    assert decide("regression, y is the price, 20 rounds", Place(with_file=True, has_runs=False)).intent == "train"


def test_without_a_run_nothing_is_done_again() -> None:
    words = "once more with feeling: plan from age"
    assert decide(words, Place(with_file=True, has_runs=False)).intent not in {"again", "clone_run"}


def test_what_is_unsure_is_one_of_two_readings() -> None:
    unsure = decide("r-abc123 in the evening")
    assert unsure.intent is None
    assert len(unsure.between) in {0, 2}


@pytest.mark.parametrize(
    "words",
    ["shut the model's service down", "schaltet den Dienst mit dem Modell ab", "apaga el servicio del modelo"],
)
def test_who_wants_a_service_to_end_gets_no_new_one(words: str) -> None:
    assert intent_of(words) != "serve_model"


@pytest.mark.parametrize(
    ("words", "task"),
    [
        ("sort these people into 4 groups", "clustering"),
        ("5 segments of the customers by k-means", "clustering"),
        ("聚类这些客户", "clustering"),
        ("write a tl;dr for each article", "summarization"),
        ("Übersetzung ins Französische", "translation"),
        ("un modèle qui trouve les entités", "token_classification"),
        ("predict which of the classes it is", None),
    ],
)
def test_the_task_is_read_by_what_is_wanted(words: str, task: str | None) -> None:
    assert task_in(words, has_text=True) == task


async def test_a_question_which_is_meant_is_answered_as_if_it_was_typed() -> None:
    asked = user("hmm r-abc123")
    told = answered({"text": "Alice answered: pause r-abc123"})
    (call,) = (await reply(asked, called("ask_user"), told)).calls
    assert (call.name, json.loads(call.arguments)) == ("pause_run", {"run": "r-abc123"})
    neither = await reply(asked, called("ask_user"), answered({"text": "Alice answered: something else"}))
    assert not neither.calls


@pytest.mark.parametrize(
    ("words", "factors"),
    [
        ("again with half the learning rate", {"learning rate": 0.5}),
        ("double the epochs", {"epochs": 2.0}),
        ("with twice as many epochs", {"epochs": 2.0}),
        ("a tenth of the learning rate", {"learning rate": 0.1}),
        ("cut the learning rate by a factor of ten", {"learning rate": 0.1}),
        ("raise the rounds by a factor of 3", {"rounds": 3.0}),
        ("three times the rounds", {"rounds": 3.0}),
        ("with the learning rate halved", {"learning rate": 0.5}),
        ("cut the learning rate in half", {"learning rate": 0.5}),
        ("10x the rounds", {"rounds": 10.0}),
        ("mit doppelt so vielen Epochen", {"epochs": 2.0}),
        ("un taux d'apprentissage dix fois plus petit", {"learning rate": 0.1}),
        ("轮数加倍", {"rounds": 2.0}),
        ("with learning rate 0.1", {}),
    ],
)
def test_a_multiple_of_a_setting_is_read(words: str, factors: dict[str, float]) -> None:
    assert factors_in(with_amounts(in_figures(words))) == factors


async def test_a_multiple_is_taken_of_what_the_plan_had_and_asked_for_elsewhere() -> None:
    before = planned(settings={"learning_rate": 0.1, "rounds": 300})
    (call,) = (await reply(*before, user("again with half the learning rate and twice the rounds"))).calls
    assert json.loads(call.arguments)["settings"] == {"learning_rate": 0.05, "rounds": 600}
    unknown: tuple[ModelMessage, ...] = (user("clone r-abc123 with half the learning rate"),)
    answer = await reply(*unknown)
    assert not answer.calls
    assert "learning rate" in answer.text


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("give me the last fifty lines of the log", 50),
        ("last 20 log lines", 20),
        ("die letzten zwanzig Zeilen vom Log", 20),
        ("the final hundred lines of output", 100),
        ("最后30行日志", 30),
        ("the last 5000 lines", 200),
        ("logs", None),
        ("tail -n 40", 40),
        ("tail 15", 15),
    ],
)
def test_how_many_lines_are_wanted_is_read(words: str, lines: int | None) -> None:
    assert log_arguments(words).get("lines") == lines


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("gibt es Warnungen im Log?", {"level": "warning"}),
        ("las líneas del log que contengan timeout", {"search": "timeout"}),
        ("les lignes avec « loss »", {"search": "loss"}),
        ("日志里包含 epoch 的行", {"search": "epoch"}),
        ("steht was von Fehlern im Log?", {"level": "error"}),
        ("busca 'warning' en el log", {"search": "warning"}),
    ],
)
def test_which_lines_are_wanted_is_read_in_other_languages(words: str, wanted: dict[str, str]) -> None:
    assert log_arguments(words) == wanted


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("use the text in `body` to predict `label`", "label"),
        ("from the column `body`, predict `label`", "label"),
        ("the text column is `body`", None),
    ],
)
def test_a_column_that_is_read_is_not_the_target(words: str, target: str | None) -> None:
    assert quoted_target(words) == target


NAMES = ("customer_id", "age", "plan", "monthly_fee", "churned")


@pytest.mark.parametrize(
    ("words", "left", "target"),
    [
        ("predict churned without the customer id", ("customer_id",), "churned"),
        ("leave age and plan out, predict churned", ("age", "plan"), "churned"),
        ("ignore the column age, the target is churned", ("age",), "churned"),
        ("predict churned, do not use age or plan, with 20 epochs", ("age", "plan"), "churned"),
        ("predict the monthly fee from age and plan", (), "monthly_fee"),
        ("train a model for churned", (), "churned"),
        ("skip the id, das Ziel ist churned", ("customer_id",), "churned"),
        ("预测每个plan的monthly_fee", (), "monthly_fee"),
        ("a model for churned with age and plan left out", ("age", "plan"), "churned"),
        ("train on churned, but plan has to stay out of it", ("plan",), "churned"),
        ("cible churned, et enlève age", ("age",), "churned"),
        ("Ziel churned, plan kannst du weglassen", ("plan",), "churned"),
        ("age -> churned", (), "churned"),
        ("only use age and plan, the target is churned", ("customer_id", "monthly_fee"), "churned"),
        ("churned, without the ids", ("customer_id",), "churned"),
        ("what is the monthly_fee, based on age and plan", (), "monthly_fee"),
        ("trainiere auf churned, age ignorieren", ("age",), "churned"),
        ("columns to skip: age, plan. The target is churned", ("age", "plan"), "churned"),
        ("a model of churned grouped by customer_id, no plan", ("plan",), "churned"),
        ("what I need is a guess of the plan. age is useless", ("age",), "plan"),
        ("regress age on everything but plan and customer_id", ("customer_id", "plan"), "age"),
        ("churned is the label, never look at the monthly fee", ("monthly_fee",), "churned"),
        ("one number per customer_id, please: the monthly fee", (), "monthly_fee"),
        ("the column is churned.", (), "churned"),
        ("I think the monthly fee leaks. Detect who churned", ("monthly_fee",), "churned"),
        ("sortiere die Kunden nach plan, ohne age", ("age",), "plan"),
        ("age brauchst du nicht, sag churned vorher", ("age",), "churned"),
        ("estime l'âge des clients, sans churned", ("churned",), "age"),
        ("estima la edad, ignora el plan", ("plan",), "age"),
        ("预测年龄，不要用plan", ("plan",), "age"),
    ],
)
def test_columns_that_are_left_out_or_read_are_not_the_target(words: str, left: tuple[str, ...], target: str) -> None:
    assert (left_out(words, NAMES), target_in(words, NAMES)) == (left, (target, True))


@pytest.mark.parametrize(
    ("words", "share"),
    [
        *(("hold out 30 % for testing", 0.3), ("with an 80/20 split", 0.2), ("25% of the rows for the test", 0.25)),
        *(("use a test set of 15 percent", 0.15), ("test_frac 0.3", 0.3), ("the test accuracy is 80%", None)),
        *(("90 % accuracy", None), ("with dropout 0.3", None)),
    ],
)
def test_the_share_of_the_test_is_read(words: str, share: float | None) -> None:
    assert held_out_in(words) == share


@pytest.mark.parametrize(
    ("words", "by"),
    [
        *(("split by customer_id", "customer_id"), ("split the rows at random", "random"), ("split by time", "day")),
        *(("a random split please", "random"), ("a chronological split", "day"), ("the split is fine", None)),
    ],
)
def test_how_rows_are_split_is_read(words: str, by: str | None) -> None:
    assert split_in(words, ("day",)) == by


@pytest.mark.parametrize(
    ("words", "by"),
    [
        ("predict churned, no customer_id may be in both parts", "customer_id"),
        ("keep the rows of each customer id together, predict churned", "customer_id"),
        ("keep all rows of a customer_id on one side, predict churned", "customer_id"),
        ("predict churned with a grouped by plan split", "plan"),
        ("predict churned for each plan", None),
    ],
)
def test_rows_that_belong_together_stay_on_one_side(words: str, by: str | None) -> None:
    assert split_in(words, (), NAMES) == by


@pytest.mark.parametrize(
    ("words", "file"),
    [
        *(("train on the sales table", "sales.csv"), ("train on visits, ignore the sales file", "visits.parquet")),
        *(("train on the second file", "visits.parquet"), ("use the parquet to train", "visits.parquet")),
        *(
            ("train on sales.csv, not on visits", "sales.csv"),
            ("sales.csv please, visits.parquet can wait", "sales.csv"),
            ("sales.csv, visits.parquet can wait", "sales.csv"),
            ("train a model", None),
            ("nimm die erste Datei", "sales.csv"),
        ),
    ],
)
def test_which_of_some_files_is_meant_is_read(words: str, file: str | None) -> None:
    assert file_in(words, ("sales.csv", "visits.parquet")) == file


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        ("serve the best model for 3 hours", "serve_model"),
        ("deploy whichever run scored best", "serve_model"),
        ("download the model of the best run", "download_artifact"),
        ("déploie le meilleur modèle pendant deux heures", "serve_model"),
    ],
)
async def test_the_best_run_is_looked_up_before_something_is_done_with_it(words: str, tool: str) -> None:
    (look,) = (await reply(*planned(), user(words))).calls
    assert look.name == "list_experiments"
    ranked = answered({"text": "", "experiments": [{"run": "r-bbbbbb"}, {"run": "r-aaaaaa"}]})
    (call,) = (await reply(*planned(), user(words), called("list_experiments"), ranked)).calls
    assert (call.name, json.loads(call.arguments)["run"]) == (tool, "r-bbbbbb")


async def test_a_row_in_words_is_predicted_for() -> None:
    (call,) = (await reply(*planned(), user("predict for age 30 and health good"))).calls
    assert (call.name, json.loads(call.arguments)["rows"]) == ("predict", [{"age": "30", "health": "good"}])


async def test_a_changed_setting_without_a_number_is_asked_for_and_not_dropped() -> None:
    before = planned(settings={"learning_rate": 0.1})
    answer = await reply(*before, user("train it again with a smaller learning rate"))
    assert not answer.calls
    assert "learning rate" in answer.text


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("nochmal mit der halben Lernrate", {"learning_rate": 0.05}),
        ("nochmal mit 20 Epochen", {"learning_rate": 0.1, "epochs": 20}),
        ("encore une fois avec un taux d'apprentissage de 0.01", {"learning_rate": 0.01}),
        ("otra vez con 30 épocas", {"learning_rate": 0.1, "epochs": 30}),
        ("再训练一次，学习率0.01", {"learning_rate": 0.01}),
        ("nochmal mit einem Viertel der Lernrate und zwölf Epochen", {"learning_rate": 0.025, "epochs": 12}),
        ("encore une fois avec deux fois moins de taux d'apprentissage", {"learning_rate": 0.05}),
        ("otra vez con la décima parte de la tasa de aprendizaje y 4 capas", {"learning_rate": 0.01, "layers": 4}),
        ("再训练一次，学习率改成0.02，6层", {"learning_rate": 0.02, "layers": 6}),
    ],
)
async def test_settings_are_read_in_other_languages(words: str, settings: dict[str, float]) -> None:
    (call,) = (await reply(*planned(settings={"learning_rate": 0.1}), user(words))).calls
    assert json.loads(call.arguments)["settings"] == settings


@pytest.mark.parametrize(
    ("words", "english"),
    [
        ("höchstens eine Stunde", "at most 1 hours"),
        ("最多跑三个小时", "at most 3 hours"),
        ("les 3 dernières époques", "last 3 epochs"),
        ("用对数坐标画损失", "log scale 画 loss"),
        ("la moitié du taux d'apprentissage", "half learning rate"),
        ("sage “Verlust” voraus", "sage “Verlust” voraus"),
        ("maximal anderthalb Stunden", "at most 1.5 hours"),
        ("dos horas y media", "2.5 hours"),
        ("最多两个半小时", "at most 2.5 hours"),
        ("sechs Stunden", "6 hours"),
        ("las últimas 3 épocas", "last 3 epochs"),
        ("mit einem Zehntel der Lernrate", "mit tenth of learning rate"),
        ("deux fois moins de rounds", "half rounds"),
        ("rounds改成800", "rounds to 800"),
        ("les pas 100 à 200", "steps 100 to 200"),
        ("n'y touche pas", "n'y touche pas"),
        ("les lignes avec « memory »", "les lignes avec “memory”"),
    ],
)
def test_what_the_readers_know_is_put_in_english(words: str, english: str) -> None:
    assert " ".join(in_figures(words).split()) == english


def test_the_name_of_a_column_stays_as_it_is() -> None:
    assert in_figures("trainiere auf Fehler", keep=("Fehler",)) == "trainiere auf Fehler"


async def test_what_a_plan_was_asked_to_keep_to_is_in_it() -> None:
    words = "again, at most 30 minutes, with high priority and balanced class weights"
    (call,) = (await reply(*planned(), user(words))).calls
    plan = json.loads(call.arguments)
    assert (plan["max_hours"], plan["priority"]) == (0.5, "high")
    assert plan["settings"]["class_weight"] == "balanced"


def test_a_run_that_is_counted_is_one_of_the_thread() -> None:
    started = ("r-aaaaaa", "r-bbbbbb")
    assert by_id("stop the second one", started) == "stop r-bbbbbb"
    assert by_id("brich den ersten Lauf ab", started) == "brich r-aaaaaa ab"
    assert by_id("stop the third run", started) == "stop the third run"
    assert by_id("status of the second last run", started) == "status of r-aaaaaa"
    assert by_id("why did the other one fail", started) == "why did r-aaaaaa fail"
    assert by_id("compare r-bbbbbb with the other one", started) == "compare r-bbbbbb with the other one"


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        ("stop it, if you don't mind", "stop it"),
        ("how far is it? thanks a lot!", "how far is it?"),
        ("sorry to bother you, when is it done", "when is it done"),
        ("Zeig mir die Kurve, wäre super", "Zeig mir die Kurve"),
        ("si tu peux, arrête le run", "arrête le run"),
        ("it would be great to see the loss", "it would be great to see the loss"),
        ("stop it if you see the loss rise", "stop it if you see the loss rise"),
        ("thanks", "thanks"),
    ],
)
def test_courtesy_is_no_part_of_a_request(words: str, rest: str) -> None:
    assert without_courtesy(words) == rest


def test_a_run_is_named_by_what_it_was_trained_with() -> None:
    known = {"r-aaaaaa": {"learning_rate": 0.05, "rounds": 500}, "r-bbbbbb": {"learning_rate": 0.1, "rounds": 500}}
    assert by_settings("how is the one with lr 0.05", known) == "how is r-aaaaaa"
    assert by_settings("logs of the 0.1 run", known) == "logs of r-bbbbbb"
    assert by_settings("how is the run with rounds 500", known) == "how is the run with rounds 500"


@pytest.mark.parametrize("intent", list(TYPED))
def test_each_button_of_a_question_is_read_as_what_it_says(intent: str) -> None:
    assert intent_of(TYPED[intent].format("r-abc123")) == intent


async def test_a_chosen_reading_goes_on_as_if_it_was_typed() -> None:
    messages = (user("mumble", "a.csv"), called("ask_user", "q"), answered({"text": "Al answered: train a model"}, "q"))
    (look,) = (await reply(*messages)).calls
    assert look.name == "inspect_dataset"
    report = {"text": "", "dataset": {"name": "a.csv"}, "columns": [{"name": "b"}], "suggested_target": "b"}
    (plan,) = (await reply(*messages, called("inspect_dataset"), answered(report))).calls
    assert (plan.name, json.loads(plan.arguments)) == ("start_training", {"file": "a.csv", "target": "b"})


def test_numbers_that_cannot_be_read_are_said() -> None:
    with pytest.raises(BadRequest):
        intent_of("retry r-abc123 with lr 1/10")


@pytest.mark.parametrize(
    ("words", "tool", "arguments"),
    [
        ("cap this thread at $20 please", "set_budget", {"scope": "thread", "usd": "20"}),
        ("setz das Budget dieses Kanals auf 1.500 Dollar", "set_budget", {"scope": "channel", "usd": "1500"}),
        ("le canal a droit à 50 heures de gpu, fixe le budget", "set_budget", {"scope": "channel", "gpu_hours": "50"}),
        ("take the budget off this channel", "set_budget", {"scope": "channel", "usd": "none"}),
        ("start things without asking, up to 5 dollars", "set_allowance", {"usd": 5.0}),
        ("vuelve a preguntarme antes de empezar", "set_allowance", {"off": True}),
        ("think less from now on", "prefer_model", {"effort": "low"}),
        ("let claude sonnet answer in this thread", "prefer_model", {"model": "claude-sonnet"}),
        ("换回默认的大模型", "prefer_model", {"model": "usual"}),
        ("has anyone tampered with the audit log", "show_audit", {"verify_chain": True}),
        ("vergiss unser Gespräch, neues Thema", "new_session", {}),
        ("annule mon dernier message", "undo_turn", {}),
        ("summarise this thread for yourself", "compact_session", {}),
        ("导出对话", "export_session", {}),
    ],
)
async def test_a_wish_about_a_conversation_is_a_call(words: str, tool: str, arguments: dict[str, object]) -> None:
    (call,) = (await reply(user(words))).calls
    assert (call.name, json.loads(call.arguments)) == (tool, arguments)


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        *(("set a budget", "set_budget"), ("set the budget to 50 dollars", "set_budget")),
        *(("start things without asking", "set_allowance"), ("which llm should think harder", "prefer_model")),
    ],
)
def test_a_wish_without_its_amount_is_a_command_to_type(words: str, tool: str) -> None:
    with pytest.raises(BadRequest, match="`"):
        WISHES[tool](words)
    with pytest.raises(BadRequest, match="`card "):
        card_wish("the card please")


@pytest.mark.parametrize(
    "words",
    [
        *(
            "what happens if I undo a turn",
            "don't undo anything",
            "is opus better than sonnet",
            "we talked about budgets",
        ),
        *("I think harder problems need more data", "use gemini? not sure", "the card shows a log scale now"),
        *(
            "let me think harder about it",
            "high effort yesterday",
            "is the card smoothed",
            "ich denke, mehr Daten helfen",
        ),
        *("vergiss nicht, was wir besprochen haben", "n'efface rien", "¿guardas mis mensajes?", "别改预算"),
    ],
)
async def test_a_conversation_that_is_only_spoken_of_stays(words: str) -> None:
    assert not (await reply(user(words))).calls
