"""Reads where and how long something may run, and how soon: hours, GPUs, host, engine, priority. Knows no run."""

import re
from typing import Any

from agent.llm.slots.figures import NUMBER, PLAIN, figure

FILE_NAME = r"[\w.-]*\.(?:csv|tsv|parquet|jsonl?|xlsx?|txt|zip|gz|py)\b"
_DURATION = re.compile(
    rf"{NUMBER}\s*-?(?P<unit>hours?|hrs?|h|minutes?|mins?|(?<=\d)m(?=\s*(?:$|[,;]|\.(?!\d)))|m(?=\s+(?:max|tops"
    rf"|at most))"
    rf"|days?|weeks?)\b"
    r"|\b(?:max[ _])?(?P<named>hours|minutes)\s*(?:=|:|to)\s*"
    rf"{NUMBER.replace('?P<number>', '?P<later>')}",
    re.IGNORECASE,
)
_HOURS = {"m": 1 / 60, "h": 1, "d": 24, "w": 168}
# What stands before or behind a time that is no limit: a part of the past, a moment, a rhythm.
_NO_LIMIT = re.compile(
    r"\b(?:last|past|newest|previous|in|after|every|each|since|took|takes|taken|ran|first|hace|il y a|vor"
    r"|(?:more|longer) than)\s+(?:about\s+|for\s+|the\s+|only\s+)*$",
    re.IGNORECASE,
)
_NO_LIMIT_BEHIND = re.compile(
    r"\s*(?:ago|ahead|before|later|old|earlier|apart|of (?:data|history|sales)|into the future|intervals?|windows?"
    r"|frequency|resolution|voraus|à l'avance|前)(?!\w)",
    re.IGNORECASE,
)
_MOST = re.compile(
    r"\b(?:at (?:the )?most|max(?:imum)?(?: of)?|up to|within|(?:give|allow|grant)(?: it| this| that)?"
    r"|no (?:te )?pases? de|sin pasar de|no más de|pas plus de|nicht (?:mehr|länger) als|höchstens"
    r"|(?:no|not|never|\w+n['’]t)\b[^.,;]{0,25}(?:more|longer) than"
    r"|limit(?:ed)?(?: of| to| it to)?|cap(?:ped)?(?: it)?(?: at| to)?\s*:?|under|time ?out(?: of| after)?"
    r"|(?:stop|give up|quit|abort|end|cut (?:it )?off)(?: it| there)? after|(?:brich|hör|schluss"
    r"|stopp)\w*(?: \w+)? nach"
    r"|(?:abandonne|arrête)\w*(?: \w+)? après|(?:abandona|para|corta)\w*(?: \w+)? (?:tras|después de)|hours|minutes)"
    r"\s*[=:]?\s*$",
    re.IGNORECASE,
)
_MOST_BEHIND = re.compile(
    r"\s*(?:of \w+ (?:time )?)?(?:at (?:the )?most|max(?:imum|i)?|tops|limit|or less|is enough|are enough)\b",
    re.IGNORECASE,
)
SEARCHED = re.compile(
    r"\b(?:search\w*|(?<!fine-)(?<!fine )tun(?:e|ed|ing)|hyper-?parameters?)\b[^.;?!]{0,60}?\bfor (?:up to |at most )?"
    rf"{PLAIN}\s*(?:min(?:ute)?s?|(hours?))\b|\bminutes\s*[=:]\s*{PLAIN}"
    rf"|\b(?:hpo|(?<!fine-)(?<!fine )tun(?:e|en|ing))\b[^.,;?!]{{0,40}}?{PLAIN}\s*(?:min(?:ute)?s?"
    rf"|(hours?))\b(?! at most| max)",
    re.IGNORECASE,
)
_GPUS = re.compile(rf"{NUMBER}\s*gpus?\b|\bgpus?\s*(?:=|:|to)\s*{NUMBER.replace('number', 'later')}", re.IGNORECASE)
_NO_GPU = re.compile(
    r"\b(?:no|without(?: an?| any| the)?|ohne|sans|sin|keine|(?:not|\w+n['’]t) (?:need|use|want)(?: an?| any| the)?)"
    r"\s+gpus?\b"
    r"|\bgpus? (?:is |are )?not needed\b|\b(?:on|only) (?:the )?cpus?(?: only)?\b|\bcpus? (?:is|are) (?:fine"
    r"|ok(?:ay)?|enough|all right)\b|\bcpu will do\b|\bcpus?[ -]only\b"
    r"|\b(?:auf|sur|en|con|mit|nur)\s+(?:der |la |le )?cpus?\b|\bcpu (?:genügt|reicht|suffit|basta|alcanza)\b"
    r"|\bgpu\s+brauch\w*\b[^.,;]*\bkeine\b|\bbrauch\w*\b[^.,;]*\bkeine gpus?\b"
    r"|(?:不用|不需要|不要)\s*(?:gpu|显卡)|用\s*cpu|cpu\s*(?:就行|即可|够)",
    re.IGNORECASE,
)
_A_GPU = re.compile(r"\b(?:on|use|using|with|want|needs?) (?:an? |one )?gpu\b(?!\s*-?\d)", re.IGNORECASE)
_BOTH_GPUS = re.compile(r"\bboth gpus\b|\bbeide[n]? gpus\b|\bles deux gpus?\b|\blos dos gpus?\b", re.IGNORECASE)
MACHINE = r"(?:gpu|node|host|box|machine|server|worker)-?\d+"
_HOST = re.compile(
    rf"\bon\s+(?:(?:the\s+)?(?:host|box|machine|server|node)\s+)?[`\"]?(?!v\d+\b)(?!{FILE_NAME})(?=[\w.-]*\d)"
    r"([a-z][\w-]*(?:\.[\w-]+)*)(?![\w-])(?!\s*gpus?\b)(?!\s+of\b)|\bhost\s*=\s*([\w.-]*\w)"
    rf"|(?:\b(?:use|using|host|machine|at|to)\s*:?\s+|[,;]\s*(?:and\s+)?)({MACHINE})\b",
    re.IGNORECASE,
)
_ENGINE = re.compile(
    r"(?:\bengine\s*=|[,;]\s*engine)\s*[`\"]?([a-z][\w-]*)|\b(?:on|with|using|via) (?:the |our )?(?!the\b|our\b"
    r"|an?\b|this\b|that\b|same\b)([a-z][\w-]*) engine\b"
    r"|\b(?:on|with|using"
    r"|via)\s+(?:the\s+)?engine\s+[`\"]?(?!of\b|that\b|we\b"
    r"|from\b|as\b)([a-z][\w-]*)",
    re.IGNORECASE,
)
_PRIORITY = re.compile(
    r"\b(?:with|at|on)?\s*(high|normal|low) prio(?:rity)?\b|\bprio(?:rity)?\s*[=:]?\s*(high|normal|low)\b"
    r"|\b(?:bump|set|put|move|raise)(?: (?:it|this|that))? to (high|normal|low)\b",
    re.IGNORECASE,
)
_SOON = (  # the first that fits
    (
        "low",
        re.compile(
            r"\b(?:no (?:rush|hurry)|not (?:at all )?urgent|(?:can|may) wait|whenever there is (?:room|space)"
            r"|(?:behind|after) (?:all )?(?:the )?others|others (?:can go |go )?first)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "high",
        re.compile(
            r"\b(?:urgent(?:ly)?|in a hurry|top priority|jump the (?:line|queue)"
            r"|(?:before|ahead of) (?:all |everybody |everyone |everything )?(?:the )?(?:others?|else|rest))\b",
            re.IGNORECASE,
        ),
    ),
)
ONCE = re.compile(
    r"\b(?:no|without|don['’]?t|never) (?:automatic )?(?:re-?starts?|retr(?:y|ies|ying)|re-?runs?|restarting)\b"
    r"|\b(?:no|not|without|don['’]?t|never|disable|turn off)\b[^.,;]{0,20}\b(?:auto(?:matic(?:ally)?)?[ -]?(?:retr(?:y"
    r"|ies)|resum\w+"
    r"|restarts?)|(?:retry|resume|restart) (?:it )?(?:automatically|by itself|on its own))\b"
    r"|\b(?:no|not|without|don['’]?t|never)\b[^.,;]{0,20}\b(?:restart|retr[iy]|re-?run|try)\w*\b[^.,;]{0,15}"
    r"\b(?:if|when|after|once) (?:it|that|the run) (?:crash|fail|die|stop)\w*"
    r"|\bauto[_ -]?resume\s*(?:=|:|is)?\s*(?:off|false|no)\b"
    r"|\bnicht (?:automatisch|von selbst) (?:neu|noch mal|wieder|erneut)\b|\bne (?:le |la )?(?:relance"
    r"|réessaie)\w* pas\b"
    r"|\b(?:ohne|without|keine?n?)\s+automatische[nr]?\s+(?:neustarts?|neuversuche?|wiederholung\w*)\b"
    r"|\b(?:sans|without)\s+(?:reprise|relance|redémarrage|nouvel essai)s?\s+automatiques?\b"
    r"|\b(?:sin|without)\s+(?:reintentos?|reinicios?|reanudaci\w+)\s+automátic[oa]s?\b|(?:不要|不|别"
    r"|without\s*)自动(?:重试|重启|恢复)",
    re.IGNORECASE,
)
_NETWORKS = (  # what something may reach, by what people call it
    (
        "none",
        r"\b(?:no|without(?: any)?|kein(?:en?)?|pas d['e’]|block\w*|cut off(?: from)?) ?(?:the |an? |any |open )?"
        r"(?:network|internet|netz|réseau|red)\b|\b(?:off|away from) the (?:internet|network|web|net)\b"
        r"|\boffline\b|断网|(?:不要|不能|不|别)(?:联网|上网)",
    ),
    (
        "hub",
        r"\bhub (?:access|network)\b|\b(?:access to|reach|only|from|off|via) the (?:hugging ?face |hf )?hubs?\b"
        r"|\b(?:model|hugging ?face|hf)[ -]hub\b|\bneeds? (?:access to )?the hub\b",
    ),
    (
        "open",
        r"\bopen (?:network|internet)\b|\b(?:needs?|with|wants?|give it|has|requires?)\s+(?:an? |the )?(?:full |free )?"
        r"(?:internet|network)(?: access)?\b|\b(?:access to|reach) the (?:internet|network)\b|\b(?:internet"
        r"|network)(?: access)? (?:is )?(?:allowed|on|open|needed)\b"
        r"|\b(?:braucht|mit)\s+(?:freie[sn] |offene[sn] )?(?:internet|netz(?:zugriff|zugang)?)\b"
        r"|\b(?:needs?|must|lets?|allow\w*|braucht|muss|darf|nécessite|doit|besoin|necesita|requiere|debe)\b"
        r"[^.;,]{0,30}\b(?:internet|outbound|outside world|netzzugriff|netzzugang)\b"
        r"|\b(?:besoin d['’]|accès à |avec )(?:l['’])?internet\b|\baccès (?:à )?(?:l['’])?internet\b|\b(?:zugriff"
        r"|zugang) (?:aufs?|zum|auf das) (?:internet|netz)\b|\b(?:necesita|con|acceso a)\s+internet\b|(?:需要|要"
        r"|能)(?:联网|上网|访问外网|从外网)|网络全开|开放网络",
    ),
)


def reach_said(words: str) -> dict[str, Any]:
    """What a training or a program may reach over the network, and that it is not tried again by itself."""
    named = _first(re.compile(r"\bnetwork\s*(?:=|:|to)?\s*(none|hub|open)\b", re.IGNORECASE), words)
    network = named or next((name for name, way in _NETWORKS if re.search(way, words, re.IGNORECASE)), None)
    return ({"network": network.lower()} if network else {}) | ({"auto_resume": False} if ONCE.search(words) else {})


def place_said(words: str, *, ahead: bool = False) -> dict[str, Any]:
    """Hours, GPUs, host and engine that are named. `ahead`: a time without “at most” is how far to look ahead."""
    found = {
        "max_hours": _most_hours(SEARCHED.sub(" ", words), ahead=ahead),  # the minutes of a search are a setting
        "gpus": _gpus(words),
        "host": _first(_HOST, words),
        "engine": _first(_ENGINE, words),
    }
    return {name: value for name, value in found.items() if value is not None}


def soon_in(asked: str) -> str | None:
    """The priority with which something new is to wait for its place."""
    if found := _first(_PRIORITY, asked):
        return found.lower()
    return next((level for level, way in _SOON if way.search(asked)), None)


def _first(pattern: re.Pattern[str], words: str) -> str | None:
    found = pattern.search(words)
    return next(filter(None, found.groups())) if found else None


def without_limit(words: str) -> str:
    """A request without the times that something may take at most."""
    return _DURATION.sub(lambda said: " " if _is_most(said) else said.group(), words)


def _is_most(said: re.Match[str]) -> bool:
    """Whether a time is the most that something may take."""
    before, behind = said.string[: said.start()], said.string[said.end() :]
    return bool(said["named"] or _MOST.search(before) or _MOST_BEHIND.match(behind))


def _most_hours(words: str, *, ahead: bool) -> float | None:
    """How long something may run: the first time that is no moment and no part of the past."""
    for said in _DURATION.finditer(words):
        before, behind = words[: said.start()], words[said.end() :]
        if _is_most(said) or not (ahead or _NO_LIMIT.search(before) or _NO_LIMIT_BEHIND.match(behind)):
            each = _HOURS[(said["unit"] or said["named"])[0].lower()]
            return (
                figure(said["number"] or said["later"]) * each if each != 1 else figure(said["number"] or said["later"])
            )
    return None


def _gpus(words: str) -> float | int | None:
    if said := _GPUS.search(words):
        return figure(said["number"] or said["later"])
    if _NO_GPU.search(words):
        return 0
    return 2 if _BOTH_GPUS.search(words) else 1 if _A_GPU.search(words) else None
