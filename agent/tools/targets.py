"""Reads which column a request wants predicted, and which it wants left out. Called with the columns of the data."""

import difflib
import re
from collections.abc import Sequence

QUOTE = r"(?<!\w)[`\"“']([\w .\-/]{1,80})[`\"”'](?!\w)"  # not the apostrophes of don't and what's
_QUOTED = re.compile(QUOTE)
_NOT_USED = (
    r"(?:without|drop(?:ping)?|ignor(?:e|ing)|exclud(?:e|ing)|skip(?:ping)?|omit(?:ting)?|except(?: for)?|but not"
    r"|leav(?:e|ing) out|(?:not|\w+n['’]t) (?:use|include|look at|consider)|(?:not|never|\w+n['’]t) using)"
)
# What follows the verb, up to where something else is asked for.
_LEFT_OUT = re.compile(
    rf"\b{_NOT_USED}\s+([^.;!?\n]*?)(?=[.;!?\n]|(?:,|\band\b|\bthen\b|\bbut\b)?\s*\b(?:to |then )?"
    r"(?:predict|train|classify"
    r"|forecast|use|build|fit|make|tell|guess|estimate|split|hold|the target|target|with|for|at most|up to)\b|$)"
    r"|\bleav(?:e|ing)\s+([^.;!?\n]{1,80}?)\s+(?:out|aside|off)\b",
    re.IGNORECASE,
)
_COLUMN = re.compile(
    rf"{QUOTE}|\b(?:columns?|features?|fields?)\s+(?:called\s+|named\s+)?(\w+)|\b(?!the\b)(\w+)\s+(?:column|feature|field)\b|\b(\w*\w_\w+)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?<!text )(?<!input )(?<!date )(?<!time )(?<!id )(?<!feature )"
    r"(?:\b(?:target|column|label|ziel(?:spalte)?|spalte|cible|colonne|objetivo|columna)|目标列?)\s*(?:column\s*)?"
    r"(?:is|=|:|named|called|should be|ist|est|es|是)?\s*([A-Za-z_][\w.\-]*)",
    re.IGNORECASE,
)
# What stands before a column that is read, not predicted.
_READ = re.compile(
    r"(?:\b(?:texts?|inputs?|features?|dates?|time|id)(?: columns?)?(?: is| are| in| from| of)?(?: the)?(?: column)?"
    r"|\b(?:from|using|based on|given|read|reads|reading|in)(?: the)?(?: texts?)?(?: columns?)?(?: in)?)\s*$",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(?:\b(?:predict(?:s|ing|or)?|classif(?:y|ies|ying)|forecast(?:s|ing)?|tells?|guess(?:es)?|estimat(?:e|es|ing)"
    r"|(?:model|classifier|regressor|regression) (?:for|of)|pr[ée]di(?:re|t|ce|cir|ga|s)|vorherzusagen)\b|预测)(.*)",
    re.IGNORECASE | re.DOTALL,
)
# What stands behind the target: what it is read from.
_FROM = re.compile(r"\b(?:from|using|given|based on|out of|by means of)\b", re.IGNORECASE)
_INTO = re.compile(r"\bclassif(?:y|ies|ying)\b.*?\b(?:into|by|as)\b(.*)", re.IGNORECASE | re.DOTALL)

_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on for from to and or is are be will would by with this that these those who what which "
        "whether if csv file data dataset model column attached please new can you me my our train predict "
        "should must has have not i it says "
        "use again instead",
    )
)
# What may follow a column's name: a number, a word after a sign or “is”, or a word that ends the clause.
_VALUE = re.compile(
    rf"\s*(?:(?:=|:|\bis\b|\bof\b)\s*(?:{QUOTE}|([\w.+-]*\w))|{QUOTE}|([-+]?\d+(?:\.\d+)?)"
    r"|(?!(?:and|or|for|from|with|the|on|by|using)\b)([a-z][\w-]*)(?=\s*(?:,|\band\b|$)))",
    re.IGNORECASE,
)
_WORD = r"[^\W\u3400-\u9fff]"  # Chinese has no spaces
_CLOSE = 0.8  # how alike two words must be to count as one (visit, visited)


def quoted_target(asked: str) -> str | None:
    """A column that the person named beyond doubt: quoted, or after the word target or column."""
    words = _LEFT_OUT.sub(" ", asked)
    for quoted in _QUOTED.finditer(words):
        if not _READ.search(words[: quoted.start()]):
            return quoted.group(1)
    named = _NAMED.search(words)
    return named.group(1) if named and named.group(1).lower() not in _STOP_WORDS else None


def said_to_predict(asked: str) -> list[str]:
    """The words that say what is to be predicted, as they were written; names of files are none."""
    verb = _VERB.search(_LEFT_OUT.sub(" ", asked))
    words = [word.strip(".-") for word in re.findall(r"[\w.-]+", verb.group(1))] if verb else []
    return [word for word in words if word and "." not in word and word.lower() not in _STOP_WORDS]


def names_a_target(asked: str, *, but: str | None = None) -> bool:
    """Whether the words say what is to be predicted, and that is not the column `but`."""
    verb = _VERB.search(asked)
    spoken = _tokens(verb.group(1)) if verb else []
    known = _tokens(but.replace("_", " ")) if but else []
    if but and not known:
        return False
    return bool(spoken) and not any(difflib.get_close_matches(part, spoken, 1, _CLOSE) for part in known)


def left_out(asked: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Columns that the person does not want to be used: quoted ones, and `names` as they are spoken."""
    found: list[str] = []
    for part in (first or second for first, second in _LEFT_OUT.findall(asked)):
        known = [name for name in names if _spoken(name, part)]
        said = [next(filter(None, groups)) for groups in _COLUMN.findall(part)]
        found += known + [name for name in said if not any(_spoken(name, one) or _spoken(one, name) for one in known)]
    return tuple(dict.fromkeys(found))


def values_in(asked: str, names: Sequence[str]) -> dict[str, str]:
    """The values that are stated for columns: "age 30, plan pro", "age is 30", "age=30"."""
    found: dict[str, str] = {}
    for name in names:
        at = _spoken(name, asked)
        said = _VALUE.match(asked, at - 1 + len(name)) if at else None
        if said:
            found[name] = next(filter(None, said.groups()))
    return found


def target_in(asked: str, names: Sequence[str]) -> tuple[str | None, bool]:
    """The column that a request wants predicted, and whether the person named it."""
    said = quoted_target(asked)
    if said is not None:
        return next((name for name in names if name.lower() == said.lower()), said), True
    words = _LEFT_OUT.sub(" ", asked)
    verb = _INTO.search(words) or _VERB.search(words)
    if verb:
        behind = _FROM.split(verb.group(1), maxsplit=1)[0]
        exact = {name: at for name in names if (at := _spoken(name, behind))}
        if exact:
            return min(exact, key=lambda name: (exact[name], -len(name))), True
    elif len(named := [name for name in names if _named_to_learn(name, words)]) == 1:
        return named[0], True
    return _alike(_tokens(verb.group(1) if verb else words), names)


def _named_to_learn(name: str, words: str) -> bool:
    at = _spoken(name, words)
    return bool(at) and not _READ.search(words[: at - 1])


def _spoken(name: str, words: str) -> int:
    """Where a column's name stands among words, from 1; 0 where it does not."""
    spelled = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[\s_-]+", name) if part)
    found = re.search(rf"(?<!{_WORD})(?<!-){spelled}(?!{_WORD})(?!-)", words, re.IGNORECASE)
    return found.start() + 1 if found else 0


def _alike(spoken: Sequence[str], names: Sequence[str]) -> tuple[str | None, bool]:
    """The column whose words are most like those that were spoken, and whether all of them are."""
    best, score = None, 0.0
    for name in names:
        parts = _tokens(name.replace("_", " "))
        alike = sum(1 for part in parts if difflib.get_close_matches(part, spoken, 1, _CLOSE))
        share = alike / len(parts) if parts else 0.0
        if share > score:
            best, score = name, share
    return (best, True) if score == 1.0 else (best if score >= 0.5 else None, False)


def _tokens(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]
