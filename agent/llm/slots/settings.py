"""Reads the settings, numbers and place of a training, as far as a person stated them. Knows no run."""

import math
import re
from collections.abc import Sequence
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.slots.actions import ASKED, NAME, wish_in
from agent.tools.targets import QUOTE

# All that stands together with a number, so that no part of it is taken for the whole.
# With a file of pairs it is what is to be learned, without one what a model is to do.
WRITING = re.compile(rf"{ASKED}(?:translate|summari[sz]e|write (?:\w+ )?summar(?:y|ies))\b", re.IGNORECASE)
_NUMBER = r"(?<![\w.,/+-])(?!\d+(?:st|nd|rd|th)\b)([-+]?\.?\d(?:[\w%]|[.,/+*^-](?=[\d-]))*(?:\s%)?)"
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_NAME = rf"({NAME[3:]}"  # as a group of its own
_SETTING = re.compile(
    rf"\b{_NAME}\b\s*(?:from\s+[\w.,-]+\s+to|of|=|:|is|to|de|von|auf|à|a|en)?\s*{_NUMBER}", re.IGNORECASE
)
_NAMED = re.compile(rf"\b{_NAME}\b", re.IGNORECASE)
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
    rf"\b(?:with|for|to|and|most|within|than|up to|max(?:imum)?(?: of)?|limit(?:ed)?(?: of| to)?|stop after)\s+"
    rf"{_NUMBER}\s*(?:hours?|hrs?|h)\b|\bhours?\s*(?:=|:|to)\s*{_NUMBER}"
    rf"|{_NUMBER}\s*(?:hours?|hrs?|h)\s+(?:at (?:the )?most|max(?:imum)?|tops|limit|or less)\b",
    re.IGNORECASE,
)
_MINUTES = re.compile(
    rf"\b(?:at most|up to|within|no (?:more|longer) than|not (?:more|longer) than|max(?:imum)?(?: of)?"
    rf"|limit(?:ed)? to)\s+{_NUMBER}\s*min(?:ute)?s?\b"
    rf"|{_NUMBER}\s*min(?:ute)?s?\s+(?:at (?:the )?most|max(?:imum)?|tops|or less)\b",
    re.IGNORECASE,
)
_PRIORITY = re.compile(
    r"\b(?:with|at|on)?\s*(high|normal|low) priority\b|\bpriority\s*[=:]?\s*(high|normal|low)\b", re.IGNORECASE
)
_BALANCED = re.compile(
    r"\bbalanced? (?:class(?:es)?|weights?)\b|\bclass[_ ]weights?\s*[=:]?\s*balanced\b", re.IGNORECASE
)
_TEST = r"(?:test(?:ing)?(?: set| part| data| split)?|hold-?out|held[ -]out)"
_SHARE = r"(\d{1,2}(?:\.\d+)?\s*(?:%|percent\b|per cent\b)|0?\.\d{1,3}\b)"
_TEST_SHARE = re.compile(
    rf"(?:\b(?:{_TEST}|test[ _](?:frac(?:tion)?|share|size)|hold(?:ing)? (?:out|back)|keep(?:ing)? (?:back|aside)"
    rf"|set(?:ting)? aside|reserv(?:e|ing))\s*(?:on|of|is|=|:|to be|with|should be)?\s*(?:a |the )?(?:last )?{_SHARE}"
    rf"|\b(?:hold|keep|put|set|leave)\s+{_SHARE}[^.;,]{{0,30}}?\b(?:out|back|aside|{_TEST})\b"
    rf"|{_SHARE}(?:\s+of\s+(?:it|them|(?:the\s+)?(?:rows|data|lines|examples|samples)))?"
    rf"\s+(?:(?:for|as|in|into|to)\s+)?(?:the\s+|a\s+|my\s+)?{_TEST}\b)|\b(\d{{2}})\s*[/:-]\s*(\d{{2}})\s+split\b",
    re.IGNORECASE,
)
_SPLIT_BY = re.compile(
    r"\bsplit(?:ting)?\s+(?:(?:it|them|this|(?:the )?(?:data|rows|table|file|set))\s+)?(?:by|on|per|along|at)\s+"
    rf"(?:the\s+)?(?:column\s+)?(?:{QUOTE}|(\w+))"
    r"|\b(random)(?:ly)?[ -]split|\bsplit\s+(?:\w+\s+){0,2}(random)ly\b"
    r"|\b(chronological|time)(?:ly|[ -]based)?[ -]split|\bsplit\s+(?:\w+\s+){0,2}(chronological)ly\b",
    re.IGNORECASE,
)
_OF_TIME = frozenset({"time", "date", "dates", "chronological"})
_TRIALS = re.compile(
    r"\b(?:try(?:ing)?|tries|search(?:ing)?|compare|sample)\s+(?:out\s+|over\s+|through\s+)?(\d{1,4})\s+(?:\w+\s+)?"
    r"(?:settings|configurations?|configs|combinations|variants|candidates|sets)\b",
    re.IGNORECASE,
)
_HORIZON = re.compile(
    r"\b(\d{1,4})\s*(?:hours?|days?|weeks?|months?|quarters?|years?|steps?)\s+"
    r"(?:ahead|into the future|voraus|à l'avance)\b"
    r"|\b(?:for|next|ahead|horizon)\s+(?:the\s+|of\s+|next\s+|=\s*)*(\d{1,4})\s*"
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
    rf"(?:the )?(?:column )?(?:{QUOTE}|(\w+))",
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
DATA_FILE = re.compile(r"(?<![\w./=-])([\w-][\w.-]*\.(?:csv|tsv|jsonl?|parquet|txt|xlsx|npz))\b")
SETTING_NAMES = {
    "lr": "learning_rate",
    "epoch": "epochs",
    "round": "rounds",
    "patience": "early_stopping_patience",
}


def settings_in(asked: str) -> dict[str, float | int]:
    """Hyperparameters that the person stated, under the recipes' names.

    Raises:
        BadRequest: one is no number, or says only how much more or less.
    """
    if more := _MORE.search(asked):
        raise BadRequest(f"“{more.group()[:60]}” can be read in two ways. Say the whole number, such as “20 epochs”.")
    said = [(name, value) for name, value in _SETTING.findall(asked)]
    said += [(name, value) for value, name in _COUNTED.findall(asked)]
    said += [("trials", count) for count in _TRIALS.findall(asked)]
    said += [("minutes", searched.group(1) or searched.group(2))] if (searched := _SEARCHED.search(asked)) else []
    found: dict[str, float | int] = {}
    for name, value in said:
        key = name.lower().replace(" ", "_")
        found[SETTING_NAMES.get(key, key)] = _number(value)
    return found


def all_said(asked: str) -> None:
    """Raises `BadRequest` where a setting is to be changed in words that say no number, so that it is not dropped."""
    if named := _NAMED.search(wish_in(asked)):
        name = named.group().lower().replace("_", " ")
        raise BadRequest(f"I cannot read which {name} you mean. Say the number itself, such as “{name} 0.01”.")


def choices_in(asked: str) -> dict[str, str]:
    """Settings that are names: the model to begin with (a Hub id or a folder), how an LLM is tuned."""
    model, method = _BASE.search(asked), _TUNED_BY.search(asked)
    found = {
        "model": model.group(1) if model else "",
        "method": method.group(1).lower() if method else "",
        "quantization": "4bit" if _LORA_4BIT.search(asked) else "",
    }
    return {name: value for name, value in found.items() if value}


def weights_in(asked: str) -> dict[str, str]:
    """Whether rare classes are to count as much as frequent ones."""
    return {"class_weight": "balanced"} if _BALANCED.search(asked) else {}


def held_out_in(asked: str) -> float | None:
    """The share of the rows that is kept for the test: "hold out 30 %", "an 80/20 split"."""
    found = _TEST_SHARE.search(asked)
    if found is None:
        return None
    *shares, train, test = found.groups()
    if test:
        return int(test) / 100 if int(train) + int(test) == 100 else None
    said = next(filter(None, shares))
    number = re.match(r"[\d.]+", said)
    value = float(number.group()) if number else 0.0
    return value / 100 if said[-1:] in "%t" else value


def split_in(asked: str, dates: Sequence[str] = ()) -> str | None:
    """How the rows are to be split: a column, or `random`. “By time” is by the first of the columns with `dates`."""
    found = _SPLIT_BY.search(asked)
    if found is None:
        return None
    said = next(filter(None, found.groups()))
    if said.lower() in _OF_TIME and dates:
        return dates[0]
    return "random" if said.lower() == "random" else said


def text_in(asked: str) -> str | None:
    """A text in quotation marks that a model is to answer for."""
    found = _ONE_TEXT.search(asked)
    return found.group(1).strip() or None if found else None


def horizon_in(asked: str) -> int | None:
    """How many steps ahead a forecast is wanted: "for 24 months", "the next 12", "predict 12"."""
    found = _HORIZON.search(asked) or _STEPS_AHEAD.search(asked)
    return int(next(filter(None, found.groups()))) if found else None


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
    gpus, host, engine = _GPUS.search(words), _HOST.search(words), _ENGINE.search(words)
    found = {
        "settings": settings,
        "seed": settings.pop("seed", None),
        "max_hours": _most_hours(words),
        "gpus": _number(gpus.group(1) or gpus.group(2)) if gpus else None,
        "host": (host.group(1) or host.group(2)) if host else None,
        "engine": engine.group(1) if engine else None,
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def _most_hours(words: str) -> float | None:
    """How long something may run; the minutes of a search of settings are no limit."""
    if hours := _HOURS.search(words):
        return _number(next(filter(None, hours.groups())))
    if (minutes := _MINUTES.search(words)) and not _SEARCHED.search(words):
        return _number(next(filter(None, minutes.groups()))) / 60
    return None


def soon_in(asked: str) -> str | None:
    """The priority with which something new is to wait for its place."""
    found = _PRIORITY.search(asked)
    return next(filter(None, found.groups())).lower() if found else None


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
