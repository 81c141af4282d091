"""Reads whether an act is wished on something that is no run, such as a meeting. Called by `agent.llm.intents`."""

import re
from collections.abc import Iterator, Set
from functools import cache

from agent.llm.features import TABLE, concepts, masked, words_of
from agent.llm.places import ACT

_ARTICLES = frozenset(
    {
        *("the", "my", "our", "your", "this", "that", "these", "those", "den", "das", "die", "dem", "der", "mein"),
        *("meine", "meinen", "le", "la", "les", "mon", "ma", "mes", "el", "los", "las", "mi", "mis"),
    }
)
_MAY_NAME = re.compile(rf"\b(?:{'|'.join(_ARTICLES)})\b|把", re.IGNORECASE)
_TAKEN = re.compile(r"把([\u3400-\u9fff]{1,4}?)(?=暂?停|关|取消|终止|杀)")
# What may stand behind a pronoun that looks like an article: “para lo con ...”, “stopp den ohne ...”.
_NO_THINGS = frozenset(
    {
        *("without", "with", "for", "and", "or", "at", "on", "in", "to", "now", "ohne", "mit", "auf", "und", "jetzt"),
        *("sofort", "sans", "avec", "pour", "et", "tout", "un", "une", "sin", "con", "para", "por", "y", "ya", "que"),
        *("up", "down", "off", "over", "here", "please", "again", "asap", "already", "right"),
        *("c'est", "d'ou", "ou", "wo", "because", "weil", "denn"),
    }
)
_PRONOUN = re.compile(r"-(?:le|la|les|lo|los|las)\b")  # “arrête-le proprement”


def is_of_another_thing(said: str, verbs: Set[str]) -> bool:
    """Whether a masked sentence names, behind one of the verbs, a thing that the table knows no act on."""
    return any(thing not in _things(frozenset(verbs)) for thing in _acted_on(_PRONOUN.sub(" ", said), verbs))


@cache
def _things(verbs: frozenset[str]) -> frozenset[str]:
    """What the table says that an act is done with, beside a run."""
    lines = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    acts = (masked(words) for name, _, words in lines if name in ACT and _MAY_NAME.search(words))
    return frozenset(thing for said in acts for thing in _acted_on(said, verbs))


def _acted_on(said: str, verbs: Set[str]) -> Iterator[str]:
    """The words behind a verb and an article."""
    words = words_of(said)
    for verb, article, thing in zip(words, words[1:], words[2:], strict=False):
        if article in _ARTICLES and thing not in _NO_THINGS and verbs & set(concepts(verb)):
            yield thing
    yield from _TAKEN.findall(said)
