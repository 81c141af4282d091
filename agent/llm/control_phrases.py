"""Reads what people want done with a run: at once, later, or otherwise than before; and how soon it should start.

Called by `agent.llm.phrases`, which decides that such a thing is meant. Nothing is done at once that was wished for a
later moment, under a condition, or with other settings.
"""

import re

from agent.domain.errors import BadRequest

ASKED = r"^\W*(?:(?:please|now|ok(?:ay)?|so|and|then|hi|hello|hey|(?:can|could|would|will) you|let us|let's)\W+)*"
RUN = (
    r"(?:(?:it|that|this|everything)\b(?! from)|(?:(?:the|my|this|that)\s+)?(?:runs?|training|jobs?|model)\b"
    r"|r-[0-9a-z]{6}\b)"
)
ACTS = r"(?:stop|cancel|abort|end|kill|pause|hold|resume|unpause|continue|retry|restart|clone|copy|duplicate)"
NOT_DONE = rf"{ASKED}(?:don['’]?t|do not|never)\s+(?:ever\s+)?{ACTS}\b"
# What may follow the run, with which a wish is still one for this moment and without changes.
_JUST_SO = (
    rf"(?:(?:of\s+)?{RUN}|(?:please|(?:right )?now|right away|immediately|at once|asap|as soon as possible"
    r"|for (?:now|me)|(?:if|when) (?:possible|you (?:can|could))|again|once more|gracefully|too|thanks|thank you|thx"
    r"|with(?:out)? (?:a |its )?checkpoint|from (?:the|its) (?:\w+ )?checkpoint|from where it \w+)\b)"
)
ENDS = rf"(?:\W+{_JUST_SO})*\W*$"
_ENDS = re.compile(ENDS, re.IGNORECASE)
_GOES_ON = re.compile(rf"(?:\W+{_JUST_SO})*\s*(?:[,.;:!?–—-]|(?:and|so|then|but)\b)", re.IGNORECASE)
_REASON = re.compile(
    r"(?:\s*[,.;:!?–—-]+\s*(?:because|since|as|the|it|its|it['’]s|there|i|we|my|our)|\s+(?:because|since|as))\b"
    r"(?!\s+(?:soon|long|moment|minute|next|day)\b)",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:when(?:ever)?|if|unless|(?<!at )once|after|before|until|till|later|tomorrow|tonight|only|not (?:now|yet)"
    r"|as (?:soon|long)|the (?:moment|minute|next)"
    r"|at (?:(?:the )?(?:step|epoch|round|noon|midnight|night|end|next)|(?:about |around )?\d+)"
    r"|in (?:about )?(?:\d+|an?|half|some|the (?:morning|evening))"
    r"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|this (?:morning|afternoon|evening)|by \d+)\b"
    r"|\b(?:at|by) \d+(?:am|pm)\b",
    re.IGNORECASE,
)
_FOR_A_WHILE = re.compile(r"\bfor (?:\d+|an?)\b", re.IGNORECASE)  # hours of a new run, where one goes on
_OTHERWISE = re.compile(
    r"\b(?:with|using|use|instead|lower|higher|smaller|larger|bigger|more|fewer|less|longer|another|different|other|new"
    r"|on\s+\w+|learning[ _]rate|lr|epochs?|rounds?|batch[ _]size|seed|gpus?|hours?|hosts?)\b",
    re.IGNORECASE,
)

_LEVEL = r"(high|normal|low)(?:er|est)?\b"
_LEVELS = re.compile(rf"\b{_LEVEL}", re.IGNORECASE)
_BECOMES = re.compile(rf"\bto\s+(?:(?:a|the)\s+)?{_LEVEL}", re.IGNORECASE)
_WAS = re.compile(rf"\bfrom\s+(?:(?:a|the)\s+)?{_LEVEL}|\br-[0-9a-z]{{6}}\b", re.IGNORECASE)
_STEP = re.compile(r"(?<![\w.-])([+-]?\d+(?:\.\d+)?)(?![\w.]*\w)")
_NOT = re.compile(r"\b(?:not|no|never|without|\w+n['’]?t)\b", re.IGNORECASE)
_BEYOND = re.compile(r"\b(below|above|under|over)\s+normal\b", re.IGNORECASE)
_UP = re.compile(r"\b(?:up|raise|increase|bump|top|front|first|more)\b", re.IGNORECASE)
_DOWN = re.compile(
    r"\b(?:down|less|reduce|decrease|drop|bottom|back|end|last|behind|de-?prioriti[sz]e)\b", re.IGNORECASE
)
_GIVEN = re.compile(r"\bprioriti[sz]e\b|\bgive\b.*\bpriority\b", re.IGNORECASE)
_NUMBERS = {"+1": "high", "1": "high", "0": "normal", "-1": "low"}


def meant(intent: str, rest: str, *, changed: bool) -> str:
    """What a wish to act on a run comes to, by what follows the run in its sentence.

    `changed` says that settings were named with it: then it is a new run, which people approve. "later" is what cannot
    be waited for, "unclear" what cannot be followed exactly.
    """
    if _ENDS.match(rest):
        return intent
    reason = _REASON.search(rest)
    wish = rest[: reason.start()] if reason else rest
    again = intent in {"retry_run", "resume_run"}
    if _LATER.search(wish) or (_FOR_A_WHILE.search(wish) and not again):
        return "later"
    if again and (changed or _OTHERWISE.search(rest)):
        return "clone_run" if changed else "unclear"
    follows = intent == "set_priority" or _ENDS.match(wish) or _GOES_ON.match(rest)
    return intent if follows else "unclear"


def priority_in(words: str) -> str:
    """The priority that a person named, by its name, its number or its direction.

    Raises:
        BadRequest: none was named, or more than one.
    """
    said = _WAS.sub("", words)
    becomes = _BECOMES.search(said)
    if becomes and not _NOT.search(said):
        return becomes.group(1).lower()
    found = {"high" if beyond.lower() in {"above", "over"} else "low" for beyond in _BEYOND.findall(said)}
    said = _BEYOND.sub("", said)
    found |= {level.lower() for level in _LEVELS.findall(said)}
    found |= {_NUMBERS.get(number, number) for number in _STEP.findall(said)}
    found |= {level for pattern, level in ((_UP, "high"), (_DOWN, "low")) if pattern.search(said)}
    if not found and _GIVEN.search(said):
        found = {"high"}
    if len(found) != 1 or found.isdisjoint({"high", "normal", "low"}) or _NOT.search(said):
        raise BadRequest("Say which run and how soon: “give r-abc123 high priority”, or normal, or low.")
    return found.pop()
