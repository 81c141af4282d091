"""Reads how far ahead a forecast is wanted, in its own unit, and how many steps of the data that is."""

import math
import re
from typing import NamedTuple

from agent.domain.errors import BadRequest
from agent.llm.slots.limits import without_limit

_UNIT = r"(?P<unit>minute|min|hour|hr|h|day|week|month|quarter|year|step|period)"
_LATER = r"(?P<later>minute|min|hour|hr|h|day|week|month|quarter|year|step|period)"
_HORIZON = re.compile(
    rf"(?<![.,])\b(?P<count>\d{{1,4}})\s*-?{_UNIT}s?\s+"
    r"(?:ahead|out|forward|into the future|in advance|from now|voraus|à l'avance)\b"
    r"|\b(?:for|next|ahead|horizon|coming|following|upcoming|kommenden)\s+"
    r"(?:the\s+|of\s+|next\s+|coming\s+|following\s+|upcoming\s+|kommenden\s+|=\s*)*(?P<coming>\d{1,4})\s*"
    rf"(?:{_LATER}s?)?\b(?!\s*(?:epochs?|gpus?|rounds?|(?:[a-z]+\s*)?(?:at most|max|tops)\b))",
    re.IGNORECASE,
)
# One of a unit: “a year ahead”, “the next week”.
_ONE_AHEAD = re.compile(
    r"\b(?:an?|one|a full|a whole)\s+(?P<unit>year|quarter|month|week|day|hour)\s+"
    r"(?:ahead|out|forward|into the future|in advance)\b"
    r"|\b(?:next|coming|following)\s+(?P<later>year|quarter|month|week|day|hour)\b",
    re.IGNORECASE,
)
_UNIT_AHEAD = re.compile(r"\b(?P<unit>year|quarter|month|week|day|hour)-ahead\b", re.IGNORECASE)
_BEFORE = r"(?<!last )(?<!past )(?<!previous )(?<!letztes )(?<!letzte )"  # what was is no horizon
_IN_WORDS = tuple(  # spans with a name of their own
    (re.compile(_BEFORE + words, re.IGNORECASE), number, unit)
    for words, number, unit in (
        (r"\b(?:(?:a )?year and a half|anderthalb jahre|an et demi|año y medio)\b|一年半", 18, "month"),
        (r"\b(?:half[ -](?:an?[ -])?year|halbe[sn]? jahr|medio año|semest(?:er|re))\b|半年", 6, "month"),
        (r"\b(?:fortnight|quinzaine|quincena)\b", 2, "week"),
    )
)
_TOMORROW = re.compile(r"(?<!by )(?<!until )(?<!till )\b(?P<day>tomorrow)\b", re.IGNORECASE)
_STEPS_AHEAD = re.compile(r"\b(?:predict|forecast)\s+(\d{1,4})\b(?!\s*(?:rows?|lines?))", re.IGNORECASE)
_SPAN = re.compile(
    r"(?<!last )(?<!past )(?<!previous )(?<!most )(?<!max )(?<!to )(?<!within )(?<![.,])\b(?P<count>\d{1,4})\s*-?"
    r"(?P<unit>hour|day|week|month|quarter|year)s?\b(?!\s*(?:of \w+ )?(?:at most|max|tops|ago|of (?:data|history)))"
    r"|\bto\s+(?P<coming>\d{1,4})\s+(?P<later>day|week|month|quarter|year)s?\b",  # “à 12 mois”
    re.IGNORECASE,
)
_GRAIN = re.compile(
    r"\b(?:(?P<quarter>quarterly)|(?P<month>monthly|monatlich\w*|mensuel\w*|mensual\w*)"
    r"|(?P<week>weekly|wöchentlich\w*|hebdomadaire\w*|semanal\w*)|(?P<day>daily|täglich\w*|quotidien\w*|diari[oa]s?)"
    r"|(?P<hour>hourly|stündlich\w*))\b",
    re.IGNORECASE,
)
_SHORT = {"h": "hour", "hr": "hour", "min": "minute", "period": "step"}
_PER = {  # how many of a shorter unit a unit has
    "year": {"quarter": 4, "month": 12, "week": 52, "working day": 260, "day": 365, "hour": 8760, "minute": 525_600},
    "quarter": {"month": 3, "week": 13, "working day": 65, "day": 91, "hour": 2184, "minute": 131_040},
    "month": {"week": 4, "working day": 21, "day": 30, "hour": 720, "minute": 43_200},
    "week": {"working day": 5, "day": 7, "hour": 168, "minute": 10_080},
    "day": {"working day": 1, "hour": 24, "minute": 1440},
    "hour": {"minute": 60},
}


class Span(NamedTuple):
    """How far ahead: a number of a unit, which is “step” where none was said; `words` are those that say it."""

    number: int
    unit: str
    words: str

    @property
    def shown(self) -> str:
        """As people write it."""
        return f"{self.number} {self.unit}{'s' if self.number != 1 else ''}"


def ahead_in(asked: str, *, of_series: bool = False) -> Span | None:
    """How far ahead a forecast is wanted: “for 24 months”, “the next week”, “predict 12”.

    `of_series`: a forecast is meant for sure, so that a bare “10 weeks” says how far; no time that limits it or passed.
    """
    asked = without_limit(asked)
    for named, number, unit in _IN_WORDS:
        if found := named.search(asked):
            return Span(number, unit, found.group())
    for pattern in (_HORIZON, _ONE_AHEAD, _UNIT_AHEAD, _STEPS_AHEAD, *((_TOMORROW, _SPAN) if of_series else ())):
        spans = (_span(found) for found in pattern.finditer(asked))
        if span := next((one for one in spans if not (one.unit == "minute" and one.words.startswith("for "))), None):
            return span  # some minutes are how long it may take
    return None


def _span(found: re.Match[str]) -> Span:
    said = {name: words for name, words in found.groupdict().items() if words}
    count = said.get("count") or said.get("coming") or (found.group(1) if found.re is _STEPS_AHEAD else "1")
    unit = (said.get("unit") or said.get("later") or ("day" if "day" in said else "step")).lower()
    return Span(int(count), _SHORT.get(unit, unit), found.group())


def without_span(asked: str) -> str:
    """A request without what it says of how far ahead a forecast is wanted."""
    span = ahead_in(asked, of_series=True)
    return asked.replace(span.words, " ") if span else asked


def grain_in(asked: str) -> str:
    """How far apart the rows of the data are, where the request says so: “monthly”. Empty where it does not."""
    found = _GRAIN.search(asked)
    return str(found.lastgroup) if found else ""


def steps_of(span: Span, spacing: str) -> int | None:
    """How many rows a span has that are `spacing` apart (“hour”, “15 minutes”); None where that is not known.

    Raises:
        BadRequest: it is shorter than the distance of two rows.
    """
    if span.unit == "step":
        return span.number
    every, unit = spacing.split(" ", 1) if spacing[:1].isdigit() else ("1", spacing)
    unit = unit.removesuffix("s")
    if not unit:
        return None
    if not (units := 1 if unit == span.unit else _PER.get(span.unit, {}).get(unit)):
        apart = spacing if every != "1" else f"one {unit}"
        raise BadRequest(
            f"The rows of the data are {apart} apart, so I cannot look {span.shown} ahead. Say how many steps, such as "
            "“horizon 3”."
        )
    return math.ceil(span.number * units / int(every))
