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
from agent.llm.phrases import (
    ACT,
    RUN_ID,
    TRAIN_WORD,
    WRITING,
    card_arguments,
    changes_in,
    chart_arguments,
    choices_in,
    clusters_in,
    horizon_in,
    intent_of,
    left_out,
    log_arguments,
    names_a_target,
    priority_in,
    quoted_target,
    results_arguments,
    run_to_act_on,
    said_to_predict,
    settings_in,
    shortened,
    target_in,
    text_in,
    wants_csv,
)
from agent.ports import OFFLINE, ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from agent.tools.training.programs import REQUIREMENTS

UNDERSTANDS = (
    "- **train**: attach a csv (json, parquet, xlsx, a zip of images) or give its address, and say what to predict, "
    "e.g. “train a model that predicts `churn`”\n"
    "- **predict**: attach a csv with the same columns and say “predict on this”\n"
    "- **pause**, **resume**, **stop**, **retry**, **kill**; “train r-abc123 again with learning rate 0.1”\n"
    "- **chart**: “plot the loss of the last 500 steps on a log scale”; **results**: “what did it get wrong?”\n"
    "- **status**, **runs**, **logs**, **metrics**, **checkpoints**, **compare**, **queue**, **cluster info**, **help**"
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
    "cannot": f"I cannot do that yet. I know:\n{UNDERSTANDS}",
}
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
_COMMAND_LINE = re.compile(r"(?<=\s)--?[A-Za-z][\w-]*(?:[= ]\S+)*")
_MEND = re.compile(r"\b(?:update|replace|use|new|fix(?:ed)?|change[ds]?|mend(?:ed)?|instead|script)\b", re.IGNORECASE)


_ABOUT_RUNS = frozenset(
    {
        *("run_status", "run_logs", "run_metrics", "run_chart", "run_results"),
        *("run_checkpoints", "run_attempts", "run_script"),
        *("pause_run", "resume_run", "stop_run", "kill_run", "retry_run", "set_priority", "set_card"),
        *("list_runs", "list_hosts", "list_queue", "list_experiments", "compare_runs", "clone_run"),
    }
)


class _Asked(NamedTuple):
    """A request: its words, and the names of the files and of the programs among them that came with it."""

    words: str
    files: tuple[str, ...]
    programs: tuple[str, ...]

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
        said = next((said for said in reversed(messages) if said.role is Role.USER), ModelMessage(Role.USER, ""))
        asked, address = _asked(said, messages)
        try:
            if messages[-1].role is Role.TOOL:
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


def _asked(said: ModelMessage, messages: Sequence[ModelMessage]) -> tuple[_Asked, str | None]:
    """A request without the address of its data, whose file counts as its own once it was fetched; the address."""
    files = tuple(file.name for file in said.files)
    programs = tuple(file.name for file in said.files if file.is_program)
    address = address_in(said.text)
    if address is None:
        return _Asked(shortened(said.text), files, programs), None
    begun = next(index for index in range(len(messages) - 1, -1, -1) if messages[index] is said)
    calls = {call.id for later in messages[begun:] for call in later.calls if call.name == "fetch_data"}
    answers = (_object(later.text) for later in messages[begun:] if later.call_id in calls)
    fetched = tuple(answer["file"] for answer in answers if "file" in answer)
    return _Asked(shortened(said.text.replace(address, " ")), (*fetched, *files), programs), address


def _say(text: str) -> ModelReply:
    return ModelReply(text, (), OFFLINE)


def _call(name: str, text: str = "", /, **arguments: Any) -> ModelReply:
    said = {key: value for key, value in arguments.items() if value not in (None, {}, ())}
    return ModelReply(text, (ToolCall(f"call-{new_ulid()}", name, json.dumps(said)),), OFFLINE)


def _to_request(asked: _Asked, messages: Sequence[ModelMessage]) -> ModelReply:
    run = RUN_ID.search(asked.words.lower())
    run_id = run.group(0) if run else None
    if (program := _program_in(asked)) is not None:
        return _with_program(asked, program, run_id)
    wanted = _wanted(asked, messages)
    match wanted:
        case "train" if (task := _task_in(asked.words, has_text=True)) and not TASKS[task].asks_for_target:
            target = quoted_target(asked.words) if TASKS[task].needs_target else None
            return _call("inspect_dataset", "I look at the data first.", file=asked.file, target=target, task=task)
        case "train" | "yes":
            target = quoted_target(asked.words) or _offered(messages)
            about = None if target else asked.words[:_MOST_ABOUT]
            return _call("inspect_dataset", "I look at the data first.", file=asked.file, target=target, about=about)
        case "again":
            return _again(asked, messages)
        case "predict":
            text = None if asked.file else text_in(asked.words)
            return _call("predict", run=run_id, file=asked.file, horizon=horizon_in(asked.words), text=text)
        case "inspect_dataset":
            return _call("inspect_dataset", file=asked.file)
        case str() if wanted in _ABOUT_RUNS:
            run_id = run_to_act_on(asked.words) if wanted in ACT else run_id
            return _call(wanted, **_about_runs(wanted, asked.words, run_id))
        case talk:
            return _say(TALK.get(talk or "", NOT_UNDERSTOOD))


def _program_in(asked: _Asked) -> str | None:
    """The program that came with a request, or that it says to run by its name."""
    if asked.programs:
        return asked.programs[0]
    named = _PROGRAM.search(asked.words)
    if named and _IMAGES.search(asked.words) and named.group(1).lower().endswith(".zip"):
        return None
    return str(named.group(1)) if named and _RUN_IT.search(asked.words) else None


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
    said = changes_in(words[: line.start()] + words[line.end() :] if line else words)
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
        **{name: said.get(name) for name in ("max_hours", "gpus", "host", "engine")},
    )


_SAID_OF: dict[str, Callable[[str], dict[str, Any]]] = {
    "run_logs": log_arguments,
    "run_chart": chart_arguments,
    "run_results": results_arguments,
    "set_card": card_arguments,
}


def _about_runs(tool: str, asked: str, run_id: str | None) -> dict[str, Any]:
    """The arguments of a tool about runs, as far as the person said them."""
    match tool:
        case "list_runs" | "list_hosts" | "list_queue" | "list_experiments":
            return {}
        case "compare_runs":
            return {"runs": tuple(dict.fromkeys(RUN_ID.findall(asked.lower())))}
        case "clone_run":
            return {"run": run_id, **changes_in(asked), "target": quoted_target(asked)}
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


def _wanted(asked: _Asked, messages: Sequence[ModelMessage]) -> str | None:
    """What a request is about, where it also depends on what was said and done before."""
    text = text_in(asked.words)
    said = asked.words.replace(text, "") if text else asked.words  # a model's text is no request
    intent = intent_of(said, with_file=bool(asked.files))
    if intent in (None, "inspect_dataset") and WRITING.search(asked.words):
        return "train" if asked.files else "predict"
    if intent == "again" and RUN_ID.search(asked.words.lower()):
        return "clone_run"
    if intent == "again" and not _last_plan(messages):
        return "train" if asked.files or TRAIN_WORD.search(asked.words) else None
    if intent == "yes" and _offered(messages) is None:
        return None
    if (
        intent == "predict"
        and asked.files
        and not RUN_ID.search(asked.words)
        and names_a_target(asked.words, but=_last_plan(messages).get("target"))
    ):
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
        return _to_request(asked, messages)
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
    settings = (before.get("settings") or {}) | settings_in(asked)
    seed = settings.pop("seed", before.get("seed"))
    file = report.get("dataset", {}).get("name")
    place = _place(asked, before, str(file))
    answer = TASKS[task or report.get("suggested_task") or "tabular_classification"].answer
    if answer is Answer.CLUSTER:
        settings |= clusters_in(asked)
    if answer is Answer.TEXT:
        settings |= choices_in(asked)
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
        drop_columns=tuple(dict.fromkeys((*(before.get("drop_columns") or ()), *left_out(asked)))),
        settings=settings,
        seed=int(seed) if seed is not None else None,
        **place,
    )


def _target(asked: str, report: dict[str, Any], before: dict[str, Any]) -> tuple[str | None, str]:
    """The column to predict and how it was chosen, where the person did not name it; None and a question for which."""
    names = [column["name"] for column in report.get("columns", ()) if column.get("kind") not in {"image", "datetime"}]
    columns = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
    named, sure = target_in(asked, names)
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


def _place(asked: str, before: dict[str, Any], file: str) -> dict[str, Any]:
    """Where and how long a training runs, as far as it was said now or in the plan before."""
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
