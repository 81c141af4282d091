"""Reads the moment, the span or the place that a wish names: an act is done at once, or not at all."""

import re

from agent.llm.slots.actions import ASKED

_NUMBER = (
    r"(?:\d[\d:.]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half past \w+|noon|midnight|midday"
    r"|lunch(?:time)?|dawn|dusk|mittag|mitternacht|midi|minuit|mediod[íi]a|medianoche)"
)
_CLOCK = re.compile(
    rf"\b(?:at|around|by|until|till|from|um|gegen|ab|bis|à|a|vers|dès|jusqu['’]à|a las?|hacia las?|desde las?) "
    rf"(?:about |around |etwa |environ )?{_NUMBER}\b(?! (?:priority|steps?|gpus?|%|percent))"
    r"|\b\d[\d:.]*\s?(?:am|pm|uhr|h|o['’]?clock)\b|(?:\d+|[一二三四五六七八九十两]+)\s*点(?!\d)"
    r"|\bin the (?:morning|afternoon|evening|night)|\b(?:morgens|abends|heute abend|ce soir|demain|esta noche|mañana"
    r"|tomorrow|tonight|overnight)\b|[早晚]上|明天|今晚"
    r"|\b(?:on |next |this |am |ce |el )?(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"\b(?:for|in|after|within|für|nach|pendant|dans|durante|dentro de) (?:about |ca\. |etwa |environ )?"
    r"(?:\d[\d.]*|an?|half an?|eine?[nr]?|une?|una?) ?(?:seconds?|minutes?|mins?|hours?|days?|nights?|weeks?|[hms]\b"
    r"|sekunden?|minuten?|stunden?|tage?n?|wochen?|secondes?|heures?|jours?|semaines?|segundos?|minutos?|horas?|d[íi]as?)"
    r"|\d+ ?(?:个)?(?:hours?|minutes?|小时|分钟|天)\s*(?:之?后|以后)",
    re.IGNORECASE,
)
_AT_FIRST = re.compile(
    rf"\W*(?:(?:but|only|and|please|just|say|maybe|not before)\W+)*(?:{_CLOCK.pattern})", re.IGNORECASE
)
_STOPS_THEN = re.compile(
    rf"{ASKED}(?:stop|pause|halt|kill|end)\b(?: (?:it|this|the run|the training))? (?:after|at|when|once|in)\b",
    re.IGNORECASE,
)
_ONCE_OVER = re.compile(
    r"\W*(?:once|when|as soon as|after)\s+(?:it|the (?:run|training|job)|this|that|r-[0-9a-z]{6})(?:['’]s| is| has)?"
    r"(?: been)?\s+(?:done|finish\w*|over|complete\w*|ready|ended|end|succe\w+|through)\b",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"\b(?:another|a different|the other|some other) (?:host|machine|gpu|node|server|box)\b|\bon (?:gpu|host) \d",
    re.IGNORECASE,
)
_NAMES = re.compile(r"\br-[0-9a-z]{6}\b|\b[a-z][\w.]*-\d+\b", re.IGNORECASE)
_NUMBERS = re.compile(r"(?<![\w.-])\d[\d.,]*(?![\w-])")
_TAKES_BACK = re.compile(
    r"(?:[,.…;–—-]+|\b(?:or|but))\s*(?:(?:actually |oh )?(?:no|nope|nein|non|wait|warte|attends|espera)\s*(?:[,.!…;]|$)"
    r"|scratch that\b|i mean\b|or rather\b|sorry,? i meant?\b)",
    re.IGNORECASE,
)
_FROM_THE_START = re.compile(
    r"\bfrom (?:the )?(?:very )?(?:beginning|start|scratch|zero|step 0|epoch 0)\b|\bvon (?:vorne|anfang an|null)\b"
    r"|\b(?:depuis|dès) le (?:début|départ)\b|\bà zéro\b|\bdesde (?:cero|el principio)\b|从头",
    re.IGNORECASE,
)


def names_a_moment(wish: str) -> bool:
    """Whether a wish is for another moment than now: “at 9am”, “à 9h”, “九点”."""
    return bool(_CLOCK.search(wish))


def begins_with_a_moment(clause: str) -> bool:
    """Whether a clause says when: “at 9 please”, “but not before noon”."""
    return bool(_AT_FIRST.match(clause))


def names_a_span(wish: str) -> bool:
    """Whether a wish names how long, or after how long: “for an hour”, “in 10 minutes”."""
    return bool(_SPAN.search(wish))


def names_a_place(wish: str) -> bool:
    """Whether a wish names another host, or a number that is no run and no host: “from step 100”."""
    return bool(_ELSEWHERE.search(wish) or _NUMBERS.search(_NAMES.sub(" ", wish)))


def waits_for_a_run(asked: str) -> bool:
    """Whether something is to be done when a run has come so far: “stop after epoch 3”."""
    return bool(_STOPS_THEN.match(asked) or _ONCE_OVER.match(asked))


def takes_back(asked: str) -> bool:
    """Whether what was said first is taken back: “pause it, no, stop it”."""
    return bool(_TAKES_BACK.search(asked))


def from_the_start(wish: str) -> bool:
    """Whether a run is wanted anew and not from where it was: “from scratch”."""
    return bool(_FROM_THE_START.search(wish))
