"""Reads plain requests for what is otherwise a command: the conversation, budgets, what starts unasked, the model.

Each is done at once, so only a whole request that says nothing else counts.
"""

import re
from typing import Any

from agent.llm.slots.actions import ASKED

_TALK = (
    r"(?:conversation|chat|thread|talk|history|gespr[äa]ch|unterhaltung|verlauf|discussion|fil|conversaci[óo]n"
    r"|hilo|charla|对话|会话|聊天)"
)
_TURN = r"(?:turn|step|message|request|answer|reply|schritt|nachricht|tour|message|demande|turno|mensaje|paso)"
_MY = (
    r"(?:(?:the|my|your|our|that|this|whole|entire|full|last|latest|previous|der|die|das|den|mein\w*|dein\w*"
    r"|letzten?|le|la|les|l['’]|mon|ma|ton|ta|cette?|dernier|dernière|el|esta?|mi|tu|último|última)\s*)*"
)
_WAYS = {
    "undo_turn": (
        rf"{ASKED}(?:undo|scratch|take back|revert|forget|unsay)\s+{_MY}{_TURN}\b"
        rf"|{ASKED}(?:mach|nimm)\s+{_MY}{_TURN}\s+(?:r[üu]ckg[äa]ngig|zur[üu]ck)\b"
        rf"|{ASKED}(?:annule[rz]?|oublie[rz]?|efface[rz]?)\s+{_MY}{_TURN}\b"
        rf"|{ASKED}(?:deshaz|deshacer|borra|olvida|anula)\s+{_MY}{_TURN}\b"
        r"|^(?:请)?(?:撤销|撤回|收回)(?:我|你)?(?:的)?(?:上|最后|刚才)?(?:的)?(?:一)?(?:条|步|次|轮|句)(?:消息|话|操作|对话)?",
    ),
    "compact_session": (
        rf"{ASKED}(?:compact|condense|compress|summari[sz]e)\s+{_MY}{_TALK}\b",
        rf"\b{_TALK}\b[^?]*\b(?:boil|sum) (?:it|this) (?:down|up)\b",
        rf"{ASKED}(?:fass\w*|verdicht\w*)\s+{_MY}{_TALK}(?:\s+\w+)?\s*(?:zusammen)?\W*$",
        rf"{ASKED}(?:r[ée]sume[rz]?|condense[rz]?|compacta)\s+(?:la|le|l['’]|cette|ce|notre|el|esta|este)\s*{_TALK}\b",
        r"^(?:请)?(?:总结|压缩|概括)(?:一下)?(?:这个|这段|我们的)?(?:对话|会话|聊天)",
    ),
    "new_session": (
        r"\b(?:forget|ignore) (?:what|everything|all) (?:that )?(?:we|i)[^.,;!?]*\b(?:said|talked|discussed|spoke)\b",
        rf"{ASKED}(?:(?:start|begin|open)\s+)?(?:(?:a|an|our|the)\s+)?(?:fresh|new)\s+(?:{_TALK}|session|topic)\b",
        rf"{ASKED}(?:start|begin)\s+{_MY}{_TALK}\s+(?:over|fresh|anew|again)\b",
        rf"\bneues thema\b|{ASKED}(?:fang|starte?|beginne?)\w*\s+{_MY}(?:neues?\s+)?{_TALK}\b",
        r"\bnouveau sujet\b|\bnouvelle conversation\b|\bnuevo tema\b|\bnueva conversaci[óo]n\b",
        r"^(?:换个|新)话题|^(?:我们)?重新开始(?:一个)?(?:新)?(?:的)?(?:对话|会话|聊天)|忘掉(?:之前|刚才)的(?:对话|话)",
    ),
    "export_session": (
        rf"{ASKED}(?:export|download|save|send me|give me|dump)\s+{_MY}(?:transcript|{_TALK})\b",
        rf"{ASKED}(?:exportier\w*|speicher\w*)\s+(?:mir\s+)?{_MY}{_TALK}\b",
        rf"{ASKED}(?:exporte\w*(?:-moi)?|exp[óo]rta(?:me)?|exportar|descarga|enregistre[rz]?)\s+{_MY}{_TALK}",
        r"^(?:请)?(?:导出|保存|下载)(?:一下)?(?:这个|这段|整个|我们的)?(?:对话|会话|聊天)",
    ),
}
_PATTERNS = tuple(
    (tool, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for tool, ways in _WAYS.items() for pattern in ways
)
_AMOUNT = r"(\d[\d.,]*\s*[km]?)"
_MONEY = re.compile(
    rf"[$€]\s*{_AMOUNT}|{_AMOUNT}\s*(?:\$|usd\b|dollars?\b|bucks\b|d[óo]lares\b|美元|刀)", re.IGNORECASE
)
_GPU_HOURS = re.compile(
    rf"{_AMOUNT}\s*gpu[- ]?(?:hours|stunden|heures|horas|小时)|{_AMOUNT}\s*(?:hours) (?:de |of |auf )?gpus?",
    re.IGNORECASE,
)
_TOKENS = re.compile(rf"{_AMOUNT}\s*(?:million\s+)?tokens?\b", re.IGNORECASE)
_BUDGET = re.compile(
    rf"{ASKED}(?:set|put|make|change|raise|lower|limit|cap|give|fix|setze?|gib|leg\w*|fixe[rz]?|mets?|met|pon|fija"
    rf"|establece|define)\b"
    r"[^?]*\b(?:budget|spending|presupuesto)\b|^(?:请)?(?:把|给|设置|设定)[^？?]*预算",
    re.IGNORECASE,
)
_SCOPES = (
    ("channel", r"\b(?:channel|kanal|canal)\w*\b|频道"),
    ("thread", r"\b(?:thread|conversation|hilo|fil|faden)\b|线程|会话|对话"),
    (
        "person",
        r"\b(?:each|every) (?:person|user|member)\b|\bper (?:person|user|head)\b|\b(?:pro|je) (?:person|kopf)\b"
        r"|\bpar personne\b|\bpor persona\b|\bjeden?\b|每个?人",
    ),
    ("everywhere", r"\b(?:everywhere|workspace|everybody|everyone|whole team|überall|alle)\b|所有人"),
)
_UNASKED = re.compile(
    r"\b(?:without|with no|not|don['’]?t|no need to)\b[^.?!]*\bask\w*\b|\bohne (?:zu fragen|r[üu]ckfrage"
    r"|nachzufragen)\b"
    r"|\bsans (?:me )?demander\b|\bsin (?:preguntar\w*|consultar\w*)\b|(?:不用|无需|不必)(?:再)?(?:问|询问|确认)",
    re.IGNORECASE,
)
_SPENDS = re.compile(r"\b(?:spend|use|start|cost\w*|ausgeben|d[ée]pense\w*|gast\w+)\b|花", re.IGNORECASE)
_ASK_AGAIN = re.compile(
    rf"{ASKED}ask (?:me|us) (?:again\s+)?(?:before|about|for) (?:every|all|any|each)\w*(?: again)?\W*$"
    r"|\bfrag(?:e|t)? (?:mich|uns) wieder (?:vor|bei|immer)|\bredemande-moi\b|\bpreg[úu]ntame (?:siempre"
    r"|otra vez)\b|每次都(?:要)?(?:先)?问我",
    re.IGNORECASE,
)
_EFFORT = (
    (
        "high",
        rf"{ASKED}(?:think|reason) (?:harder|longer|deeper|more)\b(?!\s+(?:epochs|rounds|data|like))"
        r"|^\W*denk\w* (?:bitte )?(?:gr[üu]ndlicher|l[äa]nger|mehr)\b|^\W*r[ée]fl[ée]chis (?:plus|davantage|mieux)\b"
        r"|^\W*piensa (?:m[áa]s|mejor)\b|^(?:请)?(?:多|深入|认真)(?:地|点)?(?:想|思考)",
    ),
    (
        "low",
        rf"{ASKED}(?:think|reason) (?:less|faster|quicker)\b|^\W*denk\w* (?:bitte )?(?:weniger|k[üu]rzer)\b"
        r"|^\W*r[ée]fl[ée]chis moins\b|^\W*piensa menos\b|^(?:请)?(?:少|快)(?:点)?(?:想|思考)",
    ),
)
_QUESTION = re.compile(r"[?？]\s*$")
_POLITE = re.compile(r"^\W*(?:(?:can|could|would|will) you|kannst du|k[öo]nntest du|peux-tu|puedes)\b", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|never|don['’]?t|nicht|kein\w*|ne|pas|nunca|if|when|wenn|si|later|tomorrow|why|who|did|should)\b|不要|别|如果",
    re.IGNORECASE,
)


def command_in(asked: str) -> tuple[str, dict[str, Any]] | None:
    """The tool behind a command that a request plainly asks for, and its arguments; None where it asks for none."""
    if allowed := _allowance(asked):
        return "set_allowance", allowed
    if _NOT.search(asked) or (_QUESTION.search(asked) and not _POLITE.search(asked)):
        return None
    if _BUDGET.search(asked):
        return "set_budget", _budget(asked)
    if effort := next((name for name, pattern in _EFFORT if re.search(pattern, asked, re.IGNORECASE)), None):
        return "prefer_model", {"effort": effort}
    return next(((tool, {}) for tool, pattern in _PATTERNS if pattern.search(asked)), None)


def _allowance(asked: str) -> dict[str, Any]:
    """What may be spent unasked, or that everything is to be asked about again."""
    if _ASK_AGAIN.search(asked):
        return {"off": True}
    if (money := _MONEY.search(asked)) and _UNASKED.search(asked) and _SPENDS.search(asked) and "?" not in asked:
        return {"usd": float(_first(money))}
    return {}


def _budget(asked: str) -> dict[str, Any]:
    """Whose budget, and how much of what; empty where either is not said."""
    scope = [name for name, pattern in _SCOPES if re.search(pattern, asked, re.IGNORECASE)]
    hours = _GPU_HOURS.search(asked)
    amounts = {"usd": _MONEY.search(asked), "gpu_hours": hours, "tokens": _TOKENS.search(asked)}
    found = {name: _first(said) for name, said in amounts.items() if said}
    return {"scope": scope[0], **found} if len(scope) == 1 and found else {}


def _first(said: re.Match[str]) -> str:
    return str(next(filter(None, said.groups()))).strip().rstrip(".,").replace(",", "")
