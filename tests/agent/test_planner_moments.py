"""The offline planner: an act is done at once or not at all, so nothing that names another moment or part is done."""

import json

import pytest

from agent.domain.errors import BadRequest
from agent.domain.runs import RunState
from agent.llm.intents import decide
from agent.llm.places import Place
from agent.llm.slots.budgets import budget_arguments
from agent.llm.slots.conversations import preference_arguments
from agent.llm.slots.unread import unread
from tests.agent.planner_talk import after_a_look, reply, user

AT_ONCE = {"pause_run", "resume_run", "retry_run", "stop_run", "kill_run", "set_priority"}


def decided(words: str, state: RunState) -> str | None:
    return decide(words, Place(with_file=False, has_runs=True, states=frozenset({state}))).intent


@pytest.mark.parametrize(
    ("state", "words"),
    [
        *((RunState.PAUSED, f"resume {when}") for when in ("at 9am", "around 9", "at noon", "at 18:00", "in an hour")),
        *((RunState.PAUSED, words) for words in ("mach um 9 weiter", "continúa a las 9", "九点继续", "reprends à 9h")),
        *((RunState.PAUSED, words) for words in ("resume from step 100", "resume on gpu 2", "resume posting the card")),
        *((RunState.FAILED, f"retry {when}") for when in ("at 9am", "in the morning", "tomorrow", "on another host")),
        *((RunState.FAILED, words) for words in ("retry from step 100", "reintenta a las 9")),
        *(
            (RunState.RUNNING, f"pause {when}")
            for when in ("at 9am", "for an hour", "around five", "for the demo at 3")
        ),
        *((RunState.RUNNING, words) for words in ("mets en pause à 9h", "一小时后暂停", "九点停止", "stop the clock")),
        *((RunState.RUNNING, words) for words in ("pause it, no, stop it", "stop it… actually no", "kill it at 9am")),
        (RunState.RUNNING, "predict churned, then stop r-abc123"),
    ],
)
def test_what_names_another_moment_or_part_is_not_done_at_once(state: RunState, words: str) -> None:
    assert decided(words, state) not in AT_ONCE


@pytest.mark.parametrize(
    ("state", "words", "act"),
    [
        (RunState.RUNNING, "I need the GPU for an hour, take a break and keep where you are", "pause_run"),
        (RunState.RUNNING, "mets en pause, on a une démo à 14 h", "pause_run"),
        (RunState.RUNNING, "pause it for now, Maria's model has to be ready tonight", "pause_run"),
        (RunState.RUNNING, "stop isn't doing anything for 10 min now, kill r-abc123", "kill_run"),
        (RunState.RUNNING, "kill it right now, no checkpoint", "kill_run"),
        (RunState.PAUSED, "resume r-abc123", "resume_run"),
        (RunState.FAILED, "retry it from the beginning", "clone_run"),
    ],
)
def test_what_stands_beside_an_act_for_now_does_not_hinder_it(state: RunState, words: str, act: str) -> None:
    assert decided(words, state) == act


@pytest.mark.parametrize("words", ["200 dollars for the channel from october on", "channel: 100 gpu hours a year"])
def test_a_budget_of_another_span_is_no_budget_of_a_month(words: str) -> None:
    with pytest.raises(BadRequest, match="for each month, from now on"):
        budget_arguments(words)


@pytest.mark.parametrize("words", ["switch to claude sonnet tomorrow", "use gpt-4o for this question only"])
def test_a_choice_of_a_model_for_another_moment_is_not_made(words: str) -> None:
    with pytest.raises(BadRequest, match="from now on"):
        preference_arguments(words)


@pytest.mark.parametrize(
    ("words", "missed"),
    [
        ("predict churned on the first 1000 rows only", "on the first 1000 rows"),
        ("predict churned but weight the yes class 3 times", "weight the yes class 3 times"),
        ("predict churned, optimise for recall", "optimise for recall"),
        ("predict churned with an ensemble of three models", "ensemble"),
        ("predict churned, name it baseline", "name it baseline"),
        ("predict churned and keep it private", "keep it private"),
    ],
)
def test_what_no_plan_holds_is_asked_about(words: str, missed: str) -> None:
    assert missed in unread("start_training", {"file": "churn.csv", "target": "churned"}, words, ("churned",))


@pytest.mark.parametrize("words", ["stop after epoch 3", "once it's finished put it up as an api"])
def test_what_waits_for_a_run_is_no_plan_now(words: str) -> None:
    assert decided(words, RunState.RUNNING) == "later"


async def test_data_of_the_hub_are_fetched_by_their_name() -> None:
    (fetch,) = (await reply(user("load imdb from hugging face and train a sentiment model"))).calls
    assert (fetch.name, json.loads(fetch.arguments)) == ("fetch_data", {"address": "hf:imdb"})


async def test_texts_alone_teach_a_model_to_write() -> None:
    columns = [{"name": "file", "kind": "category"}, {"name": "text", "kind": "text"}]
    report = {"text": "", "dataset": {"name": "corpus.txt"}, "columns": columns, "text_column": "text"}
    suggested = {"suggested_task": "text_generation", "suggested_target": "text"}
    (plan,) = (await after_a_look("train on this text", report | suggested)).calls
    assert json.loads(plan.arguments)["task"] == "text_generation"
