"""Reads wishes about a conversation: which language model answers and how hard it thinks, what the audit log shows."""

import re
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.features import concepts, masked
from agent.llm.slots.moments import names_a_moment

_MODEL = re.compile(
    r"\b((?:(?:claude|gpt|gemini|mistral|llama|qwen|deepseek|grok|sonnet|opus|haiku|kimi|glm)[\w.:/-]*)"
    r"(?:[ -](?:sonnet|opus|haiku|pro|flash|mini|large|small|turbo)\b)?)",
    re.IGNORECASE,
)
_USUAL = re.compile(
    r"\b(?:usual|default|normal|üblich\w*|standard\w*|habituel\w*|par défaut|habitual|por defecto)\b|默认",
    re.IGNORECASE,
)
_EFFORTS = (  # the first that fits; less before more, since “less” says it alone
    (
        "low",
        r"\b(?:less|low|minimal|quick(?:er|ly)?(?! (?:one|question|ask|thing)\b)|faster|down|weniger|niedrig\w*"
        r"|schneller|moins|faible|menos|bajo|rápido"
        r"|so (?:long|hard|much)|without much|so lange|si longtemps|tanto)\b"
        r"|少想|少思考|那么久|快些|快点|低",
    ),
    ("medium", r"\b(?:medium|middle|mitt(?:el|ler)\w*|moyen\w*|medio)\b|中等"),
    (
        "high",
        r"\b(?:more|hard(?:er)?|high|max(?:imum|imal\w*)?|careful\w*|deep(?:er|ly)?|longer|mehr|gründlich\w*|hoch|höher"
        r"|at most|plus|davantage|élevé|más|alto|máximo)\b|多(?:想|思考)|更多|深入|调高|仔细|高",
    ),
)
_ABOUT_EFFORT = re.compile(
    r"\b(?:think(?:ing)?|thought|effort|reason\w*|denk\w*|nachdenken|aufwand|réfléchi\w*|effort|piensa\w*|pensar"
    r"|esfuerzo)\b"
    r"|想|思考|推理",
    re.IGNORECASE,
)
_VERIFIES = re.compile(
    r"\b(?:verif\w*|check|tamper\w*|intact|messed|whole|manipul\w*|prüf\w*|gedreht|heil|vérifi\w*|intègre|touché"
    r"|comprueb\w*|verific\w*|íntegr[oa]|tocó|alter\w*)\b|检查|完整|改过|篡改",
    re.IGNORECASE,
)
_CSV = re.compile(r"\bcsv\b|\bexport\w*|\bas (?:a )?file\b|\bdatei\b|\bfichier\b|\barchivo\b|导出", re.IGNORECASE)
_QUESTION = re.compile(
    r"^\W*(?:which|what|who|why|how|when|is|are|does|do|did|should|welche\w*|wer|was|warum|wie|ist|bist|quel\w*|qui"
    r"|pourquoi"
    r"|est-ce|es-tu|cuál|qué|quién|cómo|eres)\b",
    re.IGNORECASE,
)
# Who speaks of what somebody thinks, of what was, or of what may be, wants nothing done.
_SPOKEN_OF = re.compile(
    r"\b(?:i|we|they|he|she|let (?:me|us)|let['’]s)\s(?:\w+\s)?(?:think|thought|reason)\w*"
    r"|\b(?:not sure|maybe|perhaps|yesterday|some day|card (?:\w+ )?(?:shows|looks|has|is|was|did))\b"
    r"|\bich denke\b|\bgestern\b|\bje (?:pense|réfléchis)\b|\bpienso\b|\bayer\b|\bkarte (?:zeigt|ist|war)\b|昨天|也许",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"(?<![\w-])s-(?:[0-9a-z]{6}|[0-9a-z]{26})(?![\w-])"
    r"|https?://[\w.-]*(?:slack\.com/archives|discord(?:app)?\.com/channels)/[\w/]+",
    re.IGNORECASE,
)
_NO_WISH = frozenset({"not", "nope", "if", "later", "said", "maybe", "who", "why", "how", "what", "did"})
_ONCE = re.compile(
    r"\b(?:for )?(?:this|the next|that|one) (?:question|answer|message|reply|time|turn)\b|\bjust this once\b"
    r"|\bnur (?:diesmal|für diese)\b|\bjuste (?:cette fois|pour cette)\b|\bsolo (?:esta vez|por esta)\b"
    r"|只这一?次|就这一?次",
    re.IGNORECASE,
)
_FROM_NOW = "A choice holds in this thread from now on, until another one is made. Say `model <name>` or `effort high`."
_PREFER = "Say `model <name>` or `effort high`; `models` shows which language models there are."


def preference_arguments(words: str) -> dict[str, Any]:
    """Which language model is to answer, or how hard it is to think. Raises: BadRequest, where neither is named."""
    about_effort = _ABOUT_EFFORT.search(words)
    effort = next((level for level, pattern in _EFFORTS if re.search(pattern, words, re.IGNORECASE)), None)
    if spoken_of(words):
        raise BadRequest(_PREFER)
    if _ONCE.search(words) or names_a_moment(words):
        raise BadRequest(_FROM_NOW)
    if _USUAL.search(words):
        return {"effort" if about_effort else "model": "usual"}
    found = {"effort": effort} if about_effort and effort else {}
    if model := _MODEL.search(words):
        found |= {"model": model[1].replace(" ", "-").lower()}
    if found:
        return found
    raise BadRequest(_PREFER)


def other_conversation(words: str) -> str | None:
    """The address of the conversation that somebody wants to go on with."""
    found = _ADDRESS.search(words)
    said = set(concepts(masked(words)))
    return found.group() if found and "resume" in said and said.isdisjoint(_NO_WISH) else None


def spoken_of(words: str) -> bool:
    """Whether these words ask or tell something and are no wish."""
    return bool(_QUESTION.match(words) or _SPOKEN_OF.search(words))


def audit_arguments(words: str) -> dict[str, Any]:
    """Whether the audit log is to be verified, and whether it is wanted as a file."""
    found = {"verify_chain": bool(_VERIFIES.search(words)), "csv": bool(_CSV.search(words))}
    return {name: value for name, value in found.items() if value}
