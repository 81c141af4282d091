"""Reads everyday requests: what is wanted, which column, which settings, which file and run. Text in, values out."""

import difflib
import re
from collections.abc import Sequence

RUN_ID = re.compile(r"\br-[0-9a-z]{6}\b")
FILE = re.compile(r"^\[file: (.+), \d+ bytes\]$", re.MULTILINE)
REFUSED = re.compile(r"^\[file refused: (.+)\]$", re.MULTILINE)
_NOTE = re.compile(r"^\[file[^\n]*\]$", re.MULTILINE)
_QUOTED = re.compile(r"[`\"“']([\w .\-/]{1,80})[`\"”']")
_NAMED = re.compile(
    r"\b(?:target|column|label)\s*(?:column\s*)?(?:is|=|:|named|called)?\s*([A-Za-z_][\w.\-]*)", re.IGNORECASE
)
_VERB = re.compile(
    r"\b(?:predicts?|predicting|classif(?:y|ies)|forecast|tells?|guess(?:es)?)\b(.*)", re.IGNORECASE | re.DOTALL
)
_NUMBER = r"([0-9]*\.?[0-9]+(?:e-?\d+)?)"
_NAME = r"(learning[ _]rate|lr|epochs?|rounds?|batch[ _]size|seed|num[ _]leaves|max[ _]steps|patience)"
_SETTING = re.compile(rf"\b{_NAME}\b\s*(?:of|=|:|is|to)?\s*{_NUMBER}", re.IGNORECASE)
_COUNTED = re.compile(rf"\b{_NUMBER}\s+(epochs?|rounds?|max[ _]steps)\b", re.IGNORECASE)
_SETTING_NAMES = {
    "lr": "learning_rate",
    "epoch": "epochs",
    "round": "rounds",
    "patience": "early_stopping_patience",
}
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on for from to and or is are be will would by with this that these those who what which "
        "whether if csv file data dataset model column attached please new can you me my our train predict",
    )
)
_CLOSE = 0.8  # how alike two words must be to count as one (visit, visited)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_INTENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("help", _words(r"^\s*(help|hi|hello|hey|what can you do|who are you)\b")),
    ("stop_run", _words(r"\b(stop|cancel|abort|kill)\b")),
    ("run_logs", _words(r"\b(logs?|output)\b")),
    ("list_runs", _words(r"\b(runs|list|history)\b")),
    ("list_hosts", _words(r"\b(hosts?|gpus?|cluster|machines?)\b")),
    ("train", _words(r"\b(train|fine-?tune|build|learn|fit)\b|\bmodel\b.*\b(predict|classif|tell)")),
    ("predict", _words(r"\b(predict(ions?)?|score|apply|try)\b")),
    ("run_metrics", _words(r"\b(metrics?|loss|accuracy|numbers|curves?|chart)\b")),
    ("run_status", _words(r"\b(status|progress|going|done|finished|ready|how far|result)\b")),
    ("train", _words(r"\b(classif|forecast|model)\w*\b")),
    ("inspect_dataset", _words(r"\b(look|inspect|audit|check|describe|what is in)\b")),
)


def words_of(asked: str) -> str:
    """A request without the lines about its files."""
    return _NOTE.sub("", asked).strip()


def intent_of(asked: str) -> str | None:
    """What a request is about, by its words; a file without words means: look at it."""
    words = words_of(asked)
    for intent, pattern in _INTENTS if words else ():
        if pattern.search(words):
            return intent
    return "inspect_dataset" if FILE.search(asked) else None


def quoted_target(asked: str) -> str | None:
    """A column that the person named beyond doubt: quoted, or after the word target or column."""
    words = words_of(asked)
    quoted = _QUOTED.search(words)
    if quoted:
        return quoted.group(1)
    named = _NAMED.search(words)
    return named.group(1) if named and named.group(1).lower() not in _STOP_WORDS else None


def target_in(asked: str, names: Sequence[str]) -> tuple[str | None, bool]:
    """The column that a request wants predicted, and whether the person named it."""
    said = quoted_target(asked)
    if said is not None:
        return next((name for name in names if name.lower() == said.lower()), said), True
    words = words_of(asked)
    verb = _VERB.search(words)
    spoken = _tokens(verb.group(1) if verb else words)
    best, score = None, 0.0
    for name in names:
        parts = _tokens(name.replace("_", " "))
        alike = sum(1 for part in parts if difflib.get_close_matches(part, spoken, 1, _CLOSE))
        share = alike / len(parts) if parts else 0.0
        if share > score:
            best, score = name, share
    return (best, True) if score == 1.0 else (best if score >= 0.5 else None, False)


def settings_in(asked: str) -> dict[str, float | int]:
    """Hyperparameters that the person stated, under the recipes' names."""
    words = words_of(asked)
    said = [(name, value) for name, value in _SETTING.findall(words)]
    said += [(name, value) for value, name in _COUNTED.findall(words)]
    found: dict[str, float | int] = {}
    for name, value in said:
        key = name.lower().replace(" ", "_")
        number = float(value)
        found[_SETTING_NAMES.get(key, key)] = int(number) if number.is_integer() and "." not in value else number
    return found


def _tokens(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]
