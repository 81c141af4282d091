"""Finds what a request says and the call that was made of it does not hold, so that nothing is dropped in silence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.llm.slots.actions import wish_in
from agent.llm.slots.changes import settings_in
from agent.llm.slots.figures import NUMBER, figure
from agent.llm.slots.horizons import without_span
from agent.llm.slots.limits import FILE_NAME, MACHINE
from agent.llm.slots.models import MODEL
from agent.llm.slots.names import NAME, setting_called
from agent.llm.slots.numbers import factors_in
from agent.tools.targets import left_out, put_back

_AMOUNT = re.compile(NUMBER, re.IGNORECASE)
_FIGURES = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_VALUE = re.compile(r"[-+]?\.?\d[\d.,]*(?:e[-+]?\d+)?", re.IGNORECASE)
# Numbers that state no wish: of files and data, of what was before, of a multiple, of a year.
_NO_WISH = re.compile(
    rf"{FILE_NAME}|(?<![a-z0-9])r-[0-9a-z]{{6}}(?![0-9a-z])|https?://\S+|[“\"«`][^”\"»`\n]*[”\"»`]"
    r"|\b(?:19|20)\d\d\b(?!\s*(?:epochs?|rounds?|steps?|trees|iterations|trials))"
    r"|\b[\d.,]+\s*[kKmM]?\s*(?:rows?|lines? of data|samples|examples|images|pictures|photos|columns?|customers"
    r"|users|people|reviews|tickets|classes|categories|labels|行数据|张图)\b(?! (?:per|in (?:a|each)) leaf)"
    r"|\b[\d.,]+\s*(?:million|thousand|billion)s?\s+(?:of (?:them|these)|\w+)"
    r"|\b[\d.,]+\s*(?:mio\.?|millionen|millions? d[e'’]|millones de|mill(?:ó|o)n de|万|百万)\s*\w+"
    r"|\b(?:chapter|section|part|phase|sprint|room|team|milestone|question|exercise|task|ticket|issue|kapitel"
    r"|chapitre|cap[ií]tulo)\s*#?\d+\b"
    r"|\b(?:only|just|about|roughly|maybe) [\d.]+ ?(?:%|percent) of (?:these|the|our|them|all)\b"
    r"|\b[\d.,]+\s*(?:->|→|=>|(?:to|auf|à|a)(?=\s+\d))"
    rf"|\b[\d.,]+\s+{NAME}\s+(?:is|are|was|were|seems?)\s+(?:overkill|(?:way |far |much )?too \w+|not enough|plenty)"
    r"|\b(?:demo|meeting|stand-?up|call|presentation|review|deadline|lunch|flight|exam)\b[^,;.]{0,20}?\b(?:at|in|by)"
    r"\s+\d[\w:]*|\b\d{1,2}(?::\d\d)?\s*(?:am|pm|h|uhr|o['’]clock)?\s+(?:demo|meeting|stand-?up|call|presentation"
    r"|review|deadline|sync|flight|train|termin|besprechung)\b"
    r"|\b(?:from|instead of|rather than|not|was|were|had)\s+[\d.,e-]+(?=\s|[,;.!?)]|$)"
    r"|\b[\d.,]+\s*(?:times|x|-?fold)\b|\bfactor (?:of )?[\d.,]+|\b(?:[\d.,]+\s*)?(?:[gtm]i?b)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"\b{NAME}\b", re.IGNORECASE)
_MULTIPLE = re.compile(
    r"\b(?:double[ds]?|doubling|(?<!both )(?<!two )halve[ds]?|halving|twice|tripled?|(?:half|third|quarter"
    r"|tenth) (?:of )?the)\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"\b(?:(?<!no )longer|shorter|bigger"
    r"|smaller|larger|deeper|wider|länger|kürzer|größer|kleiner|plus (?:longtemps|grand)"
    r"|más (?:tiempo|grande))\b(?! (?:than|als))",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(
    r"\b(?:left out|leave out|exclud(?:e|ed|ing)|ignor(?:e|ing|iere?n?)(?! the (?:other|second|first|old))|weglassen"
    r"|raus(?:nehmen|lassen)?|draußen (?:lassen|bleiben)|fuera|去掉|不要用"
    r"|(?:everything|all columns) (?:but|except)(?! (?:use|with|change|take|for)\b)|skip(?:ping)?)\b"
    r"(?! (?:my|the|this|our|it['’]?s) (?:attached )?(?:script|program|code|file|attachment)\b)",
    re.IGNORECASE,
)
_WITHOUT = re.compile(
    r"\b(?:without|ohne|sans|sin)\s+(?:the|das|die|den|der|la|le|les|el|los|las)\s+"
    r"(?!inter|net|hub|gpu|cpu|search|such|rest|other|last)\w+|[\u3400-\u9fff]{1,6}\s*without\b",
    re.IGNORECASE,
)
# What is done to the rows before a training, and methods that no recipe has.
_PREPARED = re.compile(
    r"\b(?:over|under|up|down|re)-?sampl\w+|\bimput(?:e|ing|ation)\b|\b(?:drop|remove|delete|skip|fill|filter"
    r"|clean|throw out)\w*"
    r" (?:out |up )?(?:(?:the|all|any|every) )*(?:rows?|lines|outliers?|duplicates?|nulls?|nans?|missing|empty"
    r"|blanks?)\b"
    r"|\b(?:only|just) (?:the )?(?:rows|data|lines|samples|customers) (?:from|of|where|with|since|before|after)\b"
    r"|\brows (?:where|from|since|before|after)\b|\b(?:dedup\w*|de-duplicate|one-hot|standardi[sz]e|pca)\b"
    r"|\b(?:log|box-cox)[ -]transform\w*|\bthe log(?:arithm)? of\b|\b(?:predict|forecast) (?:the )?log of\b"
    r"|\b(?:on|from|use|using|take|only) (?:just |only )?(?:the )?(?:first|last|top|newest|oldest) [\d.,]+ ?k?"
    r" (?:rows|lines|samples|examples|records)\b"
    r"|\bweigh\w* (?:the )?\w+(?: class)? (?:by )?[\d.]+ ?(?:times|x|-?fold)|\bensembles?\b|\bstacking\b"
    r"|\b(?:optimi[sz]|maximi[sz]|tun)\w* (?:it )?(?:for )?(?:recall|precision|f1|auc|accuracy|rmse|mae|speed)\b"
    r"|\b(?:name|call|tag) (?:it|this|the run|the model) (?!a\b|off\b|quits\b|done\b|with\b|in\b|by\b|from\b|on\b)\w+"
    r"|\bwithout (?:starting|beginning|training) (?:over|from scratch|anew|again)\b"
    r"|\bevery (?:night|morning|evening|hour|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\bkeep (?:it|this) private\b"
    r"|\b(?:xgboost|catboost|random forests?|svms?|logistic regression|naive bayes|knn|prophet|s?arimax?|lstm|gru)\b",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"\b([A-Z][A-Z0-9_]+)=([^\s,;]+)")
# What stands before a column that is only read, parts the rows, or was predicted before.
_READ = re.compile(
    r"\b(?:from|use|using|based on|given|with|reads?|has)\b[^.;]*$|\b(?:per|by|each|every|for (?:each|every)|pro|je"
    r"|par|chaque"
    r"|por|cada|instead of|rather than|statt|anstelle von|au lieu de|plutôt que|en (?:vez|lugar) de)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:on|onto|auf|sur|en|with|use|using)\s+(?:\w+\s+){0,2}?(gpus?|[ahl]\d{2,3}s?|[lt]4s?|v100s?|rtx)\b",
    re.IGNORECASE,
)
_GPU = re.compile(r"\bgpus?\b(?!-?\d)|显卡", re.IGNORECASE)
_MACHINES = re.compile(rf"(?<![\w-]){MACHINE}(?![\w-])", re.IGNORECASE)
_ENGINE = re.compile(r"\bengine\b", re.IGNORECASE)
_SOON = re.compile(r"\b(?:prio(?:rity|rität)?|priorité|prioridad)\b|优先级?", re.IGNORECASE)
_REACHED = re.compile(r"\b(?:internet|outbound|(?:hf|model|hugging ?face) hub)\b|联网|上网|外网", re.IGNORECASE)
_LATER = re.compile(
    r"\b(?:tonight|tomorrow|over the weekend|next (?:week|monday)|heute (?:abend|nacht)|übers wochenende"
    r"|ce soir|demain|esta noche|at (?:noon|midnight)"
    r"|(?:deploy|serve|run|start|launch)\b[^,.;]{0,30} on (?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|until (?:noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day|next \w+)"
    r"|until (?:christmas|easter|(?:the )?(?:end|beginning|start|middle) of|spring|summer|autumn|winter"
    r"|new year)\b|until \d{1,2}(?::\d\d)? ?(?:am|pm|h|o['’]clock)|bis (?:mon|diens|mitt|donners|frei|sams|sonn)\w+"
    r"|jusqu['’]\w+ (?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)|hasta el \w+)\b|明天|今晚|周末",
    re.IGNORECASE,
)
_TIMES = (1, 100, 60, 1 / 24, 1 / 168, 1 / 60, 1e-3, 1e-6)  # a percentage, minutes, days, weeks, thousands, millions
PLANS = frozenset(
    {
        *("start_training", "start_script", "clone_run", "serve_model", "evaluate_model", "predict_as_job"),
    }
)
_NUMBERED = frozenset({*PLANS, "set_budget", "set_allowance", "run_chart", "run_logs", "predict", "set_card"})


def unread(
    tool: str, arguments: Mapping[str, Any], asked: str, columns: Sequence[str] = (), read: Sequence[str] = ()
) -> str:
    """What of a request stands in no argument of its call; empty where all does, or where no number can matter.

    `columns` are those that only a call's words would use, `read` others that are read anyway.
    """
    if tool not in _NUMBERED:
        return ""
    words = wish_in(asked)
    if arguments.get("horizon") or "horizon" in (arguments.get("settings") or {}):
        words = without_span(words)  # it holds the number of steps that this comes to
    for name in sorted(columns, key=len, reverse=True):
        words = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", words, flags=re.IGNORECASE)
    found = [*_numbers(words, arguments)]
    if tool in PLANS:
        found += _words(words, arguments)
    if tool == "clone_run" and (unwanted := left_out(asked, columns)):
        found += [f"without {', '.join(unwanted)}"]  # a copy has the columns of its run
    if tool == "start_training" and "file" in arguments:  # before the data are looked at, no column has its place
        rest = put_back(asked, columns)[1]
        found += [name for name in columns if len(name) > 2 and _is_meant(name, rest) and name not in str(arguments)]
        found += [name for name in arguments.get("drop_columns") or () if columns and name not in (*columns, *read)]
    if tool == "start_training" and not arguments.get("drop_columns"):
        found += [said.group() for said in (*_LEFT_OUT.finditer(asked), *_WITHOUT.finditer(asked))]
    return ", ".join(f"“{one.strip()}”" for one in dict.fromkeys(found))


def _is_meant(column: str, asked: str) -> bool:
    """Whether a column is named by its whole name, and not just among those that are read."""
    at = re.search(rf"(?<!\w){re.escape(column)}(?!\w)", asked, re.IGNORECASE)
    return at is not None and not _READ.search(asked[: at.start()])


def _numbers(words: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    known = set(_values(arguments))
    for said in _AMOUNT.finditer(_NO_WISH.sub(" ", words)):
        value = _VALUE.match(said["number"])
        amount = figure(value.group().rstrip(".,")) if value else None
        if amount is None or not _is_known(float(amount), known):
            yield re.split(r"[.,;!?]\s", said.string[said.start() :])[0][:40]


def _is_known(amount: float, known: set[float]) -> bool:
    ways = (*(amount / times for times in _TIMES), 1 - amount / 100)
    return any(abs(way - value) <= 1e-4 * max(abs(value), 1e-6) for way in ways for value in known)


def _values(given: Any) -> Iterator[float]:
    """All numbers of some arguments."""
    match given:
        case int() | float() if not isinstance(given, bool):
            yield float(given)
        case str():
            yield from (float(number) for number in _FIGURES.findall(given))
        case Mapping():
            yield from (value for part in given.values() for value in _values(part))
        case list() | tuple():
            yield from (value for part in given for value in _values(part))
        case _:
            return


def _words(words: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Settings without a value, variables, models, machines and moments that the arguments do not hold."""
    settings = arguments.get("settings") or {}
    given = str(arguments)
    if arguments.get("arguments") is None:
        names = (said.group() for said in _NAMED.finditer(_ASSIGNED.sub(" ", words)))
        yield from (
            name
            for name in names
            if setting_called(name) not in {*settings, *arguments, *(("epochs",) if "rounds" in settings else ())}
            and not factors_in(words)
            and name.lower() != "round"  # “boxes round them”
        )
    yield from (said.group() for said in _PREPARED.finditer(words))
    if not settings_in(words) and "test_frac" not in arguments:
        yield from (said.group() for said in _VAGUE.finditer(words))
    if not factors_in(words) and "test_frac" not in arguments:
        yield from (said.group() for said in _MULTIPLE.finditer(words))
    yield from (said.group() for said in _ASSIGNED.finditer(words) if said.group(2) not in given)
    yield from (said for said in MODEL.findall(words) if said not in given)
    yield from (said.group() for said in _MACHINES.finditer(words) if said.group().lower() not in given.lower())
    if "priority" not in arguments and ("file" in arguments or "drop_columns" not in arguments):
        yield from (said.group() for said in _SOON.finditer(words))
    if "network" not in arguments and arguments.get("task", "") == "" and "target" not in arguments:
        yield from (said.group() for said in _REACHED.finditer(words))
    if "engine" not in arguments:
        yield from (said.group() for said in _ENGINE.finditer(words))
    if not {"gpus", "host"} & arguments.keys():
        yield from (said.group() for said in (*_PLACE.finditer(words), *_GPU.finditer(words)))
    if "max_hours" not in arguments:
        yield from (said.group() for said in _LATER.finditer(words))
