"""Reads the settings, numbers and place of a training, as far as a person stated them. Knows no run."""

import re
from collections.abc import Sequence
from typing import Any

from agent.llm.slots.actions import ASKED
from agent.tools.targets import QUOTE, mentions

# With a file of pairs it is what is to be learned, without one what a model is to do.
WRITING = re.compile(
    rf"{ASKED}(?:translate|summari[sz]e|write (?:\w+ )?summar(?:y|ies))\b"
    r"(?! (?:of )?(?:(?:the|this|my|our|that|these|those|all) )?(?:runs?|training|experiments?|results?|thread"
    r"|conversation|chat|discussion"
    r"|logs?|r-)\b)",
    re.IGNORECASE,
)
_ONE_TEXT = re.compile(
    r"[“\"](.+)[”\"]|(?<!\w)['‘](\S+\s.+)['’](?!\w)"  # names stand in single ones, too, and have one word
    r"|^(?:\w+ ){0,2}(?:predict|classify|score|label|check) (?:(?:it|this|that|these|the|one|on|with|for"
    r"|following|text|sentence|review|message|comment)\b ?){1,4}:\s*(\w+\s.+)",
    re.DOTALL | re.IGNORECASE,
)
_BALANCED = re.compile(
    r"\bclass[ -]weights?\b|\b(?:up|over)-?weight\w*|\bequally important\b|\bas important as the\b"
    r"|\bweigh(?:t|ts)?\b[^.;,]{0,30}\b(?:up|balanced)\b|\(balanced\)|\bbalance (?:them|it|the rare)\b"
    r"|\bbalanced? (?:the |those )?(?:class(?:es)?|weights?|labels?)\b|\bclass(?:es)? (?:balanced|weighted)\b"
    r"|\b(?:klassen|kategorien) (?:ausgleichen|gewichten|ausbalancieren)\b|\b(?:gleiche|gewichte) (?:die )?klassen\b"
    r"|\b(?:équilibr|pond[éè]r)\w+ les classes\b|\b(?:equilibra|pondera|balancea)r? las clases\b|(?:平衡|加权)类别"
    r"|类别(?:平衡|加权)"
    r"|\b(?:re)?weigh(?:t|ted|ting)? (?:the )?classes\b|\bclass[_ ]weights?\s*[=:]?\s*balanced\b"
    r"|\bklassen\w*\s+(?:\w+\s+)?(?:gewicht\w*|ausgleich\w*|balanc\w*)|\bgewichtete[nr]? klassen\b"
    r"|\b(?:équilibr\w+|pondér\w+)\s+(?:les\s+)?classes\b|\bclasses (?:équilibr|pondér)\w*"
    r"|\b(?:balance\w*|equilibr\w*|pondera\w*)\s+(?:las\s+)?clases\b|\bclases (?:balancead|equilibrad|ponderad)\w*"
    r"|(?:类别|样本)\s*(?:均衡|平衡|加权)|(?:均衡|平衡|加权)\s*(?:类别|样本)",
    re.IGNORECASE,
)
_TEST = r"(?:test(?:ing)?(?: set| part| data| split)?|hold-?out|held[ -]out)"
_SHARE = r"(\d{1,2}(?:\.\d+)?\s*(?:%|percent\b|per cent\b)|0?\.\d{1,3}\b)"
_TEST_SHARE = re.compile(
    rf"(?:\b(?:{_TEST}|test[ _](?:frac(?:tion)?|share|size)|hold(?:ing)? (?:out|back)|keep(?:ing)? (?:back|aside)"
    rf"|set(?:ting)? aside|reserv(?:e|ing))\s*(?:on|of|is|=|:|,|to be|with|should be)?\s*(?:a |the )?(?:last )?{_SHARE}"
    rf"|\b(?:hold|keep|put|set|leave)\s+{_SHARE}[^.;,]{{0,30}}?\b(?:out|back|aside|{_TEST})\b"
    rf"|{_SHARE}(?:\s+of\s+(?:it|them|(?:the\s+)?(?:rows|data|lines|examples|samples)))?"
    rf"\s+(?:(?:for|as|in|into|to)\s+)?(?:the\s+|a\s+|my\s+)?{_TEST}\b)"
    rf"|\b(\d{{2}})\s*(?:[/:-]\s*(\d{{2}})\s+split\b|/\s*(\d{{2}})(?![\d/]))",
    re.IGNORECASE,
)
_PARTS = (
    (0.5, "half|hälfte|moitié|mitad|一半"),
    (1 / 3, "third|drittel|tiers|tercio|三分之一"),
    (0.25, "quarter|viertel|quart|cuarto|四分之一"),
    (0.2, "fifth|fünftel|cinquième|quinto|五分之一"),
    (0.1, "tenth|zehntel|dixième|décimo|十分之一"),
)
_PART = rf"({'|'.join(words for _, words in _PARTS)})"
_TEST_PART = re.compile(
    rf"\b(?:test|check|evaluate|validate|prüf\w*|teste\w*)\s+(?:it |them )?(?:on|with|mit|auf|sur|con)"
    rf" (?:(?:the|an?|other|another|second|remaining|last) )*{_PART}\b"
    rf"|{_PART}(?:\s+(?:of|the|it|them|der|des|de|daten|rows|data|lines|zeilen|las?|les))*\s+"
    r"(?:(?:for|as|als|für|zum|zur|pour|para|como|comme)\s+)(?:(?:the|an?|den|die|le|la|el)\s+)?"
    r"(?:\w+ )?(?:test|prueba|prüf)\w*"
    rf"|\b(?:hold|keep|put|set|leave)\w*\s+(?:(?:out|back|aside|an?|one|the|last)\s+)*{_PART}\b[^.;,]{{0,30}}?"
    r"\b(?:out|back|aside|for (?:the )?test\w*)\b"
    rf"|{_PART}[^，。]{{0,6}}?(?:用来|用作|作为?|做|当)[^，。]{{0,3}}测试",
    re.IGNORECASE,
)
_SPLIT_BY = re.compile(
    r"\bsplit(?:ting)?\s+(?:(?:it|them|this|(?:the )?(?:data|rows|table|file|set))\s+)?(?:by|on|per|along|at)\s+"
    rf"(?:the\s+)?(?:column\s+)?(?:{QUOTE}|(\w+))"
    r"|\b(?:separ\w+|divid\w+|trenn\w*|aufteil\w*|sépar\w+|découp\w+|coup\w+)\b[^.;,]{0,30}?\b(?:nach|por|par|selon|según)\s+"
    rf"(?:(?:der|die|dem|la|le|el)\s+)?(?:spalte\s+|colonne\s+|columna\s+)?(?:{QUOTE}|(\w+))"
    r"|按\s*`?(\w+?)`?\s*(?:列\s*)?(?:切分|划分|拆分|分割)"
    r"|\bsplit\b[^.;]{0,40}\b(random|shuffl)\w*|\b(random|shuffl)\w*[^.;,]{0,20}\bsplit"
    r"|\b(chronological|time)(?:ly|[ -]based)?[ -]split|\bsplit\s+(?:\w+\s+){0,2}(chronological)ly\b",
    re.IGNORECASE,
)
# The rows of one thing stay on one side.
_TOGETHER = (
    r"\b(?:same|no|each|every|any|all|a single|one)\s+(?:\w+\s+){{0,3}}?[`\"“]?{0}[`\"”]?\b[^.;]{{0,40}}?\b"
    r"(?:in both|both (?:sides|parts|halves|sets)"
    r"|on (?:one|the same) side|together|either (?:train|in)|overlap"
    r"|in (?:train|the training)[^.;]{{0,12}} and (?:in )?(?:the )?test)"
    r"|\bgroup(?:ed)?\b[^.;,]{{0,20}}?\bby\s+[`\"“]?{0}|\bgo(?:ing)? by\s+[`\"“]?{0}\b"
    r"|\b(?:keep|put|hold)\b[^.;]{{0,30}}\b{0}[^.;]{{0,20}}\btogether\b"
)
_AS_TEXT = (
    r"\b(?:use|read|from|with|take) (?:just |only )?(?:the )?{0}(?: line| column| text| field)? (?:only|alone)\b"
    r"|\b(?:only|just) (?:the )?{0}(?: line| column| text| field)?\b"
    r"|\b(?:train\w*|lern\w*|learn\w*|fit) (?:(?:it|das|es|bitte|please|the model|a model|ein modell) )*(?:on|auf)"
    r" (?:the |den |dem |die )?{0}\b"
    r"|\b(?:only|just|nur|uniquement|seulement|solo) (?:to )?(?:read|use|take|look at|learn from|lies|nimm|lis|lee|usa)"
    r" (?:(?:the|den|die|das|le|la|el) )?{0}\b|"
    r"\btext(?:s| column)?\s*(?:(?:is|are|stands?|lies?) in|is|are|=|:|from|in)\s*(?:the )?(?:column )?[`\"“]?{0}\b"
    r"|\b(?:from|use|using|read|reads?|only)\s+(?:the )?{0} texts?\b"
    r"|\bfrom (?:just |only )?(?:the )?{0}\b(?! (?:to|and)\b)"
    r"|\b{0}[`\"”]?\s*(?:column )?(?:(?:is|has|holds|contains|as)\s+(?:the\s+)?)texts?\b(?! (?:length|classif))"
    r"|\btext(?:spalte)? (?:ist|steht in|aus)\s+{0}\b|\b{0} als text\b"
    r"|\btexte? (?:est )?(?:dans |de )?(?:la colonne )?{0}\b"
    r"|\b{0} comme texte\b|\b(?:el )?texto (?:es|está en|de) (?:la columna )?{0}\b|\b{0} como texto\b"
    r"|文本(?:列)?(?:是|用)?\s*{0}|{0}\s*(?:作为|当作?|是)文本"
)
# The newest rows are for the test.
_TESTED = re.compile(r"\b(?:test|check|validat|evaluat|hold|held|split|prüf|teste|prueb)\w*\b|验证|测试", re.IGNORECASE)
_OF_TIME = frozenset({"time", "date", "dates", "chronological"})
_CLUSTERS = re.compile(
    r"\b(\d{1,4})\s+(?:clusters|groups|segments)\b|\bk\s*(?:=|:|of|is)?\s*(\d{1,4})\b", re.IGNORECASE
)
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNTS = {word: count for count, word in enumerate(_WORDS, start=2)}
_MOST_CLUSTERS = re.compile(
    rf"\b(?:at most|no more than|up to|max(?:imum)?) (\d{{1,3}}|{'|'.join(_COUNTS)})\b(?=\W*(?:$|[,.;]"
    rf"|(?:clusters|groups|segments)))"
    rf"|\b(\d{{1,3}}|{'|'.join(_COUNTS)}) (?:(?:clusters|groups|segments) )?(?:at most|max|tops|or (?:fewer|less))\b",
    re.IGNORECASE,
)
_METHOD = re.compile(r"\b(k-?means|gmm|gaussian mixtures?|ward|hdbscan)\b", re.IGNORECASE)
_METHODS = {"km": "kmeans", "k-": "kmeans", "gm": "gmm", "ga": "gmm", "wa": "ward", "hd": "hdbscan"}
_KNOWN_GROUPS = re.compile(
    r"\b(?:labels?(?: column)?(?:\s*[=:]\s*| (?:are in|is in|in|are|is) )"
    r"|(?:compared? (?:it |them )?(?:with|to)|against) )"
    rf"(?:the )?(?:column )?(?:{QUOTE}|(\w+))",
    re.IGNORECASE,
)


def weights_in(asked: str) -> dict[str, str]:
    """Whether rare classes are to count as much as frequent ones."""
    return {"class_weight": "balanced"} if _BALANCED.search(asked) else {}


def held_out_in(asked: str) -> float | None:
    """The share of the rows that is kept for the test: "hold out 30 %", "an 80/20 split"."""
    if part := _TEST_PART.search(asked):
        said = next(filter(None, part.groups())).lower()
        return next(share for share, words in _PARTS if re.fullmatch(words, said))
    found = _TEST_SHARE.search(asked)
    if found is None:
        return None
    *shares, train, test, rest = found.groups()
    if test := test or rest:
        return int(test) / 100 if int(train) + int(test) == 100 else None
    said = next(filter(None, shares))
    number = re.match(r"[\d.]+", said)
    value = float(number.group()) if number else 0.0
    return value / 100 if said[-1:] in "%t" else value


def split_in(asked: str, dates: Sequence[str] = (), names: Sequence[str] = ()) -> str | None:
    """How the rows are to be split: a column, or `random`. “By time” is by the first of the columns with `dates`.

    The rows of one of the columns `names` may also be kept on one side.
    """
    found = _SPLIT_BY.search(asked)
    if found is None and _TESTED.search(asked) and (named := [name for name in dates if mentions(name, asked)]):
        return named[0]
    if found is None:
        spelled = {name: re.escape(re.sub("_id$", "", name)).replace("_", r"[\s_-]+") + "(?:_id|s)?" for name in names}
        ways = {name: _TOGETHER.format(way) for name, way in spelled.items()}
        return next((name for name, way in ways.items() if re.search(way, asked, re.IGNORECASE)), None)
    said = next(filter(None, found.groups()))
    if said.lower() in _OF_TIME and dates:
        return dates[0]
    whole = next((name for name in names if re.sub("_id$", "", name).lower() == said.lower().removesuffix("s")), said)
    return "random" if said.lower() in {"random", "shuffl"} else whole


def text_column_in(asked: str, names: Sequence[str]) -> str | None:
    """The one of the columns with texts that is said to have the text to read."""
    return next((name for name in names if re.search(_AS_TEXT.format(re.escape(name)), asked, re.IGNORECASE)), None)


def text_in(asked: str) -> str | None:
    """A text in quotation marks that a model is to answer for."""
    found = _ONE_TEXT.search(asked)
    return next(filter(None, found.groups()), "").strip() or None if found else None


def clusters_in(asked: str) -> dict[str, Any]:
    """The settings of a clustering that a person stated: how many, by which method, what to compare them with."""
    count, method, labels = _CLUSTERS.search(asked), _METHOD.search(asked), _KNOWN_GROUPS.search(asked)
    found: dict[str, Any] = {"k": int(count.group(1) or count.group(2)) if count else None}
    if most := _MOST_CLUSTERS.search(asked):
        said = (most.group(1) or most.group(2)).lower()
        found = {"max_k": int(said) if said.isdigit() else _COUNTS[said]}
    found["method"] = _METHODS[method.group(1).lower()[:2]] if method else None
    found["labels"] = next(filter(None, labels.groups())) if labels else None
    return {name: value for name, value in found.items() if value is not None}
