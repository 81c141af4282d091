"""The offline planner knows how the runs of a thread stand: one that failed is retried, not planned once more."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent.domain.runs import ExitClass, RunState
from agent.ports import AttachedFile, ModelMessage, ModelReply, RunNow
from tests.agent.conftest import Harness
from tests.agent.planner_talk import REPORT, answered, called, reply, user
from tests.agent.stage import Stage
from tests.fakes import clicked
from tests.fakes import said as words_said

RUN, OTHER = "r-abc123", "r-def456"


def thread(*runs: str) -> Sequence[ModelMessage]:
    """A conversation in which these runs were started, the oldest first."""
    return (
        user("train a model that predicts `visited_doctor`", "visits.csv"),
        called("inspect_dataset"),
        answered(REPORT),
        *(
            message
            for run in runs
            for message in (
                called("start_training", run, file="visits.csv", target="visited_doctor"),
                answered({"approval": "approved", "run": run}, run),
            )
        ),
    )


async def said(words: str, *runs: tuple[str, RunState], file: str = "") -> ModelReply:
    """The answer to words in a thread with such runs, the newest first."""
    files = (AttachedFile(file, 9),) if file else ()
    now = tuple(RunNow(run, state) for run, state in runs)
    before = thread(*(run for run, _ in reversed(runs)))
    return await reply(*before, replace(user(words), files=files, runs=now))


def made(answer: ModelReply) -> tuple[str, dict[str, Any]]:
    """The call of a reply, and what it says; empty without one."""
    return next(((call.name, json.loads(call.arguments)) for call in answer.calls), ("", {}))


@pytest.mark.parametrize(
    ("words", "state", "tool"),
    [
        ("once more", RunState.FAILED, "retry_run"),
        ("dale otra vez", RunState.FAILED, "retry_run"),
        ("resume it", RunState.FAILED, "retry_run"),
        ("pick it up again from the checkpoint", RunState.LOST, "retry_run"),
        ("host is back up, retry", RunState.FAILED, "retry_run"),
        ("once more", RunState.SUCCEEDED, "start_training"),
        ("once more with 200 rounds", RunState.FAILED, "start_training"),
        ("go on", RunState.PAUSED, "resume_run"),
        ("stop isn't doing anything, kill r-abc123", RunState.RUNNING, "kill_run"),
        ("pause please, Ines needs the card for her run", RunState.RUNNING, "pause_run"),
        ("pause it and continue later", RunState.RUNNING, "pause_run"),
        ("we present this tomorrow, can it go first?", RunState.QUEUED, "set_priority"),
        ("give it high priority, we need it by tomorrow", RunState.QUEUED, "set_priority"),
    ],
)
async def test_what_can_be_done_with_a_run_says_what_is_meant(words: str, state: RunState, tool: str) -> None:
    assert made(await said(words, (RUN, state)))[0] == tool


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("give it high priority, but only from tomorrow", RunState.QUEUED),
        ("if it fails again, retry", RunState.FAILED),
        ("Tom asked to stop it", RunState.RUNNING),
        ("did somebody retry it?", RunState.FAILED),
        ("the host is back", RunState.FAILED),
    ],
)
async def test_a_state_alone_makes_no_wish(words: str, state: RunState) -> None:
    assert made(await said(words, (RUN, state)))[0] not in {"set_priority", "retry_run", "stop_run"}


async def test_the_run_that_hangs_is_the_one_to_kill() -> None:
    runs = ((RUN, RunState.RUNNING), (OTHER, RunState.RUNNING))
    assert made(await said(f"{OTHER} hangs, kill it", *runs)) == ("kill_run", {"run": OTHER})
    assert made(await said(f"stop the training, {OTHER} is better", *runs)) == ("", {})


@pytest.mark.parametrize("words", ["which tags are in this file?", "would you rather use trees or a neural net here?"])
async def test_a_question_about_data_plans_nothing_when_their_columns_are_known(words: str) -> None:
    report = REPORT | {"columns": [{"name": "tags"}, {"name": "trees"}], "suggested_target": "tags"}
    first = await reply(user(words, "tags.csv"))
    looked = called("inspect_dataset")
    last = await reply(user(words, "tags.csv"), looked, answered(report)) if first.calls else first
    assert "start_training" not in {call.name for call in (*first.calls, *last.calls)}


async def test_which_of_two_files_is_asked_with_a_button_for_each() -> None:
    asked = user("train a model", "churn.csv", "houses.csv")
    looks = [answered(REPORT | {"dataset": {"name": name}}, name) for name in ("churn.csv", "houses.csv")]
    seen = (called("inspect_dataset", "churn.csv"), looks[0], called("inspect_dataset", "houses.csv"), looks[1])
    tool, question = made(await reply(asked, *seen))
    assert (tool, question["choices"][:2]) == ("ask_user", ["churn.csv", "houses.csv"])
    chosen = answered({"text": "Ana answered: houses.csv"}, "q1")
    tool, looked = made(await reply(asked, *seen, called("ask_user", "q1", **question), chosen))
    assert (tool, looked["file"]) == ("start_training", "houses.csv")


async def test_a_link_to_another_thread_is_gone_on_with() -> None:
    link = "https://acme.slack.com/archives/C012AB/p1700000000000100"
    assert made(await reply(user(f"pick up the talk from {link}"))) == ("resume_session", {"address": link})


async def test_a_path_on_a_host_is_fetched_from_there() -> None:
    tool, asked = made(await reply(user("there's a file on gpu-1 under /data/surveys/q3.csv, load it please")))
    assert (tool, asked) == ("fetch_data", {"address": "gpu-1:/data/surveys/q3.csv"})


async def test_the_rules_are_told_how_the_runs_of_a_thread_stand(harness: Harness) -> None:
    """Through the whole bot, without a language model: a run that nobody started in words has failed."""
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.tells(f"status of {run.id}")
        assert (await stage.ended(run, RunState.FAILED, ExitClass.USER_ERROR, "It raised ValueError.")).outcome
        assert run.id in await stage.tells("dale otra vez")
        assert (await brain.stores.runs.get(run.id)).attempt == 2


async def test_a_run_is_found_by_how_it_stands(harness: Harness) -> None:
    runs = ((RUN, RunState.RUNNING), (OTHER, RunState.FAILED))
    assert made(await said("use the new train.py for the failed run", *runs, file="train.py"))[1]["run"] == OTHER
    assert made(await said("stop the running one", *runs)) == ("stop_run", {"run": RUN})


async def test_the_first_one_is_the_first_of_the_list_that_was_shown() -> None:
    now = (RunNow(RUN, RunState.RUNNING), RunNow(OTHER, RunState.RUNNING))
    shown = (user("queue"), called("list_queue", "q"), answered({"text": f"1. `{RUN}` 2. `{OTHER}`"}, "q"))
    asked = replace(user("stop the first one"), runs=now)
    assert made(await reply(*thread(OTHER, RUN), *shown, asked)) == ("stop_run", {"run": RUN})
    assert made(await reply(*thread(OTHER, RUN), asked)) == ("stop_run", {"run": OTHER})


@pytest.mark.parametrize("words", ["the same but with the column age", "the same including age"])
async def test_a_column_that_was_left_out_is_put_back(words: str) -> None:
    before = (
        user("train a model that predicts `visited_doctor` without age", "visits.csv"),
        called("inspect_dataset"),
        answered(REPORT),
        called("start_training", RUN, file="visits.csv", target="visited_doctor", drop_columns=["age"]),
        answered({"approval": "approved", "run": RUN}, RUN),
    )
    tool, plan = made(await reply(*before, replace(user(words), runs=(RunNow(RUN, RunState.SUCCEEDED),))))
    assert (tool, plan["target"], plan.get("drop_columns")) == ("start_training", "visited_doctor", None)


async def test_a_training_goes_on_after_runs_were_compared() -> None:
    compared = (user("which is better?"), called("compare_runs", "c"), answered({"text": "", "columns": ["run"]}, "c"))
    tool, plan = made(await reply(*thread(OTHER, RUN), *compared, user("train with 40 rounds")))
    assert (tool, plan["settings"]) == ("start_training", {"rounds": 40})
    tool, plan = made(await reply(*thread(OTHER, RUN), user("train it again with 40 rounds")))
    again = (*thread(RUN), user("the same with 40 rounds"), called("start_training", "x", **plan), answered({}, "x"))
    assert made(await reply(*again, user("train the same with 40 rounds")))[0] == ""  # said so, and no puzzle


async def test_a_question_about_a_run_holds_for_the_attempt_it_was_asked_of(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await brain.router.accept(words_said(f"kill {run.id}"))
        first = await stage.asked()
        said_again = await stage.tells(f"kill {run.id}")
        assert "asked about just this already" in said_again
        assert len([one for one in harness.adapter.shown if one.card and one.card.title.startswith("Kill")]) == 1
        await stage.ended(run, RunState.FAILED, ExitClass.USER_ERROR, "It raised ValueError.")
        await stage.asks("retry", run.id)
        card = first.card
        assert card is not None
        await brain.router.accept(clicked(card.buttons[0]))
        await stage.settled()
        assert "has gone on since" in " ".join(harness.adapter.texts())
        assert (await brain.stores.runs.get(run.id)).state is not RunState.STOPPING


async def test_a_value_that_a_model_does_not_read_is_said_to_be_none_of_its() -> None:
    columns = [{"name": name, "kind": "number"} for name in ("age", "health", "visited_doctor")]
    before = (
        user("train a model that predicts `visited_doctor` without health", "visits.csv"),
        called("inspect_dataset"),
        answered(REPORT | {"columns": columns}),
        called("start_training", RUN, file="visits.csv", target="visited_doctor", drop_columns=["health"]),
        answered({"approval": "approved", "run": RUN}, RUN),
    )
    answer = await reply(*before, user("predict age 30, health 2"))
    assert made(answer)[0] == "predict"
    assert answer.text == "This model was trained without `health`, which it does not read."


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        ("pause it, and predict on x", "predict on x"),
        ("stop it and then give me the model", "give me the model"),
        ("halt an und zeig mir den loss", "zeig mir den loss"),
        ("pause it, we need the card and the host", ""),
        ("pause it and lower its priority", "lower its priority"),
        ("make it low priority, then pause it", "pause it"),
        ("pause it and resume later", ""),
        ("接着跑吧", ""),
    ],
)
async def test_after_an_act_the_rest_of_a_request_is_named(words: str, rest: str) -> None:
    act = called("pause_run", "c9", run=RUN), answered({"text": "It pauses.", "run": RUN}, "c9")
    ended = await reply(*thread(RUN), user(words), *act)
    assert ended.text == (
        f"It pauses. I do one thing at a time, so say the rest now: “{rest}”." if rest else "It pauses."
    )
