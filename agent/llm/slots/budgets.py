"""Reads what may be spent: a budget's holder and amounts, and what may start without asking. Text in, values out."""

import re
from typing import Any

from agent.domain.errors import BadRequest

_AMOUNT = r"(\d[\d.,]*(?:\s?[km](?!\w))?)"
_USD = re.compile(
    rf"[$]\s?{_AMOUNT}|{_AMOUNT}\s*(?:[$]|(?:us[ -]?)?dollars?\b|d[oó]lares\b|usd\b|bucks\b|美元|美金)",
    re.IGNORECASE,
)
_GPU_HOURS = re.compile(
    rf"{_AMOUNT}\s*个?\s*(?:gpu[ -]*(?:hours?|h\b|stunden|小时)|hours?\s+(?:of |de )?(?:a )?gpu|gpu\s*小时)",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    rf"\btoken (?:budget|limit)s?\b\D{{1,12}}?{_AMOUNT}|\btokens?\s*[:=]\s*{_AMOUNT}|{_AMOUNT}\s*(?:(millions?"
    rf"|millionen"
    rf"|millones)(?: d['’e]?)?\s*)?(?:tokens?|jetons)\b",
    re.IGNORECASE,
)
_AMOUNTS = (("usd", _USD), ("gpu_hours", _GPU_HOURS), ("tokens", _TOKENS))
_NO_MORE = re.compile(
    r"\b(?:remove|take (?:[^.]* )?off|lift|no (?:more )?(?:\w+ )?(?:budget|limit)|kein(?:e[ns]?)? budget|plus de budget"
    r"|aufheben|entfern\w*|supprime|enl[eè]ve|quita|elimina)\b|取消|去掉",
    re.IGNORECASE,
)
_SCOPES = (  # whose budget, by what people call it; the first that fits
    (
        "person",
        r"\b(?:each|every|per) (?:person|member|user|colleague|employee|teammate|head|one of us)\b|\bevery(?:one"
        r"|body)\b|\bjede[rmn]?\b|\bpro (?:kopf|person)\b"
        r"|\bchacune?\b|\b(?:par|chaque) personne\b|\bcada (?:persona|un[oa])\b|\bpor persona\b|每人|每个人",
    ),
    ("thread", r"\bthread\b|\bconversation\b|\bfil\b|\bhilo\b|\bfaden\b|帖子|话题|对话|线程"),
    ("channel", r"\bchannel\b|\bkanal|\b(?:canal|salon)\b|频道"),
    (
        "everywhere",
        r"\b(?:overall|in total|whole team|everything|insgesamt|en tout|en total|tout le monde|alle zusammen"
        r"|todos juntos|entre todos)\b|总预算|全部|加起来|一共|整个团队",
    ),
)
_OTHER_SPAN = re.compile(  # a budget holds for each month, from now on
    r"\b(?:an?|per|each|every|pro|im|par|cada|al)\s+(?:year|quarter|week|day|hour|jahr|quartal|woche|tag|an|année"
    r"|semaine|jour|trimestre|año|semana|d[íi]a)\b|/\s?(?:year|week|day)\b|每[年周天季]"
    r"|\b(?:from|starting|as of|beginning|ab|à partir de|dès|desde) (?:next|tomorrow|january|february|march|april|may"
    r"|june|july|august|september|october|november|december|nächste\w*|morgen|demain|mañana|\w+ (?:on|onwards?))\b"
    r"|\b(?:until|till|bis|jusqu\w*|hasta)\b",
    re.IGNORECASE,
)
_A_MONTH = (
    "A budget holds for each month, from now on: say it for a month, such as `budget channel usd=50 gpu_hours=100`."
)
_ASKS_AGAIN = re.compile(
    r"\b(?:ask(?:ing)?|check(?:ing)? with) me (?:\w+ ){0,2}(?:before|again|first|about|each|every)\b|\basked again\b"
    r"|\basked (?:\w+ )?before\b|\b(?:approve|ok) (?:every|each)\b|\bmy ok for every\b|\bunasked\b.*\bany ?more\b"
    r"|\b(?:no more|stop) (?:starting|launching)\b|\bnichts mehr\b|\bwieder (?:jedes mal|vorher|nur mit)\b"
    r"|\bne (?:lance|démarre)\w* plus\b|\bdemander? avant\b|\bde nouveau à chaque\b|\bvalider chaque\b"
    r"|\bno (?:arranques|empieces|inicies|lances) nada\b|\baprobar cada\b|\bpreguntarme (?:otra vez|cada|antes"
    r"|de nuevo)\b"
    r"|\bpregúntame (?:otra vez|antes|cada)\b"
    r"|\bask(?:ing)? (?:\w+ ){0,2}again\b|\bask before\b|\balways ask\b|\bapprove each\b"
    r"|\bno more (?:starting|auto|approv)\w*|\bauto(?:[ -]?(?:mode|approv\w*))? off\b"
    r"|\b(?:turn|switch|take|stop|end)\b.*\b(?:off|back|approv\w*|auto\w*|permission)\b"
    r"|\bfrag\w*\b.*\b(?:wieder|vor jedem)\b|\bwieder\b.*\b(?:nach|rück)frag\w*|\bkeine automatisch\w*"
    r"|\bgefragt werden\b|\bschalte?\b.*\bfreigaben?\b.*\baus\b|\bd[eé]sactiv\w*"
    r"|\bredemande\b|\bme demande à chaque\b|\bplus d['’]approbation\w*"
    r"|\bpreguntes? (?:otra vez|antes)\b|\bvuelve a preguntar\w*|\bse acabaron\b"
    r"|\bredemande[rsz]?\b|\bsans mon (?:accord|ok)\b|\bohne meine? (?:okay|ok|freigabe|zustimmung)\b|\bautomatik aus\b"
    r"|\bsin mi (?:permiso|ok|aprobación)\b|自动批准[^，。]{0,2}关|先问一|每次都?要?先?问"
    r"|都要?问|先问我|要我批准|不要再自动|关闭自动|自己批准每次",
    re.IGNORECASE,
)
_SET = "An admin sets a budget: `budget channel usd=50 gpu_hours=100`, or for `thread`, `person` or `everywhere`."
_AUTO = "Say `auto usd=5` to let me start what costs up to $5.00 in all without asking, or `auto off`."


def budget_arguments(words: str) -> dict[str, Any]:
    """Whose budget is to be set, and to how much. Raises: BadRequest, unless both are named."""
    scope = next((scope for scope, pattern in _SCOPES if re.search(pattern, words, re.IGNORECASE)), None)
    amounts = {unit: said for unit, pattern in _AMOUNTS if (said := _amount(pattern, words))}
    if not amounts and _NO_MORE.search(words):
        amounts = {"usd": "none"}
    if scope is None or not amounts:
        raise BadRequest(_SET)
    if _OTHER_SPAN.search(words):
        raise BadRequest(_A_MONTH)
    return {"scope": scope, **amounts}


def allowance_arguments(words: str) -> dict[str, Any]:
    """What may start without asking, in dollars, or that nothing may. Raises: BadRequest, unless one is said."""
    usd, off = _amount(_USD, words), _ASKS_AGAIN.search(words)
    if bool(usd) == bool(off):
        raise BadRequest(_AUTO)
    return {"off": True} if off else {"usd": float(usd)}


def _amount(pattern: re.Pattern[str], words: str) -> str:
    """An amount as a command takes it: 200, 1000, 2M. Empty where none is named."""
    found = pattern.search(words)
    if found is None:
        return ""
    number = next(filter(None, found.groups())).replace(" ", "").rstrip(".,")
    number = re.sub(r"[.,](?=\d{3}(?!\d))", "", number).replace(",", ".")
    return f"{number}M" if pattern is _TOKENS and re.search("mill", found.group(), re.IGNORECASE) else number
