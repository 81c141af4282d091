"""Requests to train: which task, which target, and with what; as a plan that people approve."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agent.domain.tasks import TASKS, Answer, Task
from agent.llm.requests.asked import (
    WHICH_TARGET,
    Request,
    as_object,
    columns_of,
    last_plan,
    offered,
    plan_waits,
    report_of,
)
from agent.llm.requests.changes import multiplied, place_in
from agent.llm.requests.meant import wanted
from agent.llm.requests.words import call, not_read, say, which, which_file, which_target
from agent.llm.slots.changes import HAN, all_said, changes_in, settings_in
from agent.llm.slots.environment import secrets_in
from agent.llm.slots.files import file_in
from agent.llm.slots.horizons import ahead_in, grain_in, steps_of
from agent.llm.slots.limits import reach_said, soon_in
from agent.llm.slots.models import choices_in, model_in
from agent.llm.slots.names import setting_called
from agent.llm.slots.numbers import factors_in
from agent.llm.slots.rows import amount_in
from agent.llm.slots.settings import clusters_in, held_out_in, split_in, text_column_in, weights_in
from agent.llm.slots.unread import unread
from agent.ports import ModelMessage, ModelReply, Role
from agent.tools.targets import kept, left_out, mentions, pair_in, put_back, quoted_target, said_to_predict, target_in

MOST_ABOUT = 300  # characters of a request that say what to predict
_OTHER_DATA = re.compile(
    r"\b(?:on|with|using)\s+(?:the\s+|my\s+|some\s+)?(?:new|newer|other|latest|updated|more"
    r"|(?:last|this) \w+['’]?s|yesterday['’]?s|today['’]?s)\s+(?:data|dataset|file|numbers|export|csv|table|rows)\b",
    re.IGNORECASE,
)
_BESIDES = re.compile(  # one more, and not the plan before in another way
    r"\b(?:also|another|second|too|as well|in addition|additional\w*"
    r"|auch|noch ein\w*|zusätzlich\w*|weitere\w*|zweite\w*"
    r"|aussi|encore une?|autre|deuxième|también|otr[ao]|segund[ao])\b"
    r"|再|另|也",
    re.IGNORECASE,
)
_NO_OTHER_DATA = "I have no other data here. Attach the file, or give its address, and say it once more."
_EACH_STEP = (
    "I take “{}” as {} steps of the data, since I do not know how far apart its rows are. If a row is no {}, say how "
    "many rows, such as “horizon 48”."
)
_LETTER = r"[^\W\u3400-\u9fff]"  # Chinese has no spaces
_MOST_NAMED = 40  # columns


def look_first(asked: Request, messages: Sequence[ModelMessage]) -> ModelReply:
    """Look at the data of a training; what nobody could read of the request is asked for at once."""
    task = task_in(asked.words, has_text=True)
    series = task is not None and TASKS[task].answer is Answer.SERIES
    missed = unread("start_training", _all_read(asked.words, series=series), asked.to_read, columns_of(messages))
    if missed:
        return not_read("start_training", missed, report_of(messages) if not asked.file else {})
    target = quoted_target(asked.words)
    file, first = asked.file, "I look at the data first."
    if task and not TASKS[task].asks_for_target:
        return call("inspect_dataset", first, file=file, target=target if TASKS[task].needs_target else None, task=task)
    task = task if series else None  # only then it is said how far apart they are
    target = target or offered(messages)
    about = None if target else asked.said[:MOST_ABOUT]
    return call("inspect_dataset", first, file=file, target=target, about=about, task=task)


def _all_read(asked: str, *, series: bool) -> dict[str, Any]:
    """All that any reader takes of a request, whatever the data are. Raises: BadRequest."""
    settings: dict[str, Any] = {**settings_in(asked), **clusters_in(asked), **choices_in(asked), **weights_in(asked)}
    settings |= dict.fromkeys(map(setting_called, factors_in(asked)), 0)
    share = {
        "horizon": span.number if (span := ahead_in(asked, of_series=series)) else None,
        "seed": settings.get("seed"),
        "test_frac": held_out_in(asked),
    }
    left = left_out(asked) or ("?",)  # which columns there are is not known yet
    return {**changes_in(asked), **share, "settings": settings, "drop_columns": left}


def again(asked: Request, messages: Sequence[ModelMessage]) -> ModelReply:
    """The last plan once more, with what the person wants otherwise."""
    if not asked.file and _OTHER_DATA.search(asked.words) and held_out_in(asked.words) is None:
        return say(_NO_OTHER_DATA)
    file = asked.file or last_plan(messages).get("file")
    for said in reversed(messages):
        report = as_object(said.text) if said.role is Role.TOOL else {}
        if "columns" in report and "dataset" in report and report["dataset"]["name"] == file:
            return plan(asked, report, messages)
    return call("inspect_dataset", file=file)


def plan(request: Request, report: dict[str, Any], messages: Sequence[ModelMessage]) -> ModelReply:
    """The plan of a training on the data of a report, or the question that it needs answered."""
    intent, asked = wanted(request, messages), request.words
    before = last_plan(messages) if intent == "again" else {}
    task = _task_for(asked, report) or before.get("task")
    texts = {*_names(report, "text")}
    if task and TASKS[task].needs_text and texts and texts <= {*left_out(asked, _names(report))}:
        task = None  # whose texts are to be left out
    back, without_them = put_back(asked, _names(report)) if before else ((), asked)
    target, words = _target_for(task, without_them, report, before)
    if words and (others := _unnamed(request)):
        other = next((name for name in others if name not in _seen(messages)), None)
        return call("inspect_dataset", file=other) if other else which_file(others)
    known = last_plan(messages).get("target")
    if intent == "train" and words and known and known not in _names(report) and not request.answers:
        return which(("predict", "train"), None)  # rows without the column that the model before was for
    if target is None and words:
        return which_target(words, _to_predict(report)) if words.startswith(WHICH_TARGET) else say(words)
    file = str(report.get("dataset", {}).get("name"))
    record = TASKS[task or report.get("suggested_task") or "tabular_classification"]
    settings = _settings(asked, before, record)
    told = "" if before or intent == "yes" else words
    if record.answer is Answer.SERIES:
        told = " ".join(filter(None, (told, _look_ahead(settings, asked, report))))
    seed = settings.pop("seed", before.get("seed"))
    instead = {"instead": True} if before and plan_waits(messages) and not _BESIDES.search(asked) else {}
    return call(
        "start_training",
        told,
        **instead,
        file=file,
        target=target,
        task=task,
        drop_columns=_left_out(asked, report, before, back),
        keep_columns=kept(asked, _names(report)),
        settings=settings,
        secrets=secrets_in(asked),
        test_frac=held_out_in(asked) or before.get("test_frac"),
        split_by=split_in(asked, _names(report, "datetime"), _names(report)) or before.get("split_by"),
        seed=int(seed) if seed is not None else None,
        priority=soon_in(asked),
        text_column=_text_column(asked, report, record, target) or before.get("text_column"),
        **({name: before[name] for name in ("network", "auto_resume") if name in before} | reach_said(asked)),
        **place_in(asked, before, file, ahead=record.answer is Answer.SERIES),
    )


def _left_out(asked: str, report: dict[str, Any], before: dict[str, Any], back: Sequence[str]) -> tuple[str, ...]:
    """The columns that the plan before leaves out and that are to be left out now, but for those put back."""
    named = (*(before.get("drop_columns") or ()), *left_out(asked, _names(report)))
    return tuple(name for name in dict.fromkeys(named) if name not in back)


def _task_for(asked: str, report: dict[str, Any]) -> str | None:
    """The task type that is named; where it learns from other data than there are, the one that these suggest."""
    task, suggested = task_in(asked, has_text=bool(report.get("text_column"))), report.get("suggested_task")
    if task == "text_classification" and suggested == "text_generation" and len(_names(report)) <= 2:
        return str(suggested)  # texts alone, with their file: there is no class to learn
    if task is None and ahead_in(asked) and _names(report, "datetime"):
        return "time_series_forecasting" if report.get("suggested_target") in _names(report, "number") else None
    if task is None and suggested in {None, "tabular_classification"} and report.get("text_column") and model_in(asked):
        return "text_classification"  # only that begins with a language model
    return suggested if task and suggested and TASKS[task].data != TASKS[suggested].data else task


def _unnamed(request: Request) -> tuple[str, ...]:
    """The data files of a request with several, where it names none of them."""
    files = tuple(name for name in request.files if name not in request.programs)
    return files if len(files) > 1 and not file_in(request.words, files) else ()


def _seen(messages: Sequence[ModelMessage]) -> frozenset[str]:
    """The files that were looked at."""
    answers = (as_object(said.text) for said in messages if said.role is Role.TOOL and '"dataset"' in said.text)
    return frozenset(str(answer.get("dataset", {}).get("name")) for answer in answers)


def _target_for(task: str | None, asked: str, report: dict[str, Any], before: dict[str, Any]) -> tuple[str | None, str]:
    """The column to predict, as far as the task type needs one; and how it was chosen, or which is asked for."""
    if task and not TASKS[task].needs_target:
        return None, ""
    found = (
        quoted_target(asked)
        or pair_in(asked, _to_predict(report))[1]
        or before.get("target")
        or report.get("suggested_target")
    )
    if found and task and not TASKS[task].asks_for_target:
        return found, ""
    return _target(task, asked, report, before)


def _settings(asked: str, before: dict[str, Any], task: Task) -> dict[str, Any]:
    """The settings of the plan before with those that are named now. Raises: BadRequest."""
    known = before.get("settings") or {}
    settings = known | settings_in(asked) | multiplied(asked, known)
    if before and settings == known and not settings_in(asked):
        all_said(asked)
    if task.warm == ("transformers",):
        settings |= model_in(asked)
    if task.unit == "boosting round" and "epochs" in settings and HAN.search(asked):
        settings["rounds"] = settings.pop("epochs")  # one word for both in Chinese
    own = _OF_ANSWER.get(task.answer)
    return settings | own(asked) if own else settings


def _look_ahead(settings: dict[str, Any], asked: str, report: dict[str, Any]) -> str:
    """Set the horizon of a forecast to the rows that were asked for; what to say where it is unsure how many they are.

    Raises:
        BadRequest: they are less than one row.
    """
    span = ahead_in(asked, of_series=True)
    if span is None:
        if ahead := settings.pop("max_steps", None):  # “13 steps” are ahead
            settings["horizon"] = ahead
        return ""
    steps = steps_of(span, str(report.get("spacing") or grain_in(asked)))
    settings["horizon"] = steps or span.number
    return "" if steps else _EACH_STEP.format(span.shown, span.number, span.unit)


_OF_ANSWER: dict[Answer, Callable[[str], dict[str, Any]]] = {
    Answer.CLUSTER: clusters_in,
    Answer.TEXT: choices_in,
    Answer.LABEL: weights_in,
    Answer.SERIES: model_in,
}


def _text_column(asked: str, report: dict[str, Any], task: Task, target: str | None) -> str | None:
    """The column to read that is named: as that, or as the only one with texts that is not predicted."""
    texts = _names(report, "text")
    said = text_column_in(asked, texts)
    if said or not task.needs_text:
        return said
    named = [name for name in texts if name != target and mentions(name, asked)]
    return pair_in(asked, texts)[0] or (named[0] if len(named) == 1 else None)


def _names(report: dict[str, Any], kind: str = "") -> tuple[str, ...]:
    """The columns of a report, or those of one kind."""
    return tuple(str(column["name"]) for column in report.get("columns", ()) if kind in {"", column.get("kind")})


def _to_predict(report: dict[str, Any]) -> list[str]:
    """The columns of a report that can be predicted."""
    return [str(one["name"]) for one in report.get("columns", ()) if one.get("kind") not in {"image", "datetime"}]


def _suggested(report: dict[str, Any], task: str | None) -> str | None:
    """The column that the data suggest; where an amount is to be predicted, no other than one with numbers."""
    suggested = report.get("suggested_target")
    name = task or report.get("suggested_task")
    if name is None or TASKS[name].answer not in {Answer.NUMBER, Answer.SERIES}:
        return suggested
    numbers = _names(report, "number")
    return suggested if suggested in numbers or not numbers else numbers[0] if len(numbers) == 1 else None


def _target(task: str | None, asked: str, report: dict[str, Any], before: dict[str, Any]) -> tuple[str | None, str]:
    """The column to predict and how it was chosen, where the person did not name it; None and a question for which."""
    names = _to_predict(report)
    if not names and report.get("columns"):
        return None, "There is no column to predict: the card says what the file needs."
    columns = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
    read = report.get("text_column")
    ids = {name for name in _names(report, "identifier") if not mentions(name, asked)}
    if both := pair_in(asked, names)[1]:
        return both, ""
    named, sure = target_in(asked, [name for name in names if name != read and name not in ids])
    if sure:
        return named, ""
    said = said_to_predict(asked)
    if said and "_" in said[0]:
        file = report.get("dataset", {}).get("name")
        return None, f"`{file}` has no column `{said[0]}`. Which one should I predict? The columns: {columns}."
    named = named or amount_in(asked, _names(report, "number"))
    target = before.get("target") or named or (report.get("target") or {}).get("column")
    target = target or _suggested(report, task)
    if target is None:
        return None, f"{WHICH_TARGET} The columns: {columns}."
    if named:
        return target, f"I take it that you mean `{target}`."
    if said:
        return target, f"No column is called that (there are {columns}), so I take `{target}`."
    return target, f"You did not name the target, so I take `{target}`."


def task_in(asked: str, *, has_text: bool) -> str | None:
    """The task type that a request names; the longest phrase says most.

    “text” is a word of many requests, and means texts where the data have some; who says “translate” means it.
    """
    fitting = (task for task in TASKS.values() if has_text or not (task.needs_text and task.asks_for_target))
    ways = ((task.name, rf"(?<!{_LETTER})(?:{word})(?!{_LETTER})") for task in fitting for word in task.words)
    said = [(len(found.group()), name) for name, way in ways if (found := re.search(way, asked.lower()))]
    return max(said, key=lambda pair: pair[0])[1] if said else None


def what_next(report: dict[str, Any]) -> ModelReply:
    text = str(report["text"])
    if report.get("problems"):
        return say(text)
    suggested = report.get("suggested_target")
    if suggested:
        asks = f"{text} Shall I train a model for `{suggested}`? Say “train a model that predicts `{suggested}`”."
        return replace(say(asks), offers=str(suggested))
    return say(f"{text} Say which column I should predict.")
