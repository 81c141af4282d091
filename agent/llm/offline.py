"""The planner at the end of the chain: rules instead of a language model, and honest about it.

Stateless: it reads the conversation as a model would and answers with text or tool calls. It understands the everyday
requests (train, predict, watch, control, compare) and says so when it does not understand.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence

from agent.domain.errors import BadRequest
from agent.domain.tasks import TASKS, Answer
from agent.llm.features import concepts, masked
from agent.llm.intents import PLANNED, wish_to_act
from agent.llm.places import ACT
from agent.llm.requests.asked import (
    NEITHER,
    Request,
    columns_of,
    last_plan,
    newest,
    plan_of,
    ran_program,
    ranked,
    report_of,
    request_of,
    started,
)
from agent.llm.requests.looks import ABOUT_RUNS, run_arguments, shown_as
from agent.llm.requests.meant import SERIES, changed_row, decided, newest_task, repeats, wanted
from agent.llm.requests.programs import about_program, program_again, program_in
from agent.llm.requests.second import ONE_AT_A_TIME, second_wish
from agent.llm.requests.terms import explained
from agent.llm.requests.trainings import MOST_ABOUT, again, look_first, plan, what_next
from agent.llm.requests.words import (
    NO_PLAN,
    NOT_DECIDED,
    NOT_LEARNED,
    NOT_UNDERSTOOD,
    NOTHING_NEW,
    NOTHING_TO_ADD,
    TALK,
    UNKNOWN,
    WHICH_RUN,
    call,
    examples,
    not_read,
    of_which,
    say,
    which,
)
from agent.llm.slots.actions import wish_in
from agent.llm.slots.changes import changes_in
from agent.llm.slots.conversations import other_conversation
from agent.llm.slots.horizons import ahead_in, grain_in, steps_of
from agent.llm.slots.numbers import in_figures
from agent.llm.slots.replacements import replacement_in
from agent.llm.slots.rows import cells_in
from agent.llm.slots.runs import (
    is_of_others,
    means_all,
    means_other,
    means_worse,
    names_by_state,
    run_to_act_on,
    runs_in,
    wants_best,
)
from agent.llm.slots.settings import text_in
from agent.llm.slots.unread import unread
from agent.llm.slots.wishes import WISHES
from agent.ports import ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from agent.tools.targets import quoted_target

_THANKS = re.compile(
    r"\W*(?:(?:ok(?:ay)?|great|super|perfect|cool|awesome|nice|toll|parfait|genial)\W+)*(?:(?:many|muchas|mil|vielen"
    r"|besten|grand) )?(?:thanks|thank you|thx|cheers|danke|merci|gracias)\b|\W*(?:谢谢|多谢|辛苦)",
    re.IGNORECASE,
)
_APPROVES = re.compile(r"^\W*(?:approved?|yes|reject(?:ed)?)\b", re.IGNORECASE)
_NO_SETTING = re.compile(r"There is no setting “([^”]+)”\.")
_WITHOUT_IT = "So this is the plan without it."
_OF_ONE_RUN = frozenset(
    {
        *("serve_model", "evaluate_model", "predict", "predict_as_job", "download_artifact", "clone_run"),
        *("run_status", "run_logs", "run_metrics", "run_chart", "run_checkpoints", "run_script"),
    }
)
_READ = frozenset({"number", "category", "boolean", "datetime"})  # kinds of columns that models of tables read
_LOOKED_AT = frozenset(
    {"run_status", "run_logs", "run_metrics", "run_results", "run_checkpoints", "run_attempts", "run_script"}
)

# Questions about data that are about the column to predict.
_OF_TARGET = re.compile(
    r"\b(?:leak\w*|g[ai]ves? (?:\w+ )?away|gives? the answer|(?:im|un|dis)?balanc\w+|predict\w*|target)\b"
    r"|unausgewogen|vorhersag|déséquilibr|fuite|desbalance|filtra|泄露|不平衡|预测",
    re.IGNORECASE,
)


class OfflinePlanner:
    """A `Model` without a model."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """One reply, at once."""
        del tools  # it knows the tools by name
        begun, said, otherwise = newest(messages)
        asked, address = request_of(said, messages, begun, otherwise)
        try:
            if messages[-1].role is Role.TOOL and begun < len(messages) - 1:
                yield _whole(_after_tool(asked, messages), asked, messages)
            elif said.noticed:
                yield say(NOTHING_TO_ADD)  # the card above has the rules' own words already
            elif said.refused:
                yield say(said.refused[0])
            elif address is not None:
                yield call("fetch_data", "I fetch the data first.", address=address)
            else:
                yield _whole(_to_request(asked, messages), asked, messages)
        except BadRequest as error:  # words or numbers that cannot be read
            yield say(error.text)


def _whole(reply: ModelReply, asked: Request, messages: Sequence[ModelMessage]) -> ModelReply:
    """The reply, unless the request says something that its call does not hold: that is asked for, and not dropped."""
    for one in () if asked.settled or reply.text.endswith(_WITHOUT_IT) else reply.calls:
        said, unused = json.loads(one.arguments), _unused(one, messages)
        if missed := unread(one.name, said, asked.to_read, unused, columns_of(messages)):
            return not_read(one.name, missed, report_of(messages))
        said.pop("instead", None)
        if one.name == "start_training" and said == last_plan(messages) and not repeats(asked):
            return say(NOTHING_NEW)
    return reply


def _unused(made: ToolCall, messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The columns of the data that nothing reads unless a call says so."""
    report = report_of(messages)
    task = TASKS.get(json.loads(made.arguments).get("task") or report.get("suggested_task") or "")
    reads = {"image", report.get("text_column")} if task and task.needs_text else {"image"}
    return tuple(name for name in columns_of(messages) if name not in reads)


def _to_request(asked: Request, messages: Sequence[ModelMessage]) -> ModelReply:
    named = runs_in(asked.words)
    run_id = named[0] if named else None
    if (own := about_program(asked, messages, run_id)) is not None:
        return own
    if (meaning := explained(asked.words)) is not None:
        return say(meaning)
    if address := other_conversation(asked.said):
        return call("resume_session", address=address)
    if asked.answers and (asked.words == NEITHER or _APPROVES.search(asked.words)):
        return say(NOT_UNDERSTOOD + examples(messages) if asked.words == NEITHER else NOT_DECIDED)
    found = decided(asked, messages)
    if found.between and not asked.answers:
        return which(found.between, run_id)
    return _done(found.intent, asked, messages, run_id)


def _done(intent: str | None, asked: Request, messages: Sequence[ModelMessage], run_id: str | None) -> ModelReply:
    """What a request comes to, by what it is about."""
    if (first := _which_run(intent, asked, messages)) is not None:
        return first
    match shown_as(intent, asked.words):
        case "train" | "yes":
            return look_first(asked, messages)
        case "again":
            return program_again(asked, messages, run_id) if ran_program(messages) else again(asked, messages)
        case "predict":
            return _predict(asked, messages, run_id)
        case "inspect_dataset":
            target = quoted_target(asked.words)
            about = asked.said[:MOST_ABOUT] if _OF_TARGET.search(asked.said) and not target else None
            return call("inspect_dataset", file=asked.file, target=target, about=about)
        case "update_script" if swap := replacement_in(asked.said):
            return call("update_script", run=run_id, replace=(swap,))
        case str() as intent if intent in ABOUT_RUNS:
            return _about_run(intent, asked, messages, run_id)
        case "cannot" if {"delete", "erase"} & set(concepts(masked(asked.words))):
            return say(TALK["delete"])
        case None if _THANKS.match(messages[-1].text):
            return say(TALK["thanks"])
        case talk:
            return say(TALK.get(talk or "") or NOT_UNDERSTOOD + examples(messages))


def _about_run(intent: str, asked: Request, messages: Sequence[ModelMessage], run_id: str | None) -> ModelReply:
    """The call of a tool about runs; an act is read from the part of the request that wishes for it."""
    words = in_figures(asked.said) if intent in WISHES else asked.words
    if intent in ACT:
        words = wish_to_act(asked.words, intent)
        run_id = run_to_act_on(words) or _named_before(words, asked.words) or run_to_act_on(asked.words)
    return call(intent, **run_arguments(intent, words, run_id, messages, came=asked.file))


def _named_before(wish: str, words: str) -> str | None:
    """The only run of a request, where it is named before the wish: “r-abc123 hangs, kill it”."""
    runs, before = runs_in(words), words.partition(wish)[0]
    return runs[0] if len(runs) == 1 and runs_in(before) else None


def _which_run(intent: str | None, asked: Request, messages: Sequence[ModelMessage]) -> ModelReply | None:
    """Ask or look up which run is meant, where that is said otherwise than by its name; None where it is clear."""
    runs = started(messages)
    if intent in ACT and means_all(asked.words) and len(runs) > 1:
        return say(WHICH_RUN.format(", ".join(f"`{run}`" for run in runs)))
    if intent is not None and intent in ACT and _is_unsure_which(intent, asked.words, runs):
        return say(WHICH_RUN.format(", ".join(f"`{run}`" for run in runs) or "none"))
    if intent in _OF_ONE_RUN and intent in PLANNED and means_all(asked.words) and len(runs) > 1:
        return of_which(runs)
    if intent in _LOOKED_AT and (is_of_others(asked.words) or (runs and means_other(asked.words))):
        return of_which(runs) if len(runs) > 1 and not is_of_others(asked.words) else call("list_runs")
    if intent in _OF_ONE_RUN and names_by_state(asked.words) and len(runs) > 1:
        return of_which(runs)
    if intent in _OF_ONE_RUN and wants_best(asked.words):
        return call("list_experiments", "I look which is the best first.")
    return None


def _is_unsure_which(intent: str, words: str, runs: Sequence[str]) -> bool:
    """Whether an act is wanted on a run that is somebody else's, one of several by its quality, or more than one."""
    several = len(runs) > 1 and means_worse(words)
    wish = wish_to_act(words, intent)
    named = intent != "set_priority" and len(runs_in(wish_in(wish))) > 1
    return is_of_others(wish) or bool(runs and means_other(wish)) or several or named


def _predict(asked: Request, messages: Sequence[ModelMessage], run_id: str | None) -> ModelReply:
    text = None if asked.file else text_in(asked.words)
    series = newest_task(messages) == SERIES
    is_row = not (asked.file or text or series)  # “3 days” are a horizon there
    said = cells_in(asked.words, report_of(messages).get("columns", ())) if is_row else {}
    row = (changed_row(asked, messages) if is_row else {}) or said
    needed = _needed(messages, run_id) if row else []
    unknown = [name for name in needed if name not in row]
    left_out = [name for name in row if name in _left_out(messages, run_id)]
    row |= dict.fromkeys(unknown, "")
    rows = (row,) if row else ()
    span = ahead_in(asked.words, of_series=series)
    spacing = str(report_of(messages).get("spacing") or grain_in(asked.words))
    horizon = (steps_of(span, spacing) or span.number) if span else None
    told = UNKNOWN.format(", ".join(f"`{name}`" for name in unknown), unknown[0]) if unknown else ""
    told += NOT_LEARNED.format(", ".join(f"`{name}`" for name in left_out)) if left_out else ""
    told = told.strip()
    return call("predict", told, run=run_id, file=asked.file, horizon=horizon, text=text, rows=rows)


def _left_out(messages: Sequence[ModelMessage], run_id: str | None) -> frozenset[str]:
    """The columns that the plan of a run left out."""
    return frozenset(plan_of(messages, run_id).get("drop_columns") or ())


def _needed(messages: Sequence[ModelMessage], run_id: str | None) -> list[str]:
    """The columns that the model of a run reads, where it learned from the table that was looked at last."""
    report, made = report_of(messages), plan_of(messages, run_id)
    task = TASKS.get(made.get("task") or report.get("suggested_task") or "")
    of_tables = task and task.data == "table" and task.answer in {Answer.LABEL, Answer.NUMBER} and not task.needs_text
    if not of_tables or made.get("file") != report.get("dataset", {}).get("name"):
        return []
    leaks = {leak["column"] for leak in report.get("leaks", ())}
    unread = {made.get("target"), *_left_out(messages, run_id), *leaks}
    return [one["name"] for one in report["columns"] if one.get("kind") in _READ and one["name"] not in unread]


def _after_tool(asked: Request, messages: Sequence[ModelMessage]) -> ModelReply:
    answer = json.loads(messages[-1].text)
    if "error" in answer:
        return _without_refused(asked, messages, str(answer["error"])) or say(answer["error"])
    tool = _tool_of(messages)
    if tool == "ask_user":
        plans = report_of(messages) and wanted(asked, messages) in {"train", "again", "yes"}
        return plan(asked, report_of(messages), messages) if plans else _to_request(asked, messages)
    if tool == "fetch_data":
        is_known = program_in(asked) is not None or wanted(asked, messages) is not None
        return _to_request(asked, messages) if is_known else call("inspect_dataset", file=asked.file)
    if tool == "list_experiments" and ranked(messages) and wanted(asked, messages) in _OF_ONE_RUN:
        return _to_request(asked, messages)
    if tool == "inspect_dataset":
        asks = wanted(asked, messages[: _begun(messages) + 1]) == "inspect_dataset"
        plans = not asks and wanted(asked, messages) in {"train", "again", "yes"} and not answer.get("problems")
        return plan(asked, answer, messages) if plans else what_next(answer)
    if tool in NO_PLAN and "approval" in answer:
        return say(NO_PLAN[tool])
    rest = second_wish(asked.said) if tool in ACT and "approval" not in answer else ""
    done = str(answer.get("text") or "Done.")
    return say(f"{done} {ONE_AT_A_TIME.format(rest)}" if rest else done)


def _without_refused(asked: Request, messages: Sequence[ModelMessage], error: str) -> ModelReply | None:
    """The plan without a setting that its recipe does not have, where the request says more than that one."""
    refused, last = _NO_SETTING.match(error), _call_of(messages)
    if refused is None or last is None or last.name not in {"start_training", "clone_run"}:
        return None
    arguments = json.loads(last.arguments)
    said = changes_in(asked.words)
    others = {*(said.pop("settings", None) or {}), *said} - {refused[1]}
    if refused[1] not in (arguments.get("settings") or {}) or not (others or wanted(asked, messages) == "train"):
        return None
    del arguments["settings"][refused[1]]
    return call(last.name, f"{refused.group().strip()} {_WITHOUT_IT}", **arguments)


def _begun(messages: Sequence[ModelMessage]) -> int:
    """Where the newest words of a person stand."""
    return max((at for at, said in enumerate(messages) if said.role is Role.USER), default=0)


def _tool_of(messages: Sequence[ModelMessage]) -> str:
    """The tool whose answer is the last message."""
    last = _call_of(messages)
    return last.name if last else ""


def _call_of(messages: Sequence[ModelMessage]) -> ToolCall | None:
    """The call whose answer is the last message."""
    calls = (call for said in reversed(messages) for call in said.calls)
    return next((call for call in calls if call.id == messages[-1].call_id), None)
