"""Explains the words on cards: metrics, and the field's terms. Their texts are in `agent/llm/terms.tsv`."""

import re
from functools import cache
from pathlib import Path

_TERMS = Path(__file__).parents[1] / "terms.tsv"
_BEFORE = r"(?:(?:so|and|but|hey|hi|sorry|ok|um|wait|please|can you|could you|remind me)[ ,]+)*"
_THE = r"(?:(?:the|this|an?|der|die|das|den|eine?n?|un|une|le|la|l|el|una) )?"
_A = r"(?:(?:an?|eine?|une?|una) )?"
# “What is the AUC?” asks for its value, so an article is read only where a meaning is plainly asked for.
_ASKS = tuple(
    re.compile(rf"{_BEFORE}{form}(?: (?:again|exactly|anyway|here|please|eigentlich|denn|exactement))*", re.IGNORECASE)
    for form in (
        rf"what (?:does|do) {_THE}(?P<term>.+?) (?:mean|stand for|measure|tell (?:me|us)|say)",
        rf"what(?: is| are| s) {_A}(?P<term>.+?)",
        rf"(?:what(?: is| s) )?(?:meant by|the meaning of|the definition of) {_THE}(?P<term>.+?)",
        rf"(?:explain|define)(?: to me| me| us)? (?:what )?{_THE}(?P<term>.+?)(?: is| are| means| to me| to us)?",
        rf"how (?:do i|do you|do we|should i|to|can i) (?:read|interpret|understand) {_THE}(?P<term>.+?)",
        rf"i (?:don t|do not) (?:know|understand|get) (?:what )?{_THE}(?P<term>.+?)(?: is| are| means)?",
        rf"was (?:bedeute[tn]|heißt|heisst) {_THE}(?P<term>.+?)",
        rf"was (?:ist|sind) {_A}(?P<term>.+?)",
        rf"erklär(?:e|st du)?(?: mir| uns)? {_THE}(?P<term>.+?)",
        rf"(?:c est quoi|qu est ce que(?: c est que)?|que signifie|que veut dire) {_THE}(?P<term>.+?)",
        rf"(?:qué|que) (?:es|son|significan?|quiere decir) {_THE}(?P<term>.+?)",
        r"什么(?:是|叫) ?(?P<term>.+?)",
        r"(?P<term>.+?) ?是?什么意思",
    )
)


def explained(words: str) -> str | None:
    """What a term means, where nothing else is asked; None otherwise."""
    said = " ".join(re.sub(r"[^\w%²]+", " ", words.lower()).split())
    found = (asks.fullmatch(said) for asks in _ASKS)
    return next((_terms()[one["term"]] for one in found if one and one["term"] in _terms()), None)


@cache
def _terms() -> dict[str, str]:
    lines = (line.split("\t") for line in _TERMS.read_text(encoding="utf-8").splitlines())
    return {name: text for names, text in lines for name in names.split("|")}
