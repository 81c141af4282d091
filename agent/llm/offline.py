"""The planner at the end of the chain: rules instead of a language model, and honest about it.

Stateless: it reads the conversation as a model would and answers with text or tool calls. It understands the everyday
requests (train, predict, watch, control, compare) and says so when it does not understand.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent.domain.errors import BadRequest
from agent.domain.ids import new_ulid
from agent.domain.sources import address_in
from agent.domain.tasks import TASKS, Answer
from agent.llm.intents import ACT, Decision, decide
from agent.llm.slots.actions import priority_in
from agent.llm.slots.charts import chart_arguments, results_arguments
from agent.llm.slots.environment import environment_in, without_environment
from agent.llm.slots.logs import log_arguments, wants_csv
from agent.llm.slots.numbers import factors_in, in_figures
from agent.llm.slots.runs import by_id, experiments_arguments, run_to_act_on, runs_in
from agent.llm.slots.settings import (
    SETTING_NAMES,
    WRITING,
    all_said,
    changes_in,
    choices_in,
    clusters_in,
    held_out_in,
    horizon_in,
    settings_in,
    soon_in,
    split_in,
    text_in,
    weights_in,
)
from agent.llm.slots.wishes import WISHES, card_wish
from agent.ports import OFFLINE, ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from agent.tools.targets import left_out, names_a_target, quoted_target, said_to_predict, target_in, values_in
from agent.tools.training.programs import REQUIREMENTS

UNDERSTANDS = (
    "- **train**: attach a csv (json, parquet, xlsx, a zip of images) or give its address, and say what to predict, "
    "e.g. “train a model that predicts `churn`”\n"
    "- **predict**: attach a csv with the same columns and say “predict on this”\n"
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
    "cannot": f"I cannot do that yet. I know:\n{UNDERSTANDS}",
}
_MOST_READ = 1_000  # characters of a request; some patterns take their time on long texts
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
_NEITHER = "something else"
_APPROVES = re.compile(r"^\W*(?:approved?|yes|reject(?:ed)?)\b", re.IGNORECASE)
_NOT_DECIDED = (
    "That answered my question, so nothing was approved or rejected. Say it once more, or press the card's button."
)
_MOST_ABOUT = 300  # characters of a request that say what to predict
_MOST_NAMED = 40  # columns
NOTHING_TO_ADD = "I have nothing to add to what the card above says."
_NO_PLAN = {
    "start_training": "All right, nothing was started. Tell me what to change, and I ask again.",
    "start_script": "All right, nothing was started. Tell me what to change, and I ask again.",
    "clone_run": "All right, nothing was started. Tell me what to change, and I ask again.",
    "update_script": "All right, the script stays as it is.",
}
_RUN_IT = re.compile(r"\b(?:run|start|train|launch|execute|try)\b", re.IGNORECASE)
_PROGRAM = re.compile(r"(?<![\w./-])([\w.-]+\.(?:py|zip))\b")
_DATA_FILE = re.compile(r"(?<![\w./=-])([\w-][\w.-]*\.(?:csv|tsv|jsonl?|parquet|txt|xlsx|npz))\b")
_IMAGES = re.compile(r"\b(?:images?|photos?|photographs?|pictures?|scans?)\b", re.IGNORECASE)
_ONCE_MORE = re.compile(r"\b(?:again|once more|re-?run|same|noch ?mal|encore|otra vez|de nuevo)\b|再", re.IGNORECASE)
_STARTS = frozenset({"start_training", "start_script"})
_COMMAND_LINE = re.compile(r"(?<=\s)--?[A-Za-z][\w-]*(?:[= ]\S+)*")
_TO_TRAIN = re.compile(r"(?!\bpredict)\b\w*(?:train|build|fit|learn|model|classif|forecast)", re.IGNORECASE)
_TRAIN_WORD = re.compile(r"\b(?:re-?)?train\b", re.IGNORECASE)
_MEND = re.compile(r"\b(?:update|replace|use|new|fix(?:ed)?|change[ds]?|mend(?:ed)?|instead|script)\b", re.IGNORECASE)


_ABOUT_RUNS = frozenset(
    {
        *("run_status", "run_logs", "run_metrics", "run_chart", "run_results"),
        *("run_checkpoints", "run_attempts", "run_script"),
        *("pause_run", "resume_run", "stop_run", "kill_run", "retry_run", "set_priority", "set_card"),
        *("list_runs", "list_hosts", "list_queue", "list_experiments", "compare_runs", "clone_run"),
        *("list_models", "show_cost", "show_budget", "serve_model", "serving_token"),
        *("evaluate_model", "predict_as_job", "download_artifact"),
        *WISHES,
    }
)


class _Asked(NamedTuple):
    """A request: its words, and the names of the files and of the programs among them that came with it."""

    words: str  # with figures, and with settings and the like in English
    said: str
    files: tuple[str, ...]
    programs: tuple[str, ...]
    answers: bool = False  # our question which of two readings was meant

    @property
    def file(self) -> str | None:
        """The first of its files."""
        return next(iter(self.files), None)


class OfflinePlanner:
    """A `Model` without a model."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """One reply, at once."""
        del tools  # it knows the tools by name
        begun, said = _request(messages)
        asked, address = _asked(said, messages, begun)
        try:
            if messages[-1].role is Role.TOOL and begun < len(messages) - 1:
                yield _after_tool(asked, messages)
            elif said.noticed:
                yield _say(NOTHING_TO_ADD)  # the card above has the rules' own words already
            elif said.refused:
                yield _say(said.refused[0])
            elif address is not None:
                yield _call("fetch_data", "I fetch the data first.", address=address)
            else:
                yield _to_request(asked, messages)
        except BadRequest as error:  # words or numbers that cannot be read
            yield _say(error.text)


def _request(messages: Sequence[ModelMessage]) -> tuple[int, ModelMessage]:
    """Where the newest words of a person stand, and they; an answer to a question counts, as do the files before it."""
    asking = {call.id for said in messages for call in said.calls if call.name == "ask_user"}
    before = next((said.files for said in reversed(messages) if said.role is Role.USER), ())
    for at in range(len(messages) - 1, -1, -1):
        said = messages[at]
        if said.role is Role.USER:
            return at, said
        if said.call_id in asking and (words := str(_object(said.text).get("text", "")).partition(" answered: ")[2]):
            return at, replace(said, text=words, files=said.files or before)
    return -1, ModelMessage(Role.USER, "")


def _asked(said: ModelMessage, messages: Sequence[ModelMessage], begun: int) -> tuple[_Asked, str | None]:
    """A request without the address of its data, whose file counts as its own once it was fetched; the address."""
    files = tuple(file.name for file in said.files)
    programs = tuple(file.name for file in said.files if file.is_program)
    address = address_in(said.text)
    if address is None:
        words = _shortened(said.text)
        return _Asked(_read(words, messages), words, files, programs, answers=said.role is Role.TOOL), None
    calls = {call.id for later in messages[begun:] for call in later.calls if call.name == "fetch_data"}
    answers = (_object(later.text) for later in messages[begun:] if later.call_id in calls)
    fetched = tuple(answer["file"] for answer in answers if "file" in answer)
    words = _shortened(said.text.replace(address, " "))
    return _Asked(_read(words, messages), words, (*fetched, *files), programs), address


def _shortened(asked: str) -> str:
    return asked.strip()[:_MOST_READ]


def _read(asked: str, messages: Sequence[ModelMessage]) -> str:
    """A request as the readers take it: with figures, and a run that is counted (“the second one”) by its id."""
    return by_id(in_figures(asked, keep=_columns(messages)), _started(messages))


def _started(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The runs that were started in this conversation, the oldest first."""
    runs = (_object(said.text).get("run") for said in messages if said.role is Role.TOOL and '"run"' in said.text)
    return tuple(dict.fromkeys(run for run in runs if isinstance(run, str)))


def _say(text: str) -> ModelReply:
    return ModelReply(text, (), OFFLINE)


def _call(name: str, text: str = "", /, **arguments: Any) -> ModelReply:
    said = {key: value for key, value in arguments.items() if value not in (None, {}, ())}
    return ModelReply(text, (ToolCall(f"call-{new_ulid()}", name, json.dumps(said)),), OFFLINE)


def _to_request(asked: _Asked, messages: Sequence[ModelMessage]) -> ModelReply:
    named = runs_in(asked.words)
    run_id = named[0] if named else None
    if (own := _about_program(asked, messages, run_id)) is not None:
        return own
    if asked.answers and (asked.words == _NEITHER or _APPROVES.search(asked.words)):
        return _say(NOT_UNDERSTOOD + _examples(messages) if asked.words == _NEITHER else _NOT_DECIDED)
    decided = _decided(asked, messages)
    if decided.between and not asked.answers:
        return _which(decided.between, run_id)
    wanted = decided.intent
    match wanted:
        case "train" if (task := _task_in(asked.words, has_text=True)) and not TASKS[task].asks_for_target:
            target = quoted_target(asked.words) if TASKS[task].needs_target else None
            return _call("inspect_dataset", "I look at the data first.", file=asked.file, target=target, task=task)
        case "train" | "yes":
            target = quoted_target(asked.words) or _offered(messages)
            about = None if target else asked.said[:_MOST_ABOUT]
            return _call("inspect_dataset", "I look at the data first.", file=asked.file, target=target, about=about)
        case "again":
            return _program_again(asked, run_id) if _ran_program(messages) else _again(asked, messages)
        case "predict":
            text = None if asked.file else text_in(asked.words)
            row = {} if asked.file or text else values_in(asked.words, _columns(messages))
            rows = (row,) if row else ()
            return _call("predict", run=run_id, file=asked.file, horizon=horizon_in(asked.words), text=text, rows=rows)
        case "inspect_dataset":
            return _call("inspect_dataset", file=asked.file)
        case str() if wanted in _ABOUT_RUNS:
            run_id = run_to_act_on(asked.words) if wanted in ACT else run_id
            return _call(wanted, **_about_runs(wanted, asked.words, run_id, messages))
        case talk:
            return _say(TALK.get(talk or "") or NOT_UNDERSTOOD + _examples(messages))


def _which(between: Sequence[str], run_id: str | None) -> ModelReply:
    """Ask which of two readings is meant; the answer is read as if it was typed."""
    run = run_id or "the run"
    choices = [TYPED[intent].format(run) for intent in between if intent in TYPED]
    if not choices:
        return _say(NOT_UNDERSTOOD)
    question = "I have no language model and am not sure what you mean. Which of these?"
    return _call("ask_user", question=question, choices=(*choices, _NEITHER))


def _examples(messages: Sequence[ModelMessage]) -> str:
    """What could be said in this thread now."""
    file = next((file.name for said in reversed(messages) for file in said.files if not file.is_program), None)
    run = next((run for said in reversed(messages) for run in reversed(runs_in(said.text))), None)
    said = [f"“train a model on {file}”"] if file else []
    said += [f"“status of {run}”", f"“plot the loss of {run}”"] if run else []
    return f"\n\nHere, for example: {', '.join(said)}." if said else ""


def _program_in(asked: _Asked) -> str | None:
    """The program that came with a request, or that it says to run by its name."""
    if asked.programs:
        return asked.programs[0]
    named = _PROGRAM.search(asked.words)
    if named and _IMAGES.search(asked.words) and named.group(1).lower().endswith(".zip"):
        return None
    return str(named.group(1)) if named and _RUN_IT.search(asked.words) else None


def _about_program(asked: _Asked, messages: Sequence[ModelMessage], run_id: str | None) -> ModelReply | None:
    """What is to be done with a program that is named, or with the newest one; None where none is meant."""
    program = _program_in(asked)
    once_more = _ONCE_MORE.search(asked.words) and not asked.files and _ran_program(messages)
    if once_more and (program is not None or _COMMAND_LINE.search(asked.said)):
        return _program_again(asked, run_id)
    return None if program is None else _with_program(asked, program, run_id)


def _with_program(asked: _Asked, program: str, run_id: str | None) -> ModelReply:
    """Run it, or give it to a run that there is."""
    words = asked.words
    runs_it = _RUN_IT.search(words)
    if program.endswith(".py") and (run_id or (_MEND.search(words) and not runs_it)):
        return _call("update_script", run=run_id, file=program)
    if not runs_it:
        return _say(
            f"Shall I run `{program}`? Say “run {program}”. To change a run that there is, say “update r-abc123 with "
            "this script”."
        )
    line = _COMMAND_LINE.search(words)
    said = changes_in(without_environment(words[: line.start()] + words[line.end() :] if line else words))
    if settings := said.get("settings"):
        return _say(
            f"`{program}` is your own program, so I cannot set {', '.join(settings)} in it. Give it a command line: "
            f"“run {program} --{next(iter(settings)).replace('_', '-')} …”."
        )
    beside = [name for name in asked.files if name not in asked.programs]
    beside += [name for name in _DATA_FILE.findall(words) if name not in beside]
    return _call(
        "start_script",
        file=program,
        data=tuple(name for name in beside if name != REQUIREMENTS),
        requirements=REQUIREMENTS if REQUIREMENTS in beside else None,
        arguments=line.group().strip() if line else None,
        environment=environment_in(words),
        **{name: said.get(name) for name in ("max_hours", "gpus", "host", "engine")},
    )


_SAID_OF: dict[str, Callable[[str], dict[str, Any]]] = {
    "run_logs": log_arguments,
    "run_chart": chart_arguments,
    "run_results": results_arguments,
    "set_card": card_wish,
}


_OF_NO_RUN: dict[str, Callable[[str], dict[str, Any]]] = {
    **dict.fromkeys(
        ("list_runs", "list_hosts", "list_queue", "list_models", "show_cost", "show_budget"),
        lambda _asked: {},
    ),
    "list_experiments": experiments_arguments,
    **WISHES,
}


def _about_runs(tool: str, asked: str, run_id: str | None, messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """The arguments of a tool about runs, as far as the person said them."""
    match tool:
        case _ if tool in _OF_NO_RUN:
            return _OF_NO_RUN[tool](asked)
        case "compare_runs":
            return {"runs": runs_in(asked)}
        case "clone_run":
            return {
                "run": run_id,
                **_changed(asked, messages),
                "target": quoted_target(asked),
                "priority": soon_in(asked),
            }
        case "serve_model":
            return {"run": run_id, **_place(asked, {})}
        case "evaluate_model" | "predict_as_job":
            named = _DATA_FILE.search(asked)
            file = str(named[1]) if named else ""
            return {"run": run_id, "file": file or None, **_place(asked, {}, file)}
        case "run_logs" | "run_chart" | "run_results" | "set_card":
            return {"run": run_id, **_SAID_OF[tool](asked)}
        case "run_metrics":
            if not wants_csv(asked):
                return {"run": run_id}
            return {"run": run_id, "parquet" if "parquet" in asked.lower() else "csv": True}
        case "set_priority":
            return {"run": run_id, "priority": priority_in(asked)}
        case _:
            return {"run": run_id}


def _changed(asked: str, messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """What a copy of a run is to have otherwise. Raises: BadRequest, where that is said without a number."""
    changes = changes_in(asked)
    if factors := _multiplied(asked, _last_plan(messages).get("settings") or {}):
        changes["settings"] = changes.get("settings", {}) | factors
    if not {"settings", "seed"} & changes.keys():
        all_said(asked)
    return changes


def _multiplied(asked: str, known: dict[str, Any]) -> dict[str, float | int]:
    """Settings that are to be a multiple of what they were. Raises: BadRequest, where that is not known here."""
    found: dict[str, float | int] = {}
    for said, factor in factors_in(asked).items():
        key = SETTING_NAMES.get(said.replace(" ", "_"), said.replace(" ", "_"))
        was = known.get(key)
        if not isinstance(was, int | float):
            raise BadRequest(f"I do not know the {said} that it had, so say the number itself, such as “{said} 0.01”.")
        value = round(was * factor, 12)
        found[key] = round(value) if isinstance(was, int) else value
    return found


def _wanted(asked: _Asked, messages: Sequence[ModelMessage]) -> str | None:
    return _decided(asked, messages).intent


def _decided(asked: _Asked, messages: Sequence[ModelMessage]) -> Decision:
    """What a request is about, where it also depends on what was said and done before."""
    text = text_in(asked.words)
    words = asked.words.replace(text, "") if text else asked.words  # a model's text is no request
    decided = decide(words, with_file=bool(asked.files), columns=_columns(messages))
    intent = _in_context(decided.intent, asked, messages)
    return decided if intent == decided.intent else Decision(intent)


def _columns(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The columns of the data that was looked at last."""
    for said in reversed(messages):
        if said.role is Role.TOOL and '"columns"' in said.text:
            return tuple(str(column["name"]) for column in _object(said.text).get("columns", ()) if "name" in column)
    return ()


def _in_context(intent: str | None, asked: _Asked, messages: Sequence[ModelMessage]) -> str | None:
    if intent in (None, "inspect_dataset", "predict", "train") and WRITING.search(asked.words):
        return "train" if asked.files else "predict"
    if intent == "again" and runs_in(asked.words):
        return "clone_run"
    if intent == "again" and not (_last_plan(messages) or _ran_program(messages)):
        return "train" if asked.files or _TRAIN_WORD.search(asked.words) else None
    if intent == "yes" and _offered(messages) is None:
        return None
    before = _last_plan(messages).get("target")
    if intent == "train" and not asked.files and before and not _TO_TRAIN.search(asked.words):
        return "predict" if values_in(asked.words, _columns(messages)) else "train"
    if intent == "train" and asked.files and before and not _TO_TRAIN.search(asked.words):
        return "train" if names_a_target(asked.words, but=before) else "predict"
    if intent == "predict" and asked.files and not runs_in(asked.words) and names_a_target(asked.words, but=before):
        return "train"  # no model here predicts that, and a file with a column to learn came with it
    return intent


def _offered(messages: Sequence[ModelMessage]) -> str | None:
    """The target that our last words before the request offered to train for."""
    asked = max((index for index, said in enumerate(messages) if said.role is Role.USER), default=0)
    ours = (said for said in reversed(messages[:asked]) if said.role is Role.ASSISTANT)
    return next((said.offers for said in ours), "") or None


def _last_plan(messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """The arguments of the newest plan of this conversation; empty without one."""
    calls = (call for said in reversed(messages) for call in reversed(said.calls) if call.name == "start_training")
    return next((_object(call.arguments) for call in calls), {})


def _object(text: str) -> dict[str, Any]:
    """What a model wrote as arguments; empty where that is not an object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _ran_program(messages: Sequence[ModelMessage]) -> bool:
    """Whether the newest plan of this conversation was a program of somebody's own."""
    plans = (call.name for said in reversed(messages) for call in reversed(said.calls) if call.name in _STARTS)
    return next(plans, "") == "start_script"


def _program_again(asked: _Asked, run_id: str | None) -> ModelReply:
    """The newest program once more, with other options: `--lr 2` as it is written, or settings in words."""
    line = _COMMAND_LINE.search(asked.said)
    words = asked.words if line is None else asked.words.replace(line.group(), " ")
    return _call("clone_run", run=run_id, arguments=line.group().strip() if line else None, **changes_in(words))


def _again(asked: _Asked, messages: Sequence[ModelMessage]) -> ModelReply:
    """The last plan once more, with what the person wants otherwise."""
    file = asked.file or _last_plan(messages).get("file")
    for said in reversed(messages):
        report = _object(said.text) if said.role is Role.TOOL else {}
        if "columns" in report and report["dataset"]["name"] == file:
            return _plan(asked, report, messages)
    return _call("inspect_dataset", file=file)


def _after_tool(asked: _Asked, messages: Sequence[ModelMessage]) -> ModelReply:
    answer = json.loads(messages[-1].text)
    if "error" in answer:
        return _say(answer["error"])
    tool = _tool_of(messages)
    if tool == "fetch_data":
        is_known = _program_in(asked) is not None or _wanted(asked, messages) is not None
        return _to_request(asked, messages) if is_known else _call("inspect_dataset", file=asked.file)
    if tool == "inspect_dataset":
        plans = _wanted(asked, messages) in {"train", "again", "yes"} and not answer.get("problems")
        return _plan(asked, answer, messages) if plans else _what_next(answer)
    if tool in _NO_PLAN and "approval" in answer:
        return _say(_NO_PLAN[tool])
    return _say(answer.get("text") or "Done.")


def _tool_of(messages: Sequence[ModelMessage]) -> str:
    """The tool whose answer is the last message."""
    calls = (call for said in reversed(messages) for call in said.calls)
    return next((call.name for call in calls if call.id == messages[-1].call_id), "")


def _plan(request: _Asked, report: dict[str, Any], messages: Sequence[ModelMessage]) -> ModelReply:
    intent, asked = _wanted(request, messages), request.words
    before = _last_plan(messages) if intent == "again" else {}
    task = _task_in(asked, has_text=bool(report.get("text_column"))) or before.get("task")
    found = quoted_target(asked) or before.get("target") or report.get("suggested_target")
    if task and not TASKS[task].needs_target:
        target, words = None, ""
    elif found and task and not TASKS[task].asks_for_target:
        target, words = found, ""
    else:
        target, words = _target(asked, report, before)
    if target is None and words:
        return _say(words)
    known = before.get("settings") or {}
    settings = known | settings_in(asked) | _multiplied(asked, known)
    if before and settings == known:
        all_said(asked)
    seed = settings.pop("seed", before.get("seed"))
    file = report.get("dataset", {}).get("name")
    place = _place(asked, before, str(file))
    answer = TASKS[task or report.get("suggested_task") or "tabular_classification"].answer
    if answer is Answer.CLUSTER:
        settings |= clusters_in(asked)
    if answer is Answer.TEXT:
        settings |= choices_in(asked)
    if answer is Answer.LABEL:
        settings |= weights_in(asked)
    if answer is Answer.SERIES:
        horizon = horizon_in(asked)
        if horizon is not None:
            settings["horizon"] = horizon
            place["max_hours"] = before.get("max_hours")  # “for 24 hours” is how far ahead
    return _call(
        "start_training",
        "" if before or intent == "yes" else words,
        file=file,
        target=target,
        task=task,
        drop_columns=tuple(dict.fromkeys((*(before.get("drop_columns") or ()), *left_out(asked, _names(report))))),
        settings=settings,
        test_frac=held_out_in(asked) or before.get("test_frac"),
        split_by=split_in(asked, _names(report, "datetime")) or before.get("split_by"),
        seed=int(seed) if seed is not None else None,
        priority=soon_in(asked),
        **place,
    )


def _names(report: dict[str, Any], kind: str = "") -> tuple[str, ...]:
    """The columns of a report, or those of one kind."""
    return tuple(str(column["name"]) for column in report.get("columns", ()) if kind in {"", column.get("kind")})


def _target(asked: str, report: dict[str, Any], before: dict[str, Any]) -> tuple[str | None, str]:
    """The column to predict and how it was chosen, where the person did not name it; None and a question for which."""
    names = [column["name"] for column in report.get("columns", ()) if column.get("kind") not in {"image", "datetime"}]
    columns = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
    read = report.get("text_column")
    named, sure = target_in(asked, [name for name in names if name != read])
    if sure:
        return named, ""
    said = said_to_predict(asked)
    if said and "_" in said[0]:
        file = report.get("dataset", {}).get("name")
        return None, f"`{file}` has no column `{said[0]}`. Which one should I predict? The columns: {columns}."
    target = before.get("target") or named or (report.get("target") or {}).get("column")
    target = target or report.get("suggested_target")
    if target is None:
        return None, f"Which column should I predict? The columns: {columns}."
    if named:
        return target, f"I take it that you mean `{target}`."
    if said:
        return target, f"No column is called that (there are {columns}), so I take `{target}`."
    return target, f"You did not name the target, so I take `{target}`."


def _task_in(asked: str, *, has_text: bool) -> str | None:
    """The task type that a request names, of those that the data allow; the longest word says most."""
    fitting = (task for task in TASKS.values() if has_text or not task.needs_text)
    words = asked.lower()
    said = [(len(word), task.name) for task in fitting for word in task.words if re.search(rf"\b{word}\b", words)]
    return max(said, key=lambda pair: pair[0])[1] if said else None


def _place(asked: str, before: dict[str, Any], file: str = "") -> dict[str, Any]:
    """Where and how long something runs, as far as it was said now or in the plan before."""
    wanted = {name: before.get(name) for name in ("max_hours", "gpus", "host", "engine")}
    wanted |= {name: value for name, value in changes_in(asked).items() if name in wanted}
    if file.startswith(str(wanted["host"])):
        wanted["host"] = None  # “on iris2” means iris2.csv
    return wanted


def _what_next(report: dict[str, Any]) -> ModelReply:
    text = str(report["text"])
    if report.get("problems"):
        return _say(text)
    suggested = report.get("suggested_target")
    if suggested:
        asks = f"{text} Shall I train a model for `{suggested}`? Say “train a model that predicts `{suggested}`”."
        return replace(_say(asks), offers=str(suggested))
    return _say(f"{text} Say which column I should predict.")
