"""Reads which lines of a log are wanted, and whether numbers are wanted as a file."""

import re
from typing import Any

from agent.llm.slots.numbers import count_in
from agent.llm.slots.runs import RUN_ID
from agent.llm.slots.views import used_in
from agent.tools.targets import QUOTE

_QUOTED = re.compile(rf"{QUOTE}|«\s*([^»\n]{{1,80}}?)\s*»")
_MOST_LINES = 200
_NO_TEXT = frozenset({"it", "me", "error", "errors", "warning", "warnings", "all", "anything", "something", "thing"})
_FOR = re.compile(
    r"\b(?:for|with|containing|contains?|about|mention(?:s|ing)?|mit|avec|contenant|con|que contengan)"
    r"\s+([\w.\-/:]*[\w/])(?=\W*$|\s*[,.;!]\s|\s+[-–]\s|\s+(?:please|pls)\b)|(?:包含|含有)\s*([\w.\-/:]+)",
    re.IGNORECASE,
)
_SEARCHED = re.compile(
    r"(?:\bsuch\w*\b[^.;?!]{0,20}?\bnach|\bcherche[rz]?|\bbusca\w*|\bgrep|搜(?:索|一下)?|[查找](?:找|一下)?"
    r"|日志里有)\s+([\w./:-]*[A-Za-z][\w./:-]*)"
    r"|\b(?:any|find|is there|are there|gibt es|hay|y a-t-il|il y a)\s+(?:an?y?\s+|un[ae]?\s+"
    r"|eine?n?\s+)?([\w./:-]*[A-Za-z][\w./:-]*)s?"
    r"\s+(?:(?:in|anywhere in|dans|im|en)\s+(?:the |its |le |les |el |los )?(?:logs?|output|there|registro"
    r"|journal)\b|drin\b)"
    r"|\bob (?:da |dort |irgendwo )+([\w./:-]+)\s+(?:steht|vorkommt|auftaucht)\b",
    re.IGNORECASE,
)
_CSV = re.compile(
    r"\bcsv\b|\bparquet\b|\bexcel\b|\bspreadsheet\b|\btableur\b|\bhoja de cálculo\b|\b(?:as|to|in) (?:a )?file\b"
    r"|\bfile (?:please|pls)\b"
    r"|\bals datei\b|\b(?:en|dans un|sous forme de) fichier\b|\b(?:en(?: un)?|como) (?:archivo|fichero)\b"
    r"|\bdownload\b|\bexport\w*|文件|导出",
    re.IGNORECASE,
)
_USAGE = re.compile(
    r"\b(?:what (?:it|the run) used|(?:cpu|gpu|memory|ram|resource) (?:use|usage|utili[sz]ation|load)|usage)\b"
    r"|\bauslastung\b|\butilisation (?:du|des|de)\b|\buso de (?:la |las )?(?:gpu|cpu|memoria|recursos)|(?:使用率|占用"
    r"|资源使用)",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"\b(?:whole|full|entire|complete|raw) (?:logs?|output)\b|\blogs? (?:file\b|in full\b)|\blog-?(?:file|datei)\b"
    r"|\bfichier (?:de )?logs?\b|\b(?:archivo|fichero) de (?:logs?|registro)\b|日志文件"
    r"|\b(?:ganze|komplette)[nrs]? log\b|\b(?:journal|log) (?:complet|entier)\b|\b(?:registro|log) (?:completo"
    r"|entero)\b"
    r"|(?:完整|全部)的?日志",
    re.IGNORECASE,
)
_OLDER = re.compile(
    r"\b(?:older|earlier|previous|further (?:back|up)|scroll up)\b|\b(?:page|lines) before\b(?! \w)|\bbefore that\b"
    r"|\b(?:ältere|frühere|vorige|vorherige)[nrs]?\b|\bdavor\b|\bweiter oben\b"
    r"|\b(?:précédente?s?|antérieure?s?)\b|\b(?:d['’]avant|plus haut|plus anciennes)\b"
    r"|\banterior(?:es)?\b|\b(?:de antes|más arriba|más antiguas)\b|上一页|往前|更早|之前",
    re.IGNORECASE,
)
_LEVEL = re.compile(r"\b(error|warning)s?\b", re.IGNORECASE)
_WARNINGS = re.compile(r"\bwarnungen\b|\bavertissements?\b|\b(?:avisos|advertencias?)\b|警告", re.IGNORECASE)
_ERRORS = re.compile(r"\bfehler(?:n|zeilen?|meldung\w*)?\b|\berreurs?\b|\berrores\b|错误|报错", re.IGNORECASE)
_GREP = re.compile(
    r"\b(?:grep|search|look|scan|filter)(?: (?:it|the logs?|logs?|the output))?(?: for)?\s+(?!for\b|the\b|its\b"
    r"|my\b|in\b"
    r"|at\b)([\w.\-]+)"
    r"(?=\s*(?:$|[,.?!]|(?:in|from|through)\b))",
    re.IGNORECASE,
)
_TAIL = re.compile(r"\b(?:tail|head)?\s*-n\s*(\d{1,4})\b|\btail\s+-?(\d{1,4})\b", re.IGNORECASE)


def log_arguments(asked: str) -> dict[str, Any]:
    """Which lines of a log are wanted: level, words, how many, older ones, or all as a file."""
    asked = _ERRORS.sub("errors", _WARNINGS.sub("warnings", asked))
    level, quoted = _LEVEL.search(asked), _QUOTED.search(asked)
    named = _FOR.search(asked) or _SEARCHED.search(asked)
    found: dict[str, Any] = {}
    named = named or _GREP.search(asked)
    search = (quoted.group(1) or quoted.group(2)) if quoted else next(filter(None, named.groups())) if named else ""
    if level and not quoted:
        found["level"] = level.group(1).lower()
    if search and not RUN_ID.fullmatch(search.lower()) and (quoted or search.lower() not in _NO_TEXT):
        found["search"] = search
    tail = _TAIL.search(asked)
    lines = int(tail.group(1) or tail.group(2)) if tail else count_in(asked)
    if lines is not None:
        found["lines"] = min(max(lines, 1), _MOST_LINES)
    if _WHOLE.search(asked) or wants_csv(asked):
        found["file"] = True
    if _OLDER.search(asked):
        found["older"] = True
    return found


def metric_arguments(asked: str) -> dict[str, Any]:
    """As which file the numbers of a run are wanted: its metrics, or what it used."""
    if not wants_csv(asked):
        return {}
    form = "parquet" if "parquet" in asked.lower() else "csv" if "csv" in asked.lower() else ""
    used = bool(_USAGE.search(asked) or used_in(asked) in {"gpu", "usage"})
    return ({"usage": True} if used else {}) | ({form or "csv": True} if form or not used else {})


def script_arguments(asked: str) -> dict[str, Any]:
    """Which version of a script is wanted, and from which line."""
    found = re.search(r"\bv(?:ersion)?\s*(\d{1,4})\b|第\s*(\d{1,4})\s*版", asked, re.IGNORECASE)
    version = {"version": int(found.group(1) or found.group(2))} if found else {}
    if not found and re.search(
        r"\b(?:first|original|oldest) (?:version|script|one|code)\b|第一版|最初版|初版", asked, re.IGNORECASE
    ):
        version = {"version": 1}
    line = re.search(r"\b(?:from|after|at) line (\d{1,5})\b", asked, re.IGNORECASE)
    return version | ({"first_line": int(line.group(1))} if line else {})


def wants_csv(asked: str) -> bool:
    """Whether numbers are wanted as a file."""
    return bool(_CSV.search(asked))
