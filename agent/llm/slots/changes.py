"""Reads the numbers that a person stated for a training, and what a run is to have otherwise. Knows no run."""

import re
from collections.abc import Iterator
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.slots.actions import wish_in
from agent.llm.slots.figures import PLAIN, figure
from agent.llm.slots.limits import SEARCHED, place_said, reach_said
from agent.llm.slots.names import FRACTIONS, NAME, NUMBERED, setting_called

_BETWEEN = (  # a name and its number
    r"\s*(?:(?:from\s+[\w.,-]+\s+|\d[\d.,e-]*\s+)?(?:down\s+|up\s+)?to\b|(?:should|must|shall|can|will)\s+be\b|(?:is|are|was|of"
    r"|set to|down to|up to"
    r"|back to|at|about|around|like|de|von|auf|à|a|en|on|now)\b|=|:|->|→|≈|~)*\s*,?\s*"
    r"(?:(?:say|e\.g\.|maybe|perhaps|of|to|be|is)\s+)*"
)
_NAMED = re.compile(rf"\b{NAME}\b", re.IGNORECASE)
# A number with its name behind it, or a name with its number; from left to right each number has one name.
_SETTING = re.compile(
    rf"{PLAIN}(?:\s*[x×]\s*\d+)?[\s-]*(?:different\s+)?\b({NUMBERED})\b|\b({NUMBERED})\b{_BETWEEN}{PLAIN}",
    re.IGNORECASE,
)
_MORE = re.compile(
    rf"{PLAIN}\s+(?:(?:more|fewer|less|extra|additional)\s+{NAME}|{NAME}\s+(?:more|fewer|less|extra)\b)"
    rf"|\b{NAME}\s+by\s+{PLAIN}",
    re.IGNORECASE,
)
_BARE = re.compile(  # a number that counts nothing
    rf"(?:\b(?:try|use|take|like|say|with|go (?:for|with)|make (?:it|that)|probier\w*|nimm|essaie|prends|prueba"
    rf"|usa|mit|avec|con)"
    rf"\s+|[:,]\s*(?:so |say |etwa |like |about )?){PLAIN}"
    rf"(?=\s*(?:$|[.,;!?)](?!\d)|\b(?:instead|now|next|this time|then|please|maybe"
    rf"|stattdessen|mal|bitte)\b))",
    re.IGNORECASE,
)
_TOLD = re.compile(  # “500 rounds is overkill” names the setting, and not what it is to be
    rf"\b\d[\d.,]*\s+({NAME})\s+(?:is|are|was|were|seems?)\s+"
    r"(?:overkill|(?:way |far |much )?too \w+|not enough|plenty)",
    re.IGNORECASE,
)
HAN = re.compile(r"[\u3400-\u9fff]")  # a Chinese sign
_MORE_OF = re.compile(
    rf"\b(\d+)\s+(?:(more|fewer|less|extra|additional)\s+({NAME})\b|({NAME})\s+(more|fewer|less|extra)\b)",
    re.IGNORECASE,
)
_TRIALS = re.compile(
    r"\b(?:try(?:ing)?|tries|search(?:ing)?|compare|sample)\s+(?:out\s+|over\s+|through\s+)?(\d{1,4})\s+(?:\w+\s+)?"
    r"(?:settings|configurations?|configs|combinations|variants|candidates|sets)\b",
    re.IGNORECASE,
)


def settings_in(asked: str) -> dict[str, float | int]:
    """Hyperparameters that the person stated, under the recipes' names.

    Raises:
        BadRequest: one is no number, or says only how much more or less.
    """
    asked = _TOLD.sub(lambda said: said[1], asked)
    if more := _MORE.search(asked):
        raise BadRequest(f"“{more.group()[:60]}” can be read in two ways. Say the whole number, such as “20 epochs”.")
    said = [*(list(_said(asked)) or _apart(asked)), *(("trials", count) for count in _TRIALS.findall(asked))]
    settings = {(key := setting_called(name)): _figure_of(key, value) for name, value in said}
    return settings | _search_in(asked)


def _search_in(asked: str) -> dict[str, float | int]:
    """How many minutes settings are to be searched for."""
    searched = SEARCHED.search(asked)
    if searched is None:
        return {}
    number, hours, stated, tuned, tuned_hours = searched.groups()
    return {"minutes": round(figure(number or stated or tuned) * (60 if hours or tuned_hours else 1), 9)}


def _figure_of(key: str, said: str) -> float | int:
    """The value of a setting; 1.200 of what is counted are thousands, as others than the English write them."""
    counts = key not in FRACTIONS and re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", said)
    return figure(said.replace(".", "") if counts else said)


def with_sums(asked: str, known: dict[str, Any]) -> str:
    """A request in which “300 more rounds” are the number that it comes to, where `known` has what there were."""
    known = known | {"epochs": known["rounds"]} if "rounds" in known and HAN.search(asked) else known
    return _MORE_OF.sub(lambda said: _sum(said, known), asked)


def _sum(said: re.Match[str], known: dict[str, Any]) -> str:
    amount, more, name, named, extra = said.groups()
    key = setting_called(name or named)
    was = known.get(key)
    if not isinstance(was, int) or not amount.isdigit():
        return said.group()
    times = -1 if (more or extra).lower() in {"fewer", "less"} else 1
    return f"{key} {was + times * int(amount)}"


def _said(asked: str) -> Iterator[tuple[str, str]]:
    """Names and numbers that stand together."""
    for found in _SETTING.finditer(asked):
        number, counted, name, value = found.groups()
        yield counted or name, number or value


def _apart(asked: str) -> Iterator[tuple[str, str]]:
    """The only setting that is named, with the only number that stands alone: “a lower rate is better: try 0.02”."""
    names = {setting_called(name) for name in _NAMED.findall(asked)}
    numbers = _BARE.findall(asked)
    if len(names) == len(numbers) == 1:
        yield names.pop(), numbers[0]


def all_said(asked: str) -> None:
    """Raises `BadRequest` where a setting is to be changed in words that say no number, so that it is not dropped."""
    if named := _NAMED.search(wish_in(asked)):
        name = named.group().lower().replace("_", " ")
        raise BadRequest(f"I cannot read which {name} you mean. Say the number itself, such as “{name} 0.01”.")


def changes_in(asked: str) -> dict[str, Any]:
    """What a run is to have otherwise than the one it is made from: settings, seed, hours, GPUs, host, engine.

    Only what is wanted counts, not the reasons for it.

    Raises:
        BadRequest: a number that cannot be read.
    """
    words = wish_in(asked)
    settings = settings_in(words)
    found = {"settings": settings, "seed": settings.pop("seed", None), **place_said(words), **reach_said(words)}
    return {name: value for name, value in found.items() if value is not None and value != {}}
