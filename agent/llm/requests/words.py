"""What the planner without a model says, and how it calls a tool. Knows no request."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.domain.ids import new_ulid
from agent.domain.tasks import TASKS, Answer
from agent.llm.requests.asked import NEITHER, NOT_READ, OF_WHICH, WHICH_FILE, WITHOUT_IT, started
from agent.ports import OFFLINE, ModelMessage, ModelReply, ToolCall

UNDERSTANDS = (
    "- **train**: attach a csv (json, parquet, xlsx, a zip of images) or give its address, and say what to predict, "
    "e.g. “train a model that predicts `churn`”\n"
    "- **predict**: attach a csv with the same columns and say “predict on this”, or describe a row, such as “age 30”\n"
    "- **pause**, **resume**, **stop**, **retry**, **kill**; “train r-abc123 again with learning rate 0.1”\n"
    "- **chart**: “plot the loss of the last 500 steps on a log scale”; **results**: “what did it get wrong?”\n"
    "- **status**, **runs**, **logs**, **metrics**, **checkpoints**, **compare**, **queue**, **cluster info**\n"
    "- **budget**, **audit**, **models**, **help**; and which commands start afresh, undo, compact or export our talk"
)
NOT_UNDERSTOOD = f"I did not understand that: I have no language model and go by rules. I know:\n{UNDERSTANDS}"
TALK = {
    "help": f"I am Trainyard. I have no language model now and go by rules. I understand:\n{UNDERSTANDS}",
    "thanks": "You are welcome.",
    "no": "All right, I leave everything as it is.",
    "later": (
        "Nothing was done: I act at once and cannot wait for a moment or a condition. Say “stop r-abc123” (or pause, "
        "resume, kill, retry) when it is time; `status` and `metrics` show how far a run is."
    ),
    "unclear": (
        "Nothing was done, since I am not sure what is meant: I have no language model and go by rules. Say no more "
        "than what and which, such as “stop r-abc123”. With other settings it is a new run, which people approve: say "
        "“clone r-abc123 with learning rate 0.01, 2 gpus, for 4 hours”."
    ),
    "update_script": (
        "I change a script by a whole new one: attach the new `train.py` and say “update r-abc123 with this script”. "
        "`script` shows the one that it has."
    ),
    "delete": (
        "I delete no files, runs or words of others. `forget me` deletes what you said yourself, and `new` starts "
        "afresh without what was said here."
    ),
    "cannot": f"I cannot do that yet. I know:\n{UNDERSTANDS}",
}
TYPED = {  # how each reading is said in words that are read as nothing else
    "train": "train a model",
    "again": "train it again",
    "clone_run": "clone {}",
    "predict": "predict on this",
    "inspect_dataset": "look at the data",
    **{f"{verb}_run": f"{verb} {{}}" for verb in ("stop", "kill", "pause", "resume", "retry")},
    "set_priority": "give {} high priority",
    "run_chart": "draw the curves of {}",
    "run_results": "show the pictures of {}",
    "run_script": "show the script of {}",
    **{f"run_{what}": f"{what} of {{}}" for what in ("status", "logs", "metrics", "checkpoints", "attempts")},
    "list_runs": "list all runs",
    "list_hosts": "which hosts are there",
    "list_queue": "show the queue",
    "list_experiments": "leaderboard",
    "compare_runs": "compare the last two runs",
    "serve_model": "serve the model of {}",
    "list_models": "which language models are there",
    "show_cost": "what did this cost",
    "show_audit": "show the audit log",
    "show_budget": "what is left of the budgets",
    "serving_token": "the token of {}",
    "evaluate_model": "evaluate {}",
    "predict_as_job": "predict every row as a job",
    "download_artifact": "download the model of {}",
    "new_session": "start a new conversation",
    "compact_session": "compact the conversation",
    "undo_turn": "undo the last turn",
    "export_session": "export the conversation",
    "prefer_model": "switch the language model",
    "help": "help",
}
_MOST_VALUES = 6  # of an example
_MOST_CHOICES = 4  # beside “something else”
_FITS = {Answer.SERIES: "horizon 24", Answer.CLUSTER: "5 groups"}
UNKNOWN = "I count {} as unknown. Say more with “{}=…”."
NOT_LEARNED = " This model was trained without {}, which it does not read."
NOT_DECIDED = (
    "That answered my question, so nothing was approved or rejected. Say it once more, or press the card's button."
)
_SAY_OTHERWISE = "{}, so nothing was planned or shown without it. Say it in other words, such as {}, or leave it out."
_SAY_VALUES = (
    "{}, so nothing was predicted. Write the values by their columns, those that you know: `predict {}`. A csv with "
    "rows works too."
)
NOTHING_NEW = (
    "I did not understand what should be otherwise than in the last plan, so nothing was planned. Say “again”, or a "
    "setting with its value, such as “again with rounds 800”."
)
NEEDS = {"set_budget": "Say for whom and how much: “set the budget of this channel to $50 and 80 GPU hours”."}
WHICH_RUN = "Nothing was done: I do that with one run at a time. Say which, such as “stop r-abc123”. Here are {}."
NOTHING_TO_ADD = "I have nothing to add to what the card above says."
NO_PLAN = {
    "start_training": "All right, nothing was started. Tell me what to change, and I ask again.",
    "start_script": "All right, nothing was started. Tell me what to change, and I ask again.",
    "clone_run": "All right, nothing was started. Tell me what to change, and I ask again.",
    "update_script": "All right, the script stays as it is.",
}


def say(text: str) -> ModelReply:
    return ModelReply(text, (), OFFLINE)


def call(name: str, text: str = "", /, **arguments: Any) -> ModelReply:
    said = {key: value for key, value in arguments.items() if value not in (None, {}, ())}
    return ModelReply(text, (ToolCall(f"call-{new_ulid()}", name, json.dumps(said)),), OFFLINE)


def not_read(tool: str, missed: str, report: Mapping[str, Any]) -> ModelReply:
    """Ask for what nobody could read of a request, with examples that fit the data that were looked at last."""
    task = TASKS.get(report.get("suggested_task") or "")
    columns = [one["name"] for one in report.get("columns", ()) if "name" in one]
    if tool == "predict" and columns:
        known = {one["name"] for one in report["columns"] if one.get("kind") != "identifier"}
        known -= {report.get("suggested_target")}
        example = " ".join(f"{name}=…" for name in [name for name in columns if name in known][:_MOST_VALUES])
        return say(NOT_READ + _SAY_VALUES.format(missed, example))
    column = next((name for name in columns if name != report.get("suggested_target")), "")
    boosts = task is None or task.unit == "boosting round"
    setting = "rounds 200" if boosts or task is None else _FITS.get(task.answer, "epochs 20")
    ways = ", ".join((f"“{setting}”", *((f"“without the column {column}”",) if column and boosts else ())))
    question = NOT_READ + _SAY_OTHERWISE.format(missed, f"{ways} or “for 3 hours”")
    named = [name for name in re.findall("“(.*?)”", missed) if name in columns]
    return call(
        "ask_user", question=question, choices=(*map("without the column {}".format, named[:2]), WITHOUT_IT, NEITHER)
    )


def which_target(question: str, columns: Sequence[str]) -> ModelReply:
    """Ask for the column to predict; the answer is added to the request."""
    return call("ask_user", question=question, choices=(*map("target {}".format, columns[:_MOST_CHOICES]), NEITHER))


def which_file(files: Sequence[str]) -> ModelReply:
    """Ask for the file to learn from; the answer is added to the request."""
    return call("ask_user", question=WHICH_FILE, choices=(*files[:_MOST_CHOICES], NEITHER))


def of_which(runs: Sequence[str]) -> ModelReply:
    """Ask which run is meant; the answer is added to the request."""
    return call("ask_user", question=OF_WHICH, choices=(*runs[-_MOST_CHOICES:], NEITHER))


def which(between: Sequence[str], run_id: str | None) -> ModelReply:
    """Ask which of two readings is meant; the answer is read as if it was typed."""
    run = run_id or "the run"
    choices = [TYPED[intent].format(run) for intent in between if intent in TYPED]
    if not choices:
        return say(NOT_UNDERSTOOD)
    question = "I have no language model and am not sure what you mean. Which of these?"
    return call("ask_user", question=question, choices=(*choices, NEITHER))


def examples(messages: Sequence[ModelMessage]) -> str:
    """What could be said in this thread now."""
    file = next((file.name for said in reversed(messages) for file in said.files if not file.is_program), None)
    run = next(reversed(started(messages)), None)
    said = [f"“train a model on {file}”"] if file else []
    said += [f"“status of {run}”", f"“plot the loss of {run}”"] if run else []
    return f"\n\nHere, for example: {', '.join(said)}." if said else ""
