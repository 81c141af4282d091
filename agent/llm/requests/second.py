"""A second thing that a request wants after an act, “pause it and tell me the loss”: the rules do one at a time."""

import re

from agent.llm.slots.actions import for_now

_AND = r"\b(?:and then|and also|and|then|afterwards|und dann|und|danach|et puis|et|puis|ensuite|y luego|y|luego)\b"
_VERBS = (
    r"tell|show|give|send|predict|plot|draw|train|start|clone|compare|deploy|serve|evaluate|download|list|export"
    r"|delete|rename|stop|cancel|pause|resume|kill|retry|restart|raise|lower|set|make|stopp\w*|pausier\w*|arrête\w*|mets"
    r"|détén|para|pausa|sag|zeig\w*|schick\w*|starte?|trainiere?|vergleiche?|lösche?|dis|montre|donne|envoie|lance"
    r"|entra[iî]ne|compare|supprime|dime|muestra|dame|envía|lanza|entrena|compara|borra"
)
_SECOND = re.compile(
    rf"{_AND},?\s+(?:(?:please|bitte|then|dann)\s+)?((?:{_VERBS})\b.+)|然后(?=.*[看画预训])(.+)", re.IGNORECASE
)
ONE_AT_A_TIME = "I do one thing at a time, so say the rest now: “{}”."


def second_wish(asked: str) -> str:
    """What is wanted after the first thing, in the person's words; empty where nothing is."""
    found = _SECOND.search(for_now(asked))
    return (found[1] or found[2]).strip(" .!?。！？") if found else ""
