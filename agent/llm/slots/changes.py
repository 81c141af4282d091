"""Reads the numbers that a person stated for a training, and what a run is to have otherwise. Knows no run."""

import re
from collections.abc import Iterator
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.slots.actions import wish_in
from agent.llm.slots.figures import NUMBER, PLAIN, figure
from agent.llm.slots.limits import SEARCHED, place_said
from agent.llm.slots.names import NAME, NUMBERED, setting_called

_BETWEEN = (  # a name and its number
    r"\s*(?:(?:from\s+[\w.,-]+\s+)?to\b|(?:should|must|shall|can|will)\s+be\b|(?:is|are|was|of|set to|down to|up to"
    r"|back to|at|about|around|like|de|von|auf|à|a|en|on|now)\b|=|:|->|→|≈|~)*\s*,?\s*"
    r"(?:(?:say|e\.g\.|maybe|perhaps|of|to|be|is)\s+)*"
)
_NAMED = re.compile(rf"\b{NAME}\b", re.IGNORECASE)
_SETTING = re.compile(rf"\b(?P<name>{NUMBERED})\b{_BETWEEN}{NUMBER}", re.IGNORECASE)
_COUNTED = re.compile(rf"{NUMBER}(?:\s*[x×]\s*\d+)?[\s-]*(?:different\s+)?\b(?P<name>{NUMBERED})\b", re.IGNORECASE)
_MORE = re.compile(
    rf"{PLAIN}\s+(?:(?:more|fewer|less|extra|additional)\s+{NAME}|{NAME}\s+(?:more|fewer|less|extra)\b)"
    rf"|\b{NAME}\s+by\s+{PLAIN}",
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
    if more := _MORE.search(asked):
        raise BadRequest(f"“{more.group()[:60]}” can be read in two ways. Say the whole number, such as “20 epochs”.")
    said = [*_said(asked), *(("trials", count) for count in _TRIALS.findall(asked))]
    said += [("minutes", searched.group(1) or searched.group(2))] if (searched := SEARCHED.search(asked)) else []
    return {setting_called(name): figure(value) for name, value in said}


def _said(asked: str) -> Iterator[tuple[str, str]]:
    """Names and numbers that stand together. A number belongs to the name behind it, if that has none of its own."""
    while found := next(filter(None, (_first(asked), _SETTING.search(asked))), None):
        yield found["name"], found["number"]
        asked = f"{asked[: found.start()]} ; {asked[found.end() :]}"


def _first(asked: str) -> re.Match[str] | None:
    """The first number with its name behind it, where no name before it takes the number."""
    for found in _COUNTED.finditer(asked):
        number = found.end("number")
        if all(before.end() != number for before in _SETTING.finditer(asked[:number])):
            return found
    return None


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
    found = {"settings": settings, "seed": settings.pop("seed", None), **place_said(words)}
    return {name: value for name, value in found.items() if value not in (None, {})}
