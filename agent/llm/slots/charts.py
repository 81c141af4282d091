"""Reads everyday requests for charts: what is drawn, how, and beside which run. Text in, values out.

Called once it is decided that a chart is meant.
"""

import re
from collections.abc import Callable
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.slots.runs import runs_in
from agent.llm.slots.views import REPORTED, result_in, used_in

SMOOTH = r"(?<!label.)\b(?:un)?smooth(?:ed|er|ing|en)?\b"  # label smoothing is a setting of a training

_HELD = r"\b(?:with|to|against|vs\.?|versus|over)\s+(?:the\s+|my\s+|our\s+)?"  # one run against another

_LAST_TIME = re.compile(
    r"\b(?:last|past)\s+(?:(\d{1,5}(?:[.,]\d{1,3})?)\s*(minutes?|mins?|m|hours?|hrs?|h|days?|d)"
    r"|(half(?: an?)?\s+|an?\s+)?(minute|min|hour|h|day))(?![a-z])"
    r"(?:(\s+and\s+a\s+half\b)|\s*(?:and\s+)?(\d{1,3})\s*(?:minutes?|mins?|m)\b)?",
    re.IGNORECASE,
)
_MINUTES = {"m": 1, "h": 60, "d": 1440}
_MOST_MINUTES = 999_999  # about two years; a button holds no more than ten times that
_METRIC = re.compile(
    r"(?<![^\W\u3400-\u9fff])((?:(?:train(?:ing)?|val(?:id(?:ation)?)?|test)[ _/])?"
    r"(?:loss|accuracy|auc|f1|precision|recall|perplexity|error|rmse|mae)"
    r"|learning[ _]rate|lr|grad(?:ient)?[ _]norm|throughput)\b",
    re.IGNORECASE,
)
_BOTH = frozenset(
    {"loss", "accuracy", "auc", "f1", "precision", "recall", "error", "rmse", "mae"}
)  # of train and valid
_OF_BOTH = re.compile(
    r"\b(train)(?:ing)?\s*(?:and|&|\+|/|vs\.?|versus|und|et|y|,)\s*(val(?:id)?)(?:ation)?[ _/]"
    r"(loss|accuracy|auc|f1|error)\b",
    re.IGNORECASE,
)
_BOTH_PARTS = re.compile(  # “training and validation loss”, with one name for both
    r"\btrain(?:ings?|ing set)?-?\s*(?:and|&|\+|/|vs\.?|und|et|y)\s*val(?:id\w*)?\b|\bval(?:id\w*)?-?\s*(?:and|&"
    r"|\+|/|vs\.?|und|et"
    r"|y)\s*train(?:ing)?\b|\bentra[iî]nement et (?:de |la )*valid\w*|\bentrenamiento y (?:de |la )*valid\w*"
    r"|训练集?\s*(?:和|与|及|、|跟)\s*验证|验证集?\s*(?:和|与|及|、|跟)\s*训练",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    r"(?:\b(?:instead of|rather than|in place of|statt|anstelle von|au lieu d[eu’']|plutôt que|en (?:vez|lugar) del?"
    r"|(?<!why )not|without|drop|hide|remove)|而不是|代替|不要)\s*(?:(?:the|den|die|das|la|le|el|der)\s+)?",
    re.IGNORECASE,
)
_ONLY_THAT = re.compile(r"\b(?:only|just|nothing but|nur|uniquement|seulement|solo|solamente)\b|只", re.IGNORECASE)
_ADDED = re.compile(
    r"\b(?:add(?:ing)?|also|too|as well|plus|additionally|include|zusätzlich|dazu|hinzu\w*|auch|ajoute\w*|aussi|añad\w*"
    r"|agreg\w*|también)\b|再加|加上|加个|也",
    re.IGNORECASE,
)
_TAKEN_AWAY = re.compile(
    r"\b(?:remove|hide|drop|delete|without|get rid of|don['’]?t (?:show|draw)|stop (?:showing|drawing)|no longer"
    r"|entfern\w*|ohne|enl[eè]ve\w*|retire\w*|sans|quit[ae]\w*|sin)\b"
    r"|\b(?:take|leave|throw|kick|nimm|lass)\b[^.;]*\b(?:off|out|away|weg|raus|runter)\b|去掉|移除|删掉|不要",
    re.IGNORECASE,
)
_ALL_BUT = re.compile(
    r"\b(?:everything|all(?: \w+)?|anything|the (?:rest|others?)) (?:but|except|besides|other than)\b|\balles außer\b"
    r"|\btout sauf\b|\btodo (?:menos|excepto)\b|除了",
    re.IGNORECASE,
)
_OF_VALIDATION = re.compile(r"^(?!.*\btrain).*(?:\bvalid(?:ation|ierung|ación)\w*|验证)", re.IGNORECASE | re.DOTALL)
_COUNT = r"(\d{1,3}(?:,\d{3})+|\d{1,12}(?:\.\d{1,3}(?=k))?)(k)?(?![.,]?\d)"
_UNIT = r"(steps?|epochs?|rounds?|iterations?)"
_TO = r"\s*(?:-|–|to|and|until|till|through)\s*"
_LAST = re.compile(
    rf"\b(?:last|newest|past)\s+{_COUNT}(?:\s*{_UNIT}\b|(?=\W*$|\s*[,;]|\s+(?:of|with|on|and"
    rf"|for)\s+(?:an?\s+)?(?:it\b|r-|log|smooth)))",
    re.IGNORECASE,
)
_LAST_EPOCH = re.compile(r"\b(?:last|newest)\s+epochs?\b", re.IGNORECASE)
_BETWEEN = re.compile(rf"\b(?:from\s+|between\s+)?{_UNIT}\s+{_COUNT}{_TO}(?:{_UNIT}\s+)?{_COUNT}\b", re.IGNORECASE)
_FIRST = re.compile(
    r"(?:\b(after|past|beyond|without|except|but|not|skip(?:ping)?|ignor(?:e|ing)|exclud(?:e|ing)|omit(?:ting)?"
    rf"|drop(?:ping)?|leav(?:e|ing) out|cut(?:ting)?(?: off)?|trim(?:ming)?|remov(?:e|ing)|hid(?:e"
    rf"|ing))\s+(?:for\s+)?(?:the\s+|its\s+)?)?\bfirst\s+{_COUNT}\s*{_UNIT}\b",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(
    rf"\bfirst\s+{_COUNT}\s*{_UNIT}\s+(?:cut off|left out|dropped|skipped|removed|excluded|weg(?:lassen)?"
    rf"|ignored)\b",
    re.IGNORECASE,
)
_SINCE = re.compile(rf"\b(?:since|after|from)\s+{_UNIT}\s+{_COUNT}\b", re.IGNORECASE)
_UNTIL = re.compile(rf"\b(?:before|until|till|up to|to)\s+{_UNIT}\s+{_COUNT}\b", re.IGNORECASE)
_PART_LEFT = re.compile(
    r"\b(?:(?:since|after|before|between|from|until|till|up to)\s+(?:about\s+)?|(?:steps?|epochs?)\s+)\d"
    r"|\b(?:last|past|newest|first)\s+(?:about\s+)?\d[\w.,]*(?:\s+\d[\w.,]*)*\s*(?:and a half\s*)?"
    r"(?:%|percent\b|(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?|months?|steps?|epochs?)\b)",
    re.IGNORECASE,
)
_SWITCHES = {
    "log_scale": re.compile(
        r"\blog(?:arithmic)?[ -]scale\b|\(log\)|\b(?:in|make (?:it|that)|use) log\b|\blog (?:please|pls|instead)\b",
        re.IGNORECASE,
    ),
    "by_time": re.compile(
        r"\b(?:by|over|against|versus|vs\.?) (?:the )?(?:wall[- ]?clock(?: time)?|time|hours)\b"
        r"|\b(?:x|horizontal|time)[- ]?axis\b[^.;]{0,15}\b(?:hours|time|minutes)\b|\bx (?:in|as|=) (?:hours|time"
        r"|minutes)\b"
        r"|\b(?:hours|time|wall[- ]?clock(?: time)?|clock time) (?:(?:on|along) (?:the )?(?:x\b|horizontal)"
        r"|(?:at|along) the bottom)|\büber die zeit\b|\bselon le temps\b|\ben fonction du temps\b"
        r"|\b(?:por|según) (?:el )?tiempo\b|\bfrente al tiempo\b|按时间"
        r"|\bhours (?:en abscisse|en el eje x|auf (?:der|die) x-achse|als x-achse)\b|横轴[^，。]{0,3}时间",
        re.IGNORECASE,
    ),
    "by_epoch": re.compile(
        r"\b(?:by|over|per|against|versus) epochs?\b|\b(?:x|horizontal)[- ]?axis\b[^.;]{0,15}\bepochs?\b"
        r"|\bepochs? (?:on|along) (?:the )?x\b|\b(?:pro|je|par|por|nach) epochs?\b",
        re.IGNORECASE,
    ),
}
_SMOOTHED = re.compile(
    rf"(?:\b(not|without|no|less|off|raw|remove|drop|take|stop|disable)\W+(?:\w+\W+)?)?{SMOOTH}(\W+off\b)?"
    r"(?:[^\d.;]{0,40}?(0?\.\d{1,6})(?!\d))?",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    rf"(?:{_HELD}|\b(?:overlay|add|lay|leg\w*|superpose|superpon)\s+)(yesterday(?:['’]?s)?\b|(?:last|previous"
    rf"|earlier)\s+(?:run|one|training)\b)"
    r"|\b(?:put|lay|show|draw|have|see) (?:the )?((?:last|previous|earlier) (?:run|one|training)\b"
    r"(?=[^.;]*\b(?:behind|under(?:neath)?|beside|next to|as well|too)\b))"
    r"|\b((?:both|the two|beide[nr]?|les deux|(?:las|los) dos|amb[ao]s)\s+(?:\w+\s+)?"
    r"(?:runs|trainings|curves|of them|läufe|kurven|trainings|courbes|entraînements|curvas|entrenamientos)"
    r"|overlay (?:them|both|the two)(?! on)"
    r"|\b(?:of|for) both(?! \w*\s*(?:loss|metric|auc|acc))|\b(?:des deux|de (?:las|los) dos|(?:der|von"
    r"|für) beiden|of the two)"
    r"(?!\s+(?:m[ée]tri|loss|pert|verlust|pérdida))|两[次个条](?:训练|运行|任务|曲线))(?!\w)",
    re.IGNORECASE,
)
_BEFORE_ELSEWHERE = (
    ("yesterday", re.compile(r"\bgestrigen?\b|\bvon gestern\b|\bd['’]hier\b|\bde ayer\b|昨天", re.IGNORECASE)),
    (
        "previous",
        re.compile(
            r"\bvor(?:ig|herig)en?\b|\bprécédent\b|\b(?:el|la|al) anterior\b|(?:和|跟|与)上一?次", re.IGNORECASE
        ),
    ),
)
_EVERY = re.compile(
    r"\b(?:all|every|each)\s+(?:of\s+)?(?:the\s+|its\s+|my\s+)?(?:(?:little|small)\s+)?(?:metrics?|curves?|panels?"
    r"|charts?|plots?|values|graphs?)\b|\bsmall multiples\b"
    r"|\beverything (?:it|that|was) \w*log\w*|\b(?:draw|plot|chart|graph|show)\s+(?:me\s+)?(?:all|them all"
    r"|all of (?:it|them)|everything)"
    r"(?=\W*(?:$|please|on\b|in\b))",
    re.IGNORECASE,
)
_OF_CARD = re.compile(
    r"\bcard\s+(?:of|for)\s+(?:the\s+)?(?:run\s+)?(r-[0-9a-z]{6})\b|\b(r-[0-9a-z]{6})['’]?s\s+card\b"
    r"|\b(r-[0-9a-z]{6})\s+(?:on|en|sur|auf)\s+(?:its|su|sa|seiner|dessen)\s+(?:card|tarjeta|carte|karte)\b",
    re.IGNORECASE,
)
_BESIDE = re.compile(  # “show r-def456 beside r-abc123” is the card of the latter
    r"\br-[0-9a-z]{6}\s+(?:beside|next to|behind|on top of|over|neben|à côté de|junto a)\s+(?:the\s+)?"
    r"(r-[0-9a-z]{6})\b",
    re.IGNORECASE,
)
_RESET = re.compile(r"\breset\b|\bback to normal\b(?! scale)", re.IGNORECASE)
_PLAIN = {"log_scale": False, "smooth": 0.0, "newest": False, "every": False, "beside": ""}
_TAKEN_OFF = r"\b(?:take|remove|drop)\b[^.,;]*\brun\b[^.,;]*\b(?:off|from|away)\b"
_NOT_COMPARED = r"\b(?:no|not|stop)\b[^.,;]*\bcompar(?:ed?|ing|ison)\b"
# From its beginning, a request about a run's card: no question, no word of what it shows now, no column of cards.
CARD = (
    r"(?!\W*(?:what|which|how|when|where|who|is|are|was|were|does|did|has|have(?! the\b))\b)"
    r"(?!.*\b(?:(?:re-?)?train(?![ _](?:loss|accuracy|auc|f1|error)\b)|build|fit|predict\w*)\b)"
    r"(?!.*\b(?:why|columns?|datasets?|csv|table)\b)"
    r"(?!(?:.*[.,;:!]\s*|.*\b(?:but|because|since|as)\s+)?(?:the|its|this|that"
    r"|my)\s+(?:live\s+)?card\s+(?:\w+\s+)?shows\b)"
    r"(?=.*(?:(?:\b(?:the|its|this|that|live|run|run['’]s)|r-[0-9a-z]{6}['’]s)\s+card"
    r"|\bcard\s+(?:of|for)\s+r-[0-9a-z]{6})\b"
    r"(?!\s+(?:data|files?|numbers?|types?|holders?|owners?|transactions?|payments?|fraud|games?|limits?|usage)\b))"
    rf".*(?:\blog(?:arithmic)?[ -]scale\b|\blinear\b|{SMOOTH}|\bzoom|\bwhole run\b|\bmetrics?\b|\balone\b"
    r"|\b(?:draws?|shows?|put|only)\b.*(?:\b|_)(?:loss|accuracy|auc|f1|curves?|learning[ _]rate|everything)\b"
    r"|\b(?:over|against|beside|with|vs\.?)\b.*\b(?:r-[0-9a-z]{6}|(?:previous|last|yesterday['’]?s)\s+(?:run|one))\b"
    rf"|r-[0-9a-z]{{6}}\W+over\b|{_NOT_COMPARED}|{_TAKEN_OFF}|\breset\b|\bback to normal\b)"
)
_SAME_CHART = re.compile(
    r"\b(?:in|into|on) the same (?:plot|chart|graph|picture)\b|\b(?:on top of|over|beside|next to) it\b"
    r"|\b(?:overlay|superpose\w*|lay|leg\w*|put|pon)\b[^.;]*\br-"
    r"|\badd r-"
    r"|\bcompare (?:its|the|sa|la|su) (?:curves?|courbes?|curva)\b|\bins selbe bild\b|\bdans le même graphique\b"
    r"|\ben la misma gráfica\b|同一张图",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\b(?:over|on top|beside|next to|along|with|against|drüber|darüber|daneben|dazu|par-dessus|à côté|encima"
    r"|al lado)\b",
    re.IGNORECASE,
)
_CARD = (  # what a later line says counts
    (re.compile(r"\blinear\b|\bnormal scale\b|\b(?:not|no|without|un) ?log\b", re.IGNORECASE), "log_scale", False),
    (re.compile(r"(?<!not )(?<!no )(?<!without )(?<!un)\blog(?:arithmic)?\b", re.IGNORECASE), "log_scale", True),
    (re.compile(r"\bzoom(?:ed)?\b|\bnewest\b", re.IGNORECASE), "newest", True),
    (re.compile(r"\bwhole run\b|\bzoom(?:ed)? out\b", re.IGNORECASE), "newest", False),
    (_EVERY, "every", True),
    (re.compile(rf"\balone\b|{_NOT_COMPARED}|{_TAKEN_OFF}", re.IGNORECASE), "beside", ""),
)


_LAID_OVER = re.compile(  # “lay r-def456 over the loss of r-abc123” is a chart of the latter
    r"\b(?:over-?lay|lay|put|superimpose|lege?|superpos\w*|superpon\w*|pon)\b[^.;]*?(r-[0-9a-z]{6})[^.;]*?"
    r"\b(?:over|on|onto|on top of|über|auf|sur|sobre|encima de)\b[^.;]*?(r-[0-9a-z]{6})",
    re.IGNORECASE,
)


def chart_arguments(words: str) -> dict[str, Any]:
    """What is to be drawn: metrics, steps, scale, runs beside the first; or a picture of the result.

    Raises:
        BadRequest: the part of the run that is asked for cannot be read.
    """
    named_runs = runs_in(words)
    beside = len(named_runs) == 1 and _SAME_CHART.search(words)
    others = named_runs if beside else named_runs[1:]
    if result := result_in(words):
        return {"result": result}
    if (used := used_in(words)) and not others:
        return _used_in(words, used)
    found: dict[str, Any] = {}
    named = _metrics_in(words)
    if named:
        found["metrics"] = named
    found |= _part_in(words)
    found |= {key: True for key, pattern in _SWITCHES.items() if pattern.search(words)}
    if _EVERY.search(words) and not named:
        found["every"] = True
    if before := _before_in(words):
        found["before"] = before
    smooth = _smoothing_in(words)
    if smooth:
        found["smooth"] = smooth
    if others:
        found["others"] = others
    if beside:
        found["run"] = None  # the newest one of the thread
    elif laid := _LAID_OVER.search(words):
        found |= {"run": laid[2].lower(), "others": (laid[1].lower(),)}
    return found


def _part_in(words: str) -> dict[str, Any]:
    """Which steps, epochs or time of a run is meant; empty for all of it. Raises: BadRequest."""
    found: dict[str, Any] = {}
    for pattern, read in _PARTS:
        if part := pattern.search(words):
            found |= read(part)
            words = words[: part.start()] + words[part.end() :]
    if _PART_LEFT.search(words):
        raise BadRequest(
            "I cannot read which part of the run you mean. Say “the last 500 steps”, “steps 100 to 200”, “since step "
            "500”, “the last 2 hours” or “epochs 2 to 4”."
        )
    return found


def _last_in(part: re.Match[str]) -> dict[str, Any]:
    count, unit = _counted(*part.group(1, 2)), part.group(3) or "steps"
    return {"newest": count} if not unit.lower().startswith("epoch") else {"newest_epochs": float(count)}


def _between_in(part: re.Match[str]) -> dict[str, Any]:
    return _end("first", part.group(1), *part.group(2, 3)) | _end("last", part.group(1), *part.group(5, 6))


def _end(which: str, unit: str, digits: str, thousands: str | None) -> dict[str, Any]:
    """One end of a part: `first_step`, `last_epoch` and the like."""
    count = _counted(digits, thousands)
    return {f"{which}_step": count} if not unit.lower().startswith("epoch") else {f"{which}_epoch": float(count)}


def _counted(digits: str, thousands: str | None) -> int:
    return round(float(digits.replace(",", "")) * (1000 if thousands else 1))


def _time_in(part: re.Match[str]) -> dict[str, Any]:
    """The newest time that is asked for."""
    number, counted, half, single, and_half, minutes = part.groups()
    unit = _MINUTES[(counted or single)[0].lower()]
    asked = float((number or "1").replace(",", ".")) + (0.5 if and_half else 0)
    if half and half.lower().startswith("half"):
        asked -= 0.5
    return {"minutes": min(max(1, round(asked * unit) + int(minutes or 0)), _MOST_MINUTES)}


_PARTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], dict[str, Any]]], ...] = (
    (_BETWEEN, _between_in),
    (_CUT_OFF, lambda part: _end("first", *part.group(3, 1, 2))),
    (_FIRST, lambda part: _end("first" if part.group(1) else "last", part.group(4), *part.group(2, 3))),
    (_SINCE, lambda part: _end("first", *part.group(1, 2, 3))),
    (_UNTIL, lambda part: _end("last", *part.group(1, 2, 3))),
    (_LAST_TIME, _time_in),
    (_LAST, _last_in),
    (_LAST_EPOCH, lambda _part: {"newest_epochs": 1.0}),
)


def _used_in(words: str, used: str) -> dict[str, Any]:
    """A chart of what the run used, of all or of the newest time. Raises: BadRequest."""
    part = _part_in(words)
    if part.keys() - {"minutes"}:
        raise BadRequest("What a run uses is drawn by time. Say how much of it, such as “the last 2 hours”.")
    smooth = _smoothing_in(words)
    return {"used": used, **part} | ({"smooth": smooth} if smooth else {})


_CALLED = re.compile(  # a picture by the name that a script gave it
    r"\b(?:picture|image|plot|figure|chart|bild|grafik|image|figure|imagen|gráfico)\s+(?:called |named )?"
    r"[`“\"]?([a-z]+[_-]\w+)",
    re.IGNORECASE,
)


def results_arguments(words: str) -> dict[str, Any]:
    """Which picture is to be shown: one of what was measured, or one that the training logged."""
    if result := result_in(words):
        return {} if result == "overview" else {"picture": result}
    if called := _CALLED.search(words):
        return {"picture": called[1]}
    found = re.search(REPORTED, words, re.IGNORECASE)
    if found is None:
        return {}
    name = (found.group(1) or "pictures").lower()
    return {"reported": True} | (
        {} if name.startswith("picture") else {"picture": name.removesuffix("s").replace(" ", "-")}
    )


def card_arguments(words: str) -> dict[str, Any]:
    """How the live card of a run is to draw its curves; what is unsaid stays as it is.

    Has its own `run` where a sentence names two, that of the card and one to lay over.
    """
    found: dict[str, Any] = dict(_PLAIN) if _RESET.search(words) else {}
    found |= {key: value for pattern, key, value in _CARD if pattern.search(words)}
    smooth = _smoothing_in(words)
    if smooth is not None:
        found["smooth"] = smooth
    found |= _shown_in(words, whole=not found)
    runs = runs_in(words)
    if len(runs) > 1:
        of_card = _OF_CARD.search(words) or _BESIDE.search(words)
        run = next(filter(None, of_card.groups())).lower() if of_card else runs[0]
        found |= {"run": run, "beside": next(one for one in runs if one != run)}
    elif runs and _OVER.search(words):
        found["beside"] = runs[0]
    elif before := _before_in(words):
        found["before"] = before
    return found


def _shown_in(words: str, *, whole: bool) -> dict[str, Any]:
    """The metrics that a card is to show, alone, beside its others or no more; `whole`: nothing else is said."""
    named, all_named = _metrics_in(words), _metrics_in(_INSTEAD.sub("", words))
    is_alone = named in ((), all_named)  # and takes no other's place
    if whole and all_named and is_alone and _TAKEN_AWAY.search(words) and not _ALL_BUT.search(words):
        return {"metrics": all_named, "change": "remove"}
    if not named:
        return {}
    adds = is_alone and _ADDED.search(words) and not _ONLY_THAT.search(words)
    return {"metrics": named} | ({"change": "add"} if adds else {})


def _before_in(words: str) -> str | None:
    """Which earlier run is to be laid beside: yesterday's or the previous one."""
    if found := _BEFORE.search(words):
        return "yesterday" if (found.group(1) or "").lower().startswith("yesterday") else "previous"
    return next((which for which, pattern in _BEFORE_ELSEWHERE if pattern.search(words)), None)


def _metrics_in(words: str) -> tuple[str, ...]:
    """The metrics that are named, as trainings write them: train, valid, test."""
    words = _without_replaced(_OF_BOTH.sub(r"\1 \3, \2 \3", words))
    said = (re.sub(r"^(train|val)[a-z]*(?=[ _/])", r"\1", word.lower()) for word in _METRIC.findall(words))
    found = tuple(dict.fromkeys(re.sub(r"^val(?=[ _/])", "valid", word) for word in said))
    if len({name.split()[-1] for name in found}) == 1 and _BOTH_PARTS.search(words):
        name = found[0].split()[-1]
        return (f"train {name}", f"valid {name}") if name in _BOTH else found
    return (f"valid {found[0]}",) if len(found) == 1 and found[0] in _BOTH and _OF_VALIDATION.search(words) else found


def _without_replaced(words: str) -> str:
    """A request without the metric that another one is to take the place of."""
    for said in reversed(list(_INSTEAD.finditer(words))):
        if metric := _METRIC.match(words, said.end()):
            words = f"{words[: said.start()]} {words[metric.end() :]}"
    return words


def _smoothing_in(words: str) -> float | None:
    """The weight of a moving average that is asked for; 0 for none, None where nothing is said of it."""
    found = _SMOOTHED.search(words)
    if found is None:
        return None
    if found.group(1) or found.group(2) or "unsmooth" in found.group().lower():
        return 0.0
    return min(float(found.group(3)), 0.999) if found.group(3) else 0.9
