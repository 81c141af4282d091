"""Reads everyday requests: what is wanted, which column, which settings, which file and run. Text in, values out."""

import difflib
import math
import re
from collections.abc import Sequence
from typing import Any

from agent.domain.errors import BadRequest
from agent.domain.tasks import CLUSTERED
from agent.llm.chart_phrases import (
    CARD,
    PICTURES_OF,
    REPORTED,
    RESULTS,
    SMOOTH,
    USED,
    YESTERDAY,
    card_in,
    chart_in,
    reported_in,
)
from agent.llm.control_phrases import ACTS, ASKED, ENDS, NAME, NOT_DONE, RUN, meant, wish_in
from agent.llm.control_phrases import priority_in as _priority_in

RUN_ID = re.compile(r"\br-[0-9a-z]{6}\b")
TRAIN_WORD = re.compile(r"\b(?:re-?)?train\b", re.IGNORECASE)
_QUOTE = r"(?<!\w)[`\"“']([\w .\-/]{1,80})[`\"”'](?!\w)"  # not the apostrophes of don't and what's
_QUOTED = re.compile(_QUOTE)
_LEFT_OUT = re.compile(
    r"\b(?:without|drop(?:ping)?|ignor(?:e|ing)|exclud(?:e|ing)|leav(?:e|ing) out|(?:not|\w+n't) use)\s+"
    rf"(?:the\s+)?(?:(?:column|feature)\s+)?(?:{_QUOTE}|(\w*_\w+))",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(?:target|column|label)\s*(?:column\s*)?(?:is|=|:|named|called|should be)?\s*([A-Za-z_][\w.\-]*)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:predicts?|predicting|classif(?:y|ies)|forecast|tells?|guess(?:es)?)\b(.*)", re.IGNORECASE | re.DOTALL
)
_INTO = re.compile(r"\bclassif(?:y|ies|ying)\b.*?\b(?:into|by|as)\b(.*)", re.IGNORECASE | re.DOTALL)
# All that stands together with a number, so that no part of it is taken for the whole.
_NUMBER = r"(?<![\w.,/+-])(?!\d+(?:st|nd|rd|th)\b)([-+]?\.?\d(?:[\w%]|[.,/+*^-](?=[\d-]))*(?:\s%)?)"
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_NAME = rf"({NAME[3:]}"  # as a group of its own
_SETTING = re.compile(rf"\b{_NAME}\b\s*(?:from\s+[\w.,-]+\s+to|of|=|:|is|to)?\s*{_NUMBER}", re.IGNORECASE)
_COUNTED = re.compile(rf"{_NUMBER}\s+(epochs?|rounds?|max[ _]steps|trials)\b", re.IGNORECASE)
_SEARCHED = re.compile(
    r"\b(?:search\w*|(?<!fine-)(?<!fine )tun(?:e|ed|ing)|hyper-?parameters?)\b[^.;?!]{0,60}?\bfor (?:up to |at most )?"
    rf"{_NUMBER}\s*min(?:ute)?s?\b|\bminutes\s*[=:]\s*{_NUMBER}",
    re.IGNORECASE,
)
_MORE = re.compile(
    rf"{_NUMBER}\s+(?:(?:more|fewer|less|extra|additional)\s+{_NAME}|{_NAME}\s+(?:more|fewer|less|extra)\b)"
    rf"|\b{_NAME}\s+by\s+{_NUMBER}",
    re.IGNORECASE,
)
_BASE = re.compile(
    r"\b(?:fine-?tune|tune|model|base|backbone)\s*(?:=|:|is)?\s*[`\"“]?"
    r"([A-Za-z][\w.-]*/[\w.-]*\w|/[\w./-]*\w)(?!\w)",
    re.IGNORECASE,
)
_TUNED_BY = re.compile(r"\b(sft|dpo|grpo)\b", re.IGNORECASE)
_LORA_4BIT = re.compile(r"\bqlora\b", re.IGNORECASE)
_ONE_TEXT = re.compile(r"[“\"](.+)[”\"]", re.DOTALL)
_HOURS = re.compile(
    rf"\b(?:with|for|to|and|most)\s+{_NUMBER}\s*(?:hours?|h)\b|\bhours?\s*(?:=|:|to)\s*{_NUMBER}", re.IGNORECASE
)
_HORIZON = re.compile(
    r"\b(?:for|next|ahead|horizon)\s+(?:the\s+|of\s+|next\s+|=\s*)*(\d{1,4})\s*"
    r"(?:hours?|days?|weeks?|months?|quarters?|years?|steps?|periods?)?\b"
    r"(?!\s*(?:epochs?|gpus?|rounds?|hours?\s+at most))",
    re.IGNORECASE,
)
_STEPS_AHEAD = re.compile(r"\b(?:predict|forecast)\s+(\d{1,4})\b(?!\s*(?:rows?|lines?))", re.IGNORECASE)
_CLUSTERS = re.compile(
    r"\b(\d{1,4})\s+(?:clusters|groups|segments)\b|\bk\s*(?:=|:|of|is)?\s*(\d{1,4})\b", re.IGNORECASE
)
_METHOD = re.compile(r"\b(k-?means|gmm|gaussian mixtures?|ward|hdbscan)\b", re.IGNORECASE)
_METHODS = {"km": "kmeans", "k-": "kmeans", "gm": "gmm", "ga": "gmm", "wa": "ward", "hd": "hdbscan"}
_KNOWN_GROUPS = re.compile(
    r"\b(?:labels?(?: column)?(?:\s*[=:]\s*| (?:are in|is in|in|are|is) )"
    r"|(?:compared? (?:it |them )?(?:with|to)|against) )"
    rf"(?:the )?(?:column )?(?:{_QUOTE}|(\w+))",
    re.IGNORECASE,
)
_GPUS = re.compile(rf"{_NUMBER}\s*gpus?\b|\bgpus?\s*(?:=|:|to)\s*{_NUMBER}", re.IGNORECASE)
_FILE_NAME = r"[\w.-]*\.(?:csv|tsv|parquet|jsonl?|xlsx?|txt|zip|gz|py)\b"
_HOST = re.compile(
    rf"\bon\s+(?:host\s+)?[`\"]?(?!v\d+\b)(?!{_FILE_NAME})(?=[\w.-]*\d)([a-z][\w-]*(?:\.[\w-]+)*)(?![\w-])"
    r"(?!\s*gpus?\b)(?!\s+of\b)|\bhost\s*=\s*([\w.-]*\w)",
    re.IGNORECASE,
)
_ENGINE = re.compile(r"\b(?:engine\s*=|on\s+(?:the\s+)?engine)\s*[`\"]?([a-z][\w-]*)", re.IGNORECASE)
_SETTING_NAMES = {
    "lr": "learning_rate",
    "epoch": "epochs",
    "round": "rounds",
    "patience": "early_stopping_patience",
}
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on for from to and or is are be will would by with this that these those who what which "
        "whether if csv file data dataset model column attached please new can you me my our train predict "
        "should must has have not i it says "
        "use again instead",
    )
)
_MOST_READ = 1_000  # characters; some patterns below take their time on long texts
_CLOSE = 0.8  # how alike two words must be to count as one (visit, visited)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


# Wishes to act on a run at once, which what follows the run may forbid.
ACT = frozenset({"stop_run", "kill_run", "pause_run", "resume_run", "retry_run", "set_priority"})
_IT = rf"(?:\W+{RUN}|{ENDS})"

# The first that fits. What acts must be asked for as such: a run is not stopped because a sentence has the word in it.
_INTENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("no", _words(NOT_DONE)),
    ("set_card", _words(rf"^(?!{ASKED}{ACTS}\W+{RUN}(?!(?:['’]s)?\s+card\b)){CARD}")),
    ("stop_run", _words(rf"{ASKED}(?:stop|cancel|abort|end){_IT}")),
    ("kill_run", _words(rf"{ASKED}kill{_IT}")),
    ("pause_run", _words(rf"{ASKED}(?:pause|hold){_IT}")),
    ("resume_run", _words(rf"{ASKED}(?:(?:resume|unpause){_IT}|(?:continue|go on with)\W+{RUN})")),
    ("retry_run", _words(rf"{ASKED}(?:(?:retry|restart){_IT}|try\W+{RUN}\W+again\W*$)")),
    (
        "set_priority",
        _words(
            rf"{ASKED}(?:(?:de-?)?prioriti[sz]e"
            r"|(?:give|set|make|put|move|raise|lower|increase|reduce|decrease|drop|bump)\b(?=.*\bpriority\b))\b"
        ),
    ),
    (
        "list_experiments",
        _words(
            r"\bleader ?board\b|\bexperiments\b|\bbest so far\b|\bpareto\b"
            r"|\bbest (?:run|experiment)\b|\b(?:against|versus|vs\.?) (?:the )?(?:training time|cost)\b"
        ),
    ),
    ("run_chart", _words(rf"{ASKED}{PICTURES_OF}")),
    ("run_results", _words(rf"^(?!.*\b(?:train|build|fit)\s+(?:me\s+)?an?\b){ASKED}{REPORTED}")),
    ("run_chart", _words(rf"{ASKED}(?:plot|draw|graph|chart)\b|{YESTERDAY}")),
    ("compare_runs", _words(rf"{ASKED}compare\b|r-[0-9a-z]{{6}}\W+(?:vs\.?|versus|against)\W+r-[0-9a-z]{{6}}\b")),
    ("run_status", _words(rf"{ASKED}(?:show|see|open)\b[^.,;?!]{{0,20}}\bcard\W*(?:(?:of|for)\W+{RUN}\W*)?$")),
    (
        "train",
        _words(
            rf"{ASKED}(?:{CLUSTERED}|(?:do|make|run|try|start) (?:an? |the )?clustering"
            r"|(?:group|split|divide|sort|put)\b[^.?!]{1,40}\b(?:in|into) (?:\d+ )?(?:clusters|segments|groups))\b"
        ),
    ),
    ("list_hosts", _words(r"\bcluster\W*(?:$|info|status|state|load)|\b(?:in|on|of) the cluster\b")),
    ("clone_run", _words(rf"{ASKED}(?:clone|copy|duplicate)\W+{RUN}")),
    ("run_script", _words(r"\b(?:show|see|read|print|what(?: is|'s) in)\b.*(?:\btrain\.py\b|\bscript\b|\bits code\b)")),
    ("cannot", _words(rf"{ASKED}(?:pause|resume|deploy|delete|remove)\b")),
    ("again", _words(r"\b(?:re-?train|again|instead)\b")),
    ("predict", _words(r"\b(?:run|use|apply|try)\s+(?:the|this|that|my)\s+model\b")),
    ("train", _words(r"\b(train|fine-?tune|build|learn|fit)\b|\bmodel\b.*\b(predict|classif|tell)")),
    ("run_chart", _words("|".join(pattern for pattern, _ in RESULTS))),
    (
        "run_chart",
        _words(
            r"\b(?:chart|plot|graph|curves?|draw|small multiples)\b|\blog(?:arithmic)?[ -]scale\b"
            rf"|\blast\s+[\d,]+\s+steps\b|\blast\s+(?:\d+\s+)?epochs?\b|\bepochs?\s+\d+\s*(?:-|to)\s*\d+\b|{SMOOTH}"
        ),
    ),
    ("run_logs", _words(r"\b(?:errors?|warnings?)\b.*\blogs?\b|\blogs?\b.*\b(?:errors?|warnings?)\b")),
    ("run_status", _words(r"\bwhy\b|\bwent wrong\b|\bit fail|\bfailed\b|\bhow good\b|\bbetter than\b")),
    ("predict", _words(r"\bpredict\b")),
    ("run_chart", _words("|".join(pattern for pattern, _ in USED))),
    ("predict", _words(r"\b(predict(ions?)?|score|apply|try)\b")),
    ("run_logs", _words(r"\b(logs?|output|errors|warnings)\b")),
    ("run_checkpoints", _words(r"\bcheckpoints?\b")),
    ("run_attempts", _words(r"\battempts?\b|\brestarted\b")),
    ("list_queue", _words(r"\bqueued?\b|\b(?:who|what|which)\b.*\bwait(?:s|ing)?\b")),
    ("list_runs", _words(r"\b(runs|history)\b")),
    ("list_hosts", _words(r"\b(hosts?|gpus?|machines?)\b")),
    ("run_metrics", _words(r"\b(metrics?|loss|accuracy|numbers)\b")),
    (
        "run_status",
        _words(
            r"\b(status|progress|going|doing|done|finish(?:ed)?|ready|result|how far|how long|there yet|training)\b"
        ),
    ),
    ("inspect_dataset", _words(r"\b(look|inspect|audit|check|describe|columns|files|what(?: is|'s) in)\b")),
    ("train", _words(r"\b(classif|forecast|model)\w*\b|\b(?:know|find out|see)\b.*\b(?:who|whether|which|if)\b")),
    ("again", _words(rf"\b{_NAME}\b|\b(?:use|take)\b")),
    ("yes", _words(rf"{ASKED}(?:yes|yep|yeah|sure|ok(?:ay)?|go ahead|do it|do that)\b")),
    ("no", _words(rf"{ASKED}(?:no|nope|don't|do not|never mind|nothing)\b")),
    ("thanks", _words(r"\b(?:thanks|thank you|thx|great|nice|cool|perfect)\b")),
    ("help", _words(r"^\W*(help|hi|hello|hey|what can you do|who are you)\b")),
)


# With a file of pairs it is what is to be learned, without one what a model is to do.
WRITING = re.compile(rf"{ASKED}(?:translate|summari[sz]e|write (?:\w+ )?summar(?:y|ies))\b", re.IGNORECASE)
_FOR = re.compile(r"\b(?:for|with|containing|about|mention(?:s|ing)?)\s+([\w.\-/:]+)\W*$", re.IGNORECASE)
_CSV = re.compile(r"\bcsv\b|\bparquet\b|\bas (?:a )?file\b|\bdownload\b|\bexport\b", re.IGNORECASE)
_OLDER = re.compile(r"\b(?:older|earlier|previous)\b", re.IGNORECASE)
_LEVEL = re.compile(r"\b(error|warning)s?\b", re.IGNORECASE)


def log_arguments(asked: str) -> dict[str, Any]:
    """Which lines of a log are wanted: level, words, older ones."""
    level, quoted, named = _LEVEL.search(asked), _QUOTED.search(asked), _FOR.search(asked)
    found: dict[str, Any] = {}
    search = quoted.group(1) if quoted else named.group(1) if named else ""
    if level and not quoted:
        found["level"] = level.group(1).lower()
    if search and not RUN_ID.fullmatch(search.lower()) and search.lower() not in {"it", "me", "errors", "warnings"}:
        found["search"] = search
    if _OLDER.search(asked):
        found["older"] = True
    return found


def chart_arguments(asked: str) -> dict[str, Any]:
    """What is to be drawn: metrics, steps, scale, runs beside the first; or a picture of the result."""
    return chart_in(asked, tuple(dict.fromkeys(RUN_ID.findall(asked.lower())))[1:])


def card_arguments(asked: str) -> dict[str, Any]:
    """How the live card of a run is to draw its curves; what is unsaid stays as it is."""
    return card_in(asked)


def results_arguments(asked: str) -> dict[str, Any]:
    """Which picture that the training logged is to be shown."""
    return reported_in(asked)


def wants_csv(asked: str) -> bool:
    """Whether numbers are wanted as a file."""
    return bool(_CSV.search(asked))


def priority_in(asked: str) -> str:
    """The priority that a person named; to prioritise something means high. Raises: BadRequest."""
    return _priority_in(asked)


def shortened(asked: str) -> str:
    """No more of a request than is read."""
    return asked.strip()[:_MOST_READ]


def intent_of(asked: str, *, with_file: bool = False) -> str | None:
    """What a request is about, by its words; a file without words means: look at it.

    Raises:
        BadRequest: a run is wanted again with a number that cannot be read.
    """
    for intent, pattern in _INTENTS if asked else ():
        if found := pattern.search(asked):
            rest = asked[found.end() :]
            return meant(intent, rest, changes_in) if intent in ACT else intent
    return "inspect_dataset" if with_file else None


def run_to_act_on(asked: str) -> str | None:
    """The run that a wish names; one that only its reason names is not meant. Raises: BadRequest."""
    named = RUN_ID.search(wish_in(asked).lower())
    if named is None and RUN_ID.search(asked.lower()):
        raise BadRequest("Nothing was done, since I am not sure which run is meant. Say no more than “stop r-abc123”.")
    return named.group(0) if named else None


def quoted_target(asked: str) -> str | None:
    """A column that the person named beyond doubt: quoted, or after the word target or column."""
    words = _LEFT_OUT.sub("", asked)
    quoted = _QUOTED.search(words)
    if quoted:
        return quoted.group(1)
    named = _NAMED.search(words)
    return named.group(1) if named and named.group(1).lower() not in _STOP_WORDS else None


def said_to_predict(asked: str) -> list[str]:
    """The words that say what is to be predicted, as they were written; names of files are none."""
    verb = _VERB.search(_LEFT_OUT.sub("", asked))
    words = [word.strip(".-") for word in re.findall(r"[\w.-]+", verb.group(1))] if verb else []
    return [word for word in words if word and "." not in word and word.lower() not in _STOP_WORDS]


def names_a_target(asked: str, *, but: str | None = None) -> bool:
    """Whether the words say what is to be predicted, and that is not the column `but`."""
    verb = _VERB.search(asked)
    spoken = _tokens(verb.group(1)) if verb else []
    known = _tokens(but.replace("_", " ")) if but else []
    if but and not known:
        return False
    return bool(spoken) and not any(difflib.get_close_matches(part, spoken, 1, _CLOSE) for part in known)


def left_out(asked: str) -> tuple[str, ...]:
    """Columns that the person does not want to be used."""
    return tuple(quoted or named for quoted, named in _LEFT_OUT.findall(asked))


def target_in(asked: str, names: Sequence[str]) -> tuple[str | None, bool]:
    """The column that a request wants predicted, and whether the person named it."""
    said = quoted_target(asked)
    if said is not None:
        return next((name for name in names if name.lower() == said.lower()), said), True
    words = _LEFT_OUT.sub("", asked)
    verb = _INTO.search(words) or _VERB.search(words)
    spoken = _tokens(verb.group(1) if verb else words)
    best, score = None, 0.0
    for name in names:
        parts = _tokens(name.replace("_", " "))
        alike = sum(1 for part in parts if difflib.get_close_matches(part, spoken, 1, _CLOSE))
        share = alike / len(parts) if parts else 0.0
        if share > score:
            best, score = name, share
    return (best, True) if score == 1.0 else (best if score >= 0.5 else None, False)


def settings_in(asked: str) -> dict[str, float | int]:
    """Hyperparameters that the person stated, under the recipes' names.

    Raises:
        BadRequest: one is no number, or says only how much more or less.
    """
    if more := _MORE.search(asked):
        raise BadRequest(f"“{more.group()[:60]}” can be read in two ways. Say the whole number, such as “20 epochs”.")
    said = [(name, value) for name, value in _SETTING.findall(asked)]
    said += [(name, value) for value, name in _COUNTED.findall(asked)]
    said += [("minutes", searched.group(1) or searched.group(2))] if (searched := _SEARCHED.search(asked)) else []
    found: dict[str, float | int] = {}
    for name, value in said:
        key = name.lower().replace(" ", "_")
        found[_SETTING_NAMES.get(key, key)] = _number(value)
    return found


def choices_in(asked: str) -> dict[str, str]:
    """Settings that are names: the model to begin with (a Hub id or a folder), how an LLM is tuned."""
    model, method = _BASE.search(asked), _TUNED_BY.search(asked)
    found = {
        "model": model.group(1) if model else "",
        "method": method.group(1).lower() if method else "",
        "quantization": "4bit" if _LORA_4BIT.search(asked) else "",
    }
    return {name: value for name, value in found.items() if value}


def text_in(asked: str) -> str | None:
    """A text in quotation marks that a model is to answer for."""
    found = _ONE_TEXT.search(asked)
    return found.group(1).strip() or None if found else None


def horizon_in(asked: str) -> int | None:
    """How many steps ahead a forecast is wanted: "for 24 months", "the next 12", "predict 12"."""
    found = _HORIZON.search(asked) or _STEPS_AHEAD.search(asked)
    return int(found.group(1)) if found else None


def clusters_in(asked: str) -> dict[str, Any]:
    """The settings of a clustering that a person stated: how many, by which method, what to compare them with."""
    count, method, labels = _CLUSTERS.search(asked), _METHOD.search(asked), _KNOWN_GROUPS.search(asked)
    found: dict[str, Any] = {"k": int(count.group(1) or count.group(2)) if count else None}
    found["method"] = _METHODS[method.group(1).lower()[:2]] if method else None
    found["labels"] = next(filter(None, labels.groups())) if labels else None
    return {name: value for name, value in found.items() if value is not None}


def changes_in(asked: str) -> dict[str, Any]:
    """What a run is to have otherwise than the one it is made from: settings, seed, hours, GPUs, host, engine.

    Only what is wanted counts, not the reasons for it.

    Raises:
        BadRequest: a number that cannot be read.
    """
    words = wish_in(asked)
    settings = settings_in(words)
    hours, gpus, host = _HOURS.search(words), _GPUS.search(words), _HOST.search(words)
    engine = _ENGINE.search(words)
    found = {
        "settings": settings,
        "seed": settings.pop("seed", None),
        "max_hours": _number(hours.group(1) or hours.group(2)) if hours else None,
        "gpus": _number(gpus.group(1) or gpus.group(2)) if gpus else None,
        "host": (host.group(1) or host.group(2)) if host else None,
        "engine": engine.group(1) if engine else None,
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def _number(said: str) -> float | int:
    """20000, 20,000, 20k, 0.1, 0,1 or 1e-4. Raises `BadRequest` where it is anything else."""
    plain = said.lower().removesuffix("k")
    thousands = plain != said.lower()
    plain = plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain.replace(",", ".")
    try:
        value = float(plain) * (1000 if thousands else 1)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRequest(f"I cannot read `{said[:40]}` as a number. Write it like 0.01, 1e-4, 20 or 20k.")
    return int(value) if value.is_integer() and ("." not in plain or thousands) else value


def _tokens(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]
