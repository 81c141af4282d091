"""The arguments of the tools about runs, hosts and what they cost, as far as a person said them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from agent.llm.requests.asked import columns_of
from agent.llm.requests.changes import changed, place_in, plan_settings
from agent.llm.slots.actions import priority_in
from agent.llm.slots.charts import chart_arguments, results_arguments
from agent.llm.slots.files import file_named
from agent.llm.slots.limits import soon_in
from agent.llm.slots.logs import log_arguments, metric_arguments, script_arguments, wants_csv
from agent.llm.slots.runs import experiments_arguments, runs_in
from agent.llm.slots.views import used_in
from agent.llm.slots.wishes import WISHES, card_wish
from agent.ports import ModelMessage
from agent.tools.targets import other_target

ABOUT_RUNS = frozenset(
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
_DRAWN = re.compile(
    r"\b(?:charts?|plots?|pictures?|images?|graphs?|draw\w*|curves?|bild\w*|kurven?|courbes?|graphique|dessin\w*"
    r"|curvas?"
    r"|gráfic\w*|dibuja\w*|png|svg|pdf)\b|图|画|曲线",
    re.IGNORECASE,
)
# What one word says that many others of the same sentence hide from the classifier.
_SAID_OF_TALK = re.compile(r"\b(?:thread|conversation|chat|gespräch|fil|hilo|conversación)\b|对话|帖子", re.IGNORECASE)
_LOG = re.compile(r"\b(?:logs?|logfiles?|logdatei|journal|registro)\b|日志", re.IGNORECASE)
_MODEL = re.compile(r"\b(?:models?|modell|modèle|modelo|weights|artifacts?)\b|模型", re.IGNORECASE)
_MONEY = re.compile(
    r"\b(?:costs?|costing|money|spen[dt]\w*|paid|pay|dollars?|bucks|expensive|bill|kost\w*|teuer|geld|coût\w*"
    r"|coûté|cher|dépens\w*"
    r"|euros?|argent|costes?|costos?|cuest\w*|gast\w*|caro|dinero)\b|[$]|钱|费|花了",
    re.IGNORECASE,
)
_WHICH = re.compile(r"\b(?:which|list|available|welche\w*|quel\w*|qué|cuáles)\b|哪些|哪个", re.IGNORECASE)
_COMPARES = re.compile(
    r"(?:\b(?:compar\w+|vergleich\w*|gegenüber\w*)|对比|比较)(?=.*(?:\b(?:both|two|beiden?|zwei|deux|dos|amb[oa]s)\b|两))"
    r"|(?:\b(?:both|two|beiden?|zwei|deux|dos|amb[oa]s)\b|两)(?=.*(?:\b(?:compar\w+|vergleich\w*|gegenüber\w*)|对比|比较))",
    re.IGNORECASE,
)
_ALL_RUNS = re.compile(
    r"\beverything (?:in|on|here|that)\b|\ball (?:of )?(?:(?:the|my|our) )?(?:runs|trainings|jobs)\b"
    r"|\balle (?:läufe|trainings|jobs)\b"
    r"|\btous les (?:runs|entra[iî]nements)\b|\btod[oa]s l[oa]s (?:runs|entrenamientos|ejecuciones)\b"
    r"|所有(?:的)?(?:训练|任务)",
    re.IGNORECASE,
)
_TABLE = re.compile(r"\b(?:tables?|tabellen?|tableaux?|tablas?)\b|表格", re.IGNORECASE)
_SAID_OF: dict[str, Callable[[str], dict[str, Any]]] = {
    "run_logs": log_arguments,
    "run_metrics": metric_arguments,
    "run_script": script_arguments,
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


def shown_as(intent: str | None, asked: str) -> str | None:
    """What shows what is asked for, where one plain word says it: a log and no model, numbers as a file."""
    if intent == "export_session" and used_in(asked) and not _SAID_OF_TALK.search(asked):
        return "run_metrics"
    if intent == "download_artifact" and _SAID_OF_TALK.search(asked) and not _MODEL.search(asked):
        return "export_session"
    if intent == "download_artifact" and _LOG.search(asked) and not _MODEL.search(asked):
        return "run_logs"
    if intent == "show_cost" and used_in(asked) and not _MONEY.search(asked):
        return "run_chart"
    if intent == "list_models" and _MONEY.search(asked) and not _WHICH.search(asked):
        return "show_cost"
    if intent in {"run_metrics", "list_experiments", "predict"} and _COMPARES.search(asked):
        return "compare_runs"
    if intent == "run_status" and _ALL_RUNS.search(asked) and not runs_in(asked):
        return "list_runs"
    as_numbers = wants_csv(asked) or _TABLE.search(asked)
    if intent in {"run_chart", "run_results"} and as_numbers and not _DRAWN.search(asked):
        return "run_metrics"
    if intent == "run_metrics" and not as_numbers and chart_arguments(asked).keys() - {"metrics", "every"}:
        return "run_chart"
    return intent


def run_arguments(
    tool: str, asked: str, run_id: str | None, messages: Sequence[ModelMessage], *, came: str | None = None
) -> dict[str, Any]:
    """The arguments of a tool about runs, as far as the person said them; `came` is the file that came with it."""
    match tool:
        case _ if tool in _OF_NO_RUN:
            return _OF_NO_RUN[tool](asked)
        case "compare_runs":
            return {"runs": runs_in(asked)}
        case "clone_run":
            return {
                "run": run_id,
                **changed(asked, plan_settings(asked, messages)),
                "file": file_named(asked),
                "target": other_target(asked, columns_of(messages)),
                "priority": soon_in(asked),
            }
        case "serve_model":
            return {"run": run_id, **place_in(asked, {})}
        case "evaluate_model" | "predict_as_job":
            file = file_named(asked) or came
            return {"run": run_id, "file": file, **place_in(asked, {}, file or "")}
        case "run_logs" | "run_metrics" | "run_script" | "run_chart" | "run_results" | "set_card":
            return {"run": run_id, **_SAID_OF[tool](asked)}
        case "set_priority":
            return {"run": run_id, "priority": priority_in(asked)}
        case _:
            return {"run": run_id}
