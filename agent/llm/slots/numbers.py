"""Reads counts in words and figures ("the last fifty lines"), and by how much a setting is to change ("half the …")."""

import re
from functools import lru_cache

from agent.llm.features import plain
from agent.llm.slots.actions import NAME
from agent.llm.slots.glossary import in_english

_WORDS = {
    **dict.fromkeys(("one", "an", "ein", "eine", "un", "une", "uno", "una"), 1),
    **dict.fromkeys(("two", "zwei", "deux", "dos", "couple of"), 2),
    **dict.fromkeys(("three", "drei", "trois", "tres"), 3),
    **dict.fromkeys(("four", "vier", "quatre", "cuatro"), 4),
    **dict.fromkeys(("five", "funf", "fünf", "cinq", "cinco"), 5),
    **dict.fromkeys(("six", "sechs", "seis"), 6),
    **dict.fromkeys(("seven", "sieben", "sept", "siete"), 7),
    **dict.fromkeys(("eight", "acht", "huit", "ocho"), 8),
    **dict.fromkeys(("nine", "neun", "neuf", "nueve"), 9),
    **dict.fromkeys(("twelve", "zwolf", "zwölf", "douze", "doce"), 12),
    **dict.fromkeys(("ten", "zehn", "dix", "diez"), 10),
    "dozen": 12,
    "fifteen": 15,
    **dict.fromkeys(("twenty", "zwanzig", "vingt", "veinte"), 20),
    **dict.fromkeys(("thirty", "dreissig", "dreißig", "trente", "treinta"), 30),
    **dict.fromkeys(("forty", "vierzig", "quarante", "cuarenta"), 40),
    **dict.fromkeys(("fifty", "funfzig", "fünfzig", "cinquante", "cincuenta"), 50),
    **dict.fromkeys(("hundred", "hundert", "cent", "cien"), 100),
}
_OF_WORDS = re.compile(
    rf"\b(?:a )?({'|'.join(_WORDS)})(?=(?: more| extra)? (?:epochs?|rounds?|trials?|(?:max )?steps|hours?|gpus?|minutes"
    r"|clusters|groups|segments|settings|configurations?|combinations|months|weeks|days|quarters|years|and a half)\b)",
    re.IGNORECASE,
)
# Numbers above a hundred in words: “a hundred and twenty”, “zweihundertfünfzig”, “deux cent dix”, “ciento veinte”.
_ONES = {word: value for word, value in _WORDS.items() if value < 100}
_HUNDREDS = re.compile(
    rf"\b(?:(?P<times>{'|'.join(_ONES)}|a)[ -]?)?(?:hundred|hundert|cents?|ciento)(?:[ -]?(?:and|und|et|y))?[ -]?"
    rf"(?P<more>{'|'.join(sorted(_ONES, key=len, reverse=True))})(?:[ -]?(?P<ones>{'|'.join(_ONES)}))?\b",
    re.IGNORECASE,
)
# A number in words behind the name of a setting: “seed forty-two”.
_NAMED_WORD = re.compile(
    rf"\b({NAME} (?:of |is |to |at )?)?((?(1)(?:{'|'.join(_ONES)})(?:[ -](?:{'|'.join(_ONES)}))?"
    rf"|(?:twenty|thirty|forty|fifty)-(?:{'|'.join(_ONES)})))\b",
    re.IGNORECASE,
)
_AND_A_HALF = re.compile(r"\b(\d+)(?: hours?)? and a half(?: hours?)?\b", re.IGNORECASE)
_HALF_AN_HOUR = re.compile(
    r"\bhalf an? hour\b|\b(?:eine )?halbe hours\b|\b(?:une )?demi-hours?\b|\bmedia hours\b", re.IGNORECASE
)
_NUMBER = rf"(\d{{1,5}}|(?:a |two )?(?:{'|'.join(_WORDS)}))"
_LINES = re.compile(
    rf"\b(?:last|final|newest|latest|recent|letzten|dernieres|ultimas|tail)\s+{_NUMBER}\b|最后\s*(\d+)\s*行"
    rf"|\b{_NUMBER}\s+(?:(?:last|newest|latest|most recent|letzte|dernieres|ultimas)\s+)?(?:log\s+)?"
    r"(?:lines|zeilen|lignes|lineas)\b"
)
_SHARES = {
    **{"half": 0.5, "third": 1 / 3, "quarter": 0.25, "fifth": 0.2, "tenth": 0.1},
    **{"twice": 2.0, "double": 2.0, "triple": 3.0},
}
_BY = rf"(?P<share>{'|'.join(_SHARES)})\w*|(?P<times>{_NUMBER[1:-1]})\s+times|(?P<fold>{_NUMBER[1:-1]})[ -]?fold"
_FACTOR = re.compile(
    rf"\b(?:{_BY})(?:\s+(?:of|the|its|as|many|much|number|a|die|der|anzahl|du|de|la|le|el|l['’]))*\s*(?P<name>{NAME})\b"
    rf"|\b(?P<before>{NAME})\s+(?:is\s+|be\s+|should be\s+)?(?P<after>halved|doubled|tripled)"
    rf"|\b(?P<way>cut|reduce|decrease|lower|drop|shrink|raise|increase|scale)\s+(?:(?:the|its)\s+)?"
    rf"(?P<moved>{NAME})\s+by\s+a factor of\s+(?P<factor>{_NUMBER[1:-1]})\b"
)
_UP = frozenset({"raise", "increase", "scale"})


@lru_cache(16)  # the readers of a request ask for the same sentence
def in_figures(asked: str, *, keep: tuple[str, ...] = ()) -> str:
    """A sentence whose counts of epochs, hours and the like stand in figures, and settings in English.

    `keep` are the names of columns, which stay as they are.
    """
    asked = _HALF_AN_HOUR.sub("0.5 hours", in_english(asked, keep=keep))
    asked = _HUNDREDS.sub(_hundreds, asked)
    asked = _NAMED_WORD.sub(lambda said: f"{said.group(1) or ''}{_below_hundred(said.group(2))}", asked)
    asked = _OF_WORDS.sub(lambda word: str(_WORDS[word.group(1).lower()]), asked)
    return _AND_A_HALF.sub(r"\1.5 hours", asked)


def _hundreds(said: re.Match[str]) -> str:
    times, more, ones = (_ONES.get((word or "").lower(), 0) for word in said.group("times", "more", "ones"))
    return str(100 * (times or 1) + more + ones)


def _below_hundred(said: str) -> int:
    return sum(_ONES[word] for word in re.split("[ -]", said.lower()))


def _value(said: str) -> int:
    words = said.removeprefix("a ")
    if words.startswith("two ") and len(words) > 4:
        return 2 * _WORDS[words[4:]]
    return int(words) if words.isdigit() else _WORDS[words]


def count_in(asked: str) -> int | None:
    """How many lines are wanted."""
    found = _LINES.search(plain(asked))
    said = next(filter(None, found.groups()), None) if found else None
    return _value(said) if said else None


def factors_in(asked: str) -> dict[str, float]:
    """By how much each setting that is named is to be multiplied, by the name that people gave it."""
    said = _FACTOR.finditer(plain(asked))
    return {one["name"] or one["before"] or one["moved"]: _factor(one) for one in said}


def _factor(one: re.Match[str]) -> float:
    if share := one["share"]:
        return _SHARES[share]
    if number := one["times"] or one["fold"]:
        return float(_value(number))
    if number := one["factor"]:
        return float(_value(number)) if one["way"] in _UP else 1 / _value(number)
    return {"halved": 0.5, "doubled": 2.0, "tripled": 3.0}[one["after"]]
