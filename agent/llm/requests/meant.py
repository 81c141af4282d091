"""What a request is about, where that also depends on what was said and done before it."""

import re
from collections.abc import Sequence

from agent.domain.runs import RunState
from agent.domain.tasks import TASKS
from agent.llm.intents import Decision, decide
from agent.llm.places import Place, states_settings
from agent.llm.requests.asked import (
    Request,
    columns_of,
    last_plan,
    last_row,
    offered,
    plan_of,
    ran_program,
    report_of,
    started,
)
from agent.llm.slots.horizons import ahead_in
from agent.llm.slots.limits import place_said, soon_in
from agent.llm.slots.replacements import rewrites
from agent.llm.slots.rows import cells_in
from agent.llm.slots.runs import runs_in
from agent.llm.slots.settings import WRITING, clusters_in, text_in
from agent.llm.slots.views import WHY_BAD
from agent.ports import ModelMessage
from agent.tools.targets import left_out, names_a_target, other_target, put_back, quoted_target, values_in

SERIES = "time_series_forecasting"
_OF_A_TEXT = (
    None,
    "inspect_dataset",
    "evaluate_model",
    "run_results",
)  # as what the request for its answer is read, too
_LOOKS = frozenset({"list_queue", "run_status", "run_metrics"})
_TO_TRAIN = re.compile(
    r"(?!\bpredict)\b\w*(?:train|build|fit|learn|lern|model|modèl|classif|klassif|clasif|forecast|prognos|entra[iî]n"
    r"|entr[eé]n"
    r"|apprend|aprend|cluster|segment|group|tune|target|label|ziel|cible|objetivo)|训练|学习|模型|聚类|预测|目标",
    re.IGNORECASE,
)
ONCE_MORE = re.compile(
    r"\b(?:again|once more|re-?run|repeat|same|noch ?mal|encore|otra vez|de nuevo)\b|再", re.IGNORECASE
)
# Words of something otherwise, and others that only repeat.
_BESIDES = re.compile(
    r"\b(?:with(?! the same)|but|only|instead|mit(?! (?:den|der) ?selben)|aber|nur|avec(?! les mêmes)|mais"
    r"|con(?! los mismos)|pero)\b"
    r"|但|不过",
    re.IGNORECASE,
)
_REPEATS = re.compile(
    r"\b(?:re(?:train|do|start|launch|produc|plicat|peat)\w*|exactly|identical\w*|no changes|wiederhol\w*|erneut"
    r"|neu|refais\w*|relance\w*|recommence\w*|rep[ií]te\w*"
    r"|vuelve)\b|重新",
    re.IGNORECASE,
)
_ANEW = re.compile(
    r"\b\w*(?:train|fit|build|model|modèl|horizon|entra[iî]n|entr[eé]n|baue?|bauen)\w*|训练|模型|重新", re.IGNORECASE
)
_CLUSTERS = re.compile(
    r"\b(?:groups?|clusters?|segments?|maps?|gruppen?|segmente?|groupes?|grupos?|segmentos?|mapa)\b|[组簇]|地图",
    re.IGNORECASE,
)
_HOW_SURE = re.compile(
    r"^\W*(?:(?:and|so|but) )?(?:how (?:sure|certain|confident|accurate|reliable|precise)\b|wie (?:sicher|genau)\b"
    r"|(?:à )?quel(?:le)? (?:point|précision|certitude)\b|(?:cuán|qué tan) (?:seguro|preciso)\b)|有多准",
    re.IGNORECASE,
)
_WHAT_IF = re.compile(r"\W*(?:and|what|how about|und|was|wie|et|qu['e]|y|qué)\b|那|如果", re.IGNORECASE)
_MAKES = re.compile(
    r"\b(?:(?<!you )find|look for|make|build|sort|split|divide|into|train|run|such|bilde|mach\w*|teile?|trouve|fais"
    r"|busca|haz)\b|分成|聚成",
    re.IGNORECASE,
)
_TRAIN_WORD = re.compile(r"\b(?:re-?)?train\b", re.IGNORECASE)


def wanted(asked: Request, messages: Sequence[ModelMessage]) -> str | None:
    return decided(asked, messages).intent


def decided(asked: Request, messages: Sequence[ModelMessage]) -> Decision:
    """What a request is about, where it also depends on what was said and done before."""
    text = text_in(asked.words)
    words = asked.words.replace(text, "…") if text else asked.words  # a model's text is no request
    if rewrites(asked.said):
        return Decision("update_script")
    if (about := _about_clusters(asked, messages)) is not None:
        return Decision(about)
    states = _states(words, messages)
    has_runs = bool(states or last_plan(messages) or runs_in(words)) or ran_program(messages)
    decided = decide(words, Place(bool(asked.files), has_runs, columns_of(messages), states))
    intent = _in_context(decided.intent, asked, messages)
    return decided if intent == decided.intent else Decision(intent)


def _states(asked: str, messages: Sequence[ModelMessage]) -> frozenset[RunState]:
    """The states of the runs that are named, or of the newest one."""
    now = next((said.runs for said in reversed(messages) if said.runs), ())
    named = runs_in(asked)
    return frozenset(run.state for run in now if run.id in named) or frozenset(run.state for run in now[:1])


def repeats(asked: Request) -> bool:
    """Whether the same is wanted once more and nothing otherwise, or the whole request is said again."""
    once_more = ONCE_MORE.search(asked.words) or _REPEATS.search(asked.words)
    whole = _TRAIN_WORD.search(asked.words) and names_a_target(asked.words)
    return bool(once_more or whole) and not _BESIDES.search(asked.words)


def _in_context(intent: str | None, asked: Request, messages: Sequence[ModelMessage]) -> str | None:
    before = last_plan(messages).get("target")
    if intent in (None, "inspect_dataset", "predict", "train") and WRITING.search(asked.words):
        return "train" if asked.files else "predict"
    if _asks_the_model(intent, asked, messages):
        return "predict"
    if started(messages) and _asks_for_results(intent, asked):
        return "run_results"
    anew = names_a_target(asked.words) or quoted_target(asked.words)
    unwanted = [name for name in left_out(asked.words, columns_of(messages)) if name in columns_of(messages)]
    otherwise = not anew and bool(states_settings(asked.words) or place_said(asked.words) or unwanted)
    if intent in {None, "no"} and unwanted and not (anew or asked.files):
        intent = "train"  # “don't use the district” changes a plan
    if intent == "train" and not asked.files and before and (otherwise or ONCE_MORE.search(asked.words)):
        intent = "again"
    if intent == "again":
        return "train" if _names_other_data(asked, messages) else _again_or_anew(asked, messages)
    if intent == "yes":
        return "yes" if offered(messages) is not None else None
    if intent in {"train", "predict"} and before:
        return _train_or_predict(intent, asked, messages, before)
    return _predicting(asked) if intent == "predict" else intent


def _predicting(asked: Request) -> str:
    """How predictions are made: as a job where its place or hours are said; a training where no model does that."""
    if asked.file and place_said(asked.words, ahead=True).keys() & {"max_hours", "gpus", "host"}:
        return "predict_as_job"
    return "train" if asked.files and not runs_in(asked.words) and names_a_target(asked.words) else "predict"


def _asks_for_results(intent: str | None, asked: Request) -> bool:
    """Whether it is asked why a model is bad, or how sure it is."""
    if intent in (None, *_LOOKS) and re.search(WHY_BAD, asked.words, re.IGNORECASE):
        return True
    sure = intent in (None, "inspect_dataset", "run_metrics") and _HOW_SURE.search(asked.words)
    return bool(sure and not asked.files)


def _asks_the_model(intent: str | None, asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether the model of a thread is to answer for what is said or shown, though nobody says “predict”."""
    if intent in {"again", "train"} and _is_forecast(asked, messages):
        return True
    if intent is None and _WHAT_IF.match(asked.words) and _is_forecast(asked, messages):
        return True
    if intent in (None, "inspect_dataset") and _shows_images(asked, messages):
        return True
    if changed_row(asked, messages) or (intent in _OF_A_TEXT and _gives_a_text(asked, messages)):
        return True
    return intent in (None, "train", "again", "inspect_dataset") and _describes_a_row(asked, messages)


def _gives_a_text(asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether a text is quoted in a thread whose newest model reads texts: “classify this: it came late”."""
    task = TASKS.get(newest_task(messages))
    return bool(task and task.needs_text and not asked.files and text_in(asked.words))


def changed_row(asked: Request, messages: Sequence[ModelMessage]) -> dict[str, str]:
    """The row that was predicted last with other cells: “and without a balcony?”. Empty where none is meant."""
    said = cells_in(asked.words, report_of(messages).get("columns", ()))
    before = last_row(messages) if said and _WHAT_IF.match(asked.words) and not asked.files else {}
    return before | said if before and not (_TO_TRAIN.search(asked.words) or ONCE_MORE.search(asked.words)) else {}


def _describes_a_row(asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether several cells of a row are given to a thread that has a model, and nothing is to be learnt."""
    if (
        asked.files
        or not started(messages)
        or newest_task(messages) == SERIES
        or _TO_TRAIN.search(asked.words)
        or ONCE_MORE.search(asked.words)
    ):
        return False
    return len(cells_in(asked.words, report_of(messages).get("columns", ()))) > 1


def _shows_images(asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether single images come to a thread whose model tells what is on images."""
    task = TASKS.get(newest_task(messages))
    images = asked.files and all(name.lower().endswith((".png", ".jpg", ".jpeg")) for name in asked.files)
    return bool(images and task and task.data == "images")


def _about_clusters(asked: Request, messages: Sequence[ModelMessage]) -> str | None:
    """What is meant by words on the clusters that were found: another number of them, or those that there are."""
    if (
        newest_task(messages) != "clustering"
        or asked.files
        or not _CLUSTERS.search(asked.words)
        or values_in(asked.words, columns_of(messages))
    ):
        return None
    if clusters_in(asked.words):
        return "again"
    return None if _MAKES.search(asked.words) or ONCE_MORE.search(asked.words) else "run_results"


def _is_forecast(asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether only a horizon is asked for, where a model of series was started: it forecasts any."""
    anew = asked.files or ONCE_MORE.search(asked.words) or _ANEW.search(asked.words)
    return bool(newest_task(messages) == SERIES and not anew and ahead_in(asked.words, of_series=True))


def newest_task(messages: Sequence[ModelMessage]) -> str:
    """The task type of the newest run that was started here; empty without one."""
    runs = started(messages)
    task = plan_of(messages, runs[-1]).get("task") or report_of(messages).get("suggested_task") if runs else ""
    return str(task or "")


def _names_other_data(asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether a file is named that is not the last plan's, and what to predict of it."""
    other = asked.file is not None and asked.file != last_plan(messages).get("file")
    return other and bool(quoted_target(asked.words) or names_a_target(asked.words))


def _again_or_anew(asked: Request, messages: Sequence[ModelMessage]) -> str | None:
    """What “again” comes to: a copy of the run that is named, the last plan, or a first training."""
    known = last_plan(messages).get("target")
    _, without_them = put_back(asked.words, columns_of(messages))
    other = other_target(without_them, columns_of(messages)) if started(messages) else None
    if runs_in(asked.words) or (other and known and other != known and not left_out(asked.words, columns_of(messages))):
        return "clone_run"
    if last_plan(messages) or ran_program(messages):
        return "again"
    return "train" if asked.files or _TRAIN_WORD.search(asked.words) else None


def _train_or_predict(intent: str, asked: Request, messages: Sequence[ModelMessage], before: str) -> str | None:
    """Which of the two is meant where a model for the column `before` was planned."""
    if intent == "predict":
        learns = asked.files and not runs_in(asked.words) and names_a_target(asked.words, but=before)
        return "train" if learns else "predict"
    if _TO_TRAIN.search(asked.words):
        return "train"
    if asked.files and (place_said(asked.words) or states_settings(asked.words) or soon_in(asked.words)):
        return "train"  # what a prediction does not need
    if asked.files:
        return "train" if names_a_target(asked.words, but=before) else "predict"
    if values_in(asked.words, columns_of(messages)):
        return "predict"
    return "train" if names_a_target(asked.words) else None
