"""Reads counts in words and figures ("the last fifty lines"), and by how much a setting is to change ("half the …")."""

import re

from agent.llm.features import plain
from agent.llm.slots.actions import NAME

_WORDS = {
    **dict.fromkeys(("one", "ein", "eine", "un", "une", "uno"), 1),
    **dict.fromkeys(("two", "zwei", "deux", "dos", "couple of"), 2),
    **dict.fromkeys(("three", "drei", "trois", "tres"), 3),
    **dict.fromkeys(("four", "vier", "quatre", "cuatro"), 4),
    **dict.fromkeys(("five", "funf", "cinq", "cinco"), 5),
    **dict.fromkeys(("ten", "zehn", "dix", "diez"), 10),
    "dozen": 12,
    "fifteen": 15,
    **dict.fromkeys(("twenty", "zwanzig", "vingt", "veinte"), 20),
    **dict.fromkeys(("thirty", "dreissig", "trente", "treinta"), 30),
    **dict.fromkeys(("forty", "vierzig", "quarante", "cuarenta"), 40),
    **dict.fromkeys(("fifty", "funfzig", "cinquante", "cincuenta"), 50),
    **dict.fromkeys(("hundred", "hundert", "cent", "cien"), 100),
}
_OF_WORDS = re.compile(
    rf"\b(?:a )?({'|'.join(_WORDS)})(?=(?: more| extra)? (?:epochs?|rounds?|trials?|(?:max )?steps|hours?|gpus?|minutes"
    r"|clusters|groups|segments|settings|configurations?|combinations|months|weeks|days|quarters|years)\b)",
    re.IGNORECASE,
)
_NUMBER = rf"(\d{{1,5}}|(?:a |two )?(?:{'|'.join(_WORDS)}))"
_LINES = re.compile(
    rf"\b(?:last|final|newest|latest|recent|letzten|dernieres|ultimas|tail)\s+{_NUMBER}\b|最后\s*(\d+)\s*行"
    rf"|\b{_NUMBER}\s+(?:(?:last|newest|latest|most recent|letzte|dernieres|ultimas)\s+)?(?:log\s+)?"
    r"(?:lines|zeilen|lignes|lineas)\b"
)
_SHARES = {
    "half": 0.5,
    "halb": 0.5,
    "moitie": 0.5,
    "mitad": 0.5,
    "third": 1 / 3,
    "quarter": 0.25,
    "fifth": 0.2,
    "tenth": 0.1,
}
_SHARES |= {"tenth": 0.1, "twice": 2.0, "double": 2.0, "doppelt": 2.0, "doble": 2.0, "triple": 3.0, "halv": 0.5}
_BY = rf"(?P<share>{'|'.join(_SHARES)})\w*|(?P<times>{_NUMBER[1:-1]})\s+times|(?P<fold>{_NUMBER[1:-1]})[ -]?fold"
_FACTOR = re.compile(
    rf"\b(?:{_BY})(?:\s+(?:of|the|its|as|many|much|number|a|die|der|anzahl|du|de|la|le|el|l['’]))*\s*(?P<name>{NAME})\b"
    rf"|\b(?P<before>{NAME})\s+(?:is\s+|be\s+|should be\s+)?(?P<after>halved|doubled|tripled)"
)


# How other languages call what a training is set to; the rest of a sentence is read as it is.
_ELSEWHERE = tuple(
    (re.compile(pattern, re.IGNORECASE), english)
    for pattern, english in (
        (r"\b(?:der |die |eine[rn]? )?lernrate\b|\b(?:le |du |un )?taux d['’]apprentissage\b", "learning rate"),
        (r"\b(?:la |una )?tasa de aprendizaje\b|学习率", "learning rate "),
        (r"\bepochen\b|\b[ée]po(?:que|ca)s\b", "epochs"),
        (r"(?<=\d)\s*(?:轮|个?周期)", " epochs"),
        (r"\bbatch-?gr(?:ö|oe)ße\b|\btaille de (?:lot|batch)\b|\btamaño de lote\b|批(?:次)?大小", "batch size "),
        (r"\bdurchgängen?\b|\brunden\b|\brondas\b", "rounds"),
        (
            r"\b(?:für|pendant|durante|por|höchstens|maximal|au plus|como máximo)\s+(?=\d+\s*(?:stund|heur|hora))",
            "at most ",
        ),
        (r"\bstunden?\b|\bheures?\b|\bhoras?\b", "hours"),
        (r"(?<=\d)\s*个?小时", " hours"),
        (r"\bauf\s+(?=[a-z]+-?\d)|\ben\s+(?=gpu-?\d)|\bsur\s+(?=[a-z]+-?\d)", "on "),
    )
)


def in_figures(asked: str) -> str:
    """A sentence whose counts of epochs, hours and the like stand in figures, and settings in English."""
    for pattern, english in _ELSEWHERE:
        asked = pattern.sub(english, asked)
    return _OF_WORDS.sub(lambda word: str(_WORDS[word.group(1).lower()]), asked)


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
    found: dict[str, float] = {}
    for one in _FACTOR.finditer(plain(asked)):
        if share := one["share"]:
            factor = _SHARES[share]
        elif number := one["times"] or one["fold"]:
            factor = float(_value(number))
        else:
            factor = {"halved": 0.5, "doubled": 2.0, "tripled": 3.0}[one["after"]]
        found[one["name"] or one["before"]] = factor
    return found
