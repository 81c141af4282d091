"""A sentence as the classifier of intents reads it: names and values masked, then hashed n-grams.

Training (`agent.llm.fit_intents`) and reading (`agent.llm.intents`) share it; the weights hold for this code alone.
"""

import itertools
import math
import re
import unicodedata
import zlib
from collections import Counter
from functools import cache, lru_cache
from pathlib import Path

from agent.llm.slots.names import NAME

BUCKETS = 1 << 14
TABLE, WEIGHTS = (Path(__file__).with_name(name) for name in ("intents.tsv", "intents.npz"))
_WORDS = Path(__file__).with_name("words.tsv")
_CHARS = range(2, 6)
_KEPT = 16  # sentences: the readers of a request ask for the same ones several times
_SAID = r"(?:x[a-z]+|usd|tokens|gpus?|gpu_hours|max_hours|hours|minutes|host|engine|prio(?:rity)?|network|k)"
_MASKS = (
    ("xurl", r"\b(?:https?|s3|gs|hf|kaggle|openml|file)://?\S+|\bhf:\S+"),
    ("xquote", r"(?<!\w)[`\"“«‘'][^`\"”»’'\n]{1,200}[`\"”»’'](?!\w)"),
    ("xrun", r"(?<![a-z0-9])r-[0-9a-z]{6}(?![0-9a-z])(?:'s\b)?"),
    ("xfile", r"[\w./-]*\w\.(?:csv|tsv|parquet|jsonl?|xlsx?|txt|zip|gz|npz)\b"),
    ("xbase", r"\b(?=[\w./-]*\d)[a-z][\w.-]*/[a-z][\w.-]*\w"),  # a language model to begin with
    ("llm", r"\b(?:claude|gpt|gemini|mistral|llama|qwen|deepseek|grok|sonnet|opus|haiku|kimi|glm)[\w.:]*(?:-[\w.]+)*"),
    ("xhost", r"\b(?!v\d)[a-z]+(?:-[a-z]+)*-?\d{1,3}\b(?!\.)(?<!f1)"),
    (
        "xset",
        rf"\b(?:{NAME}|epoques?|epochen|epocas?|lernrate|taux d'apprentissage|tasa de aprendizaje)\b|学习率|批大小",
    ),
    (
        "xrun",
        r"\b(?:(?:the|my|our|this|that|your)\s+)(?:(?:current|last|latest|newest|running|present)\s+)?"
        r"(?:run|training|job|experiment|trial)(?:\s+xrun)?\b(?:'s\b)?|\b(?:run|training|job)\s+xrun\b"
        r"|\b(?:den|das|der|dem|mein|meinen|meine|dieses|diesen|unser|unseren)\s+(?:aktuelle[ns]?\s+|letzte[ns]?\s+)?"
        r"(?:lauf|training|job|run|experiment)\b"
        r"|(?:\b(?:le|mon|cet|ce|l')|l')\s*(?:entrainement|run|job|experience)(?:\s+en cours)?\b"
        r"|\b(?:el|la|mi|este|esta|ese|esa)\s+(?:entrenamiento|run|ejecucion|trabajo|experimento|corrida)(?:\s+actual)?\b"
        r"|(?:这个|这次|当前的?|我的)?(?:训练任务|任务)|(?:这个|这次|当前的?|我的)(?:训练|运行)",
    ),
    # What is like the name of a column, or has a value as one has.
    ("xcol", r"\b(?!xset|\w*(?:loss|acc|auc|f1|rmse|mae|norm)\b)[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b"),
    ("xcol", rf"\b(?!{_SAID}\b)[a-z]\w*(?=\s*=\s*[^\s=])"),
    ("xnum", r"[-+]?(?<![a-z_])\d[\d.,]*(?:e-?\d+)?[k%]?(?![a-z_])"),
)
# The Spanish preposition, where the same word is no order to stop.
_FOR = re.compile(
    r"(?<=[a-z0-9] )(?<!favor )(?<!ya )(?<!vale )(?<!ok )(?<! y )(?<!ahora )(?<!que )para"
    r"(?= (?:la|el|los|las|un|una|que|manana|hoy|mi|nuestr[oa]|esto|eso)\b)"
)
MASKED = frozenset(mask for mask, _ in _MASKS)


@cache
def _concepts() -> tuple[tuple[str, ...], dict[str, str]]:
    """Words of more than one language that mean the same, the longest first, and what each means."""
    lines = (line.split("\t") for line in _WORDS.read_text(encoding="utf-8").splitlines())
    meaning = {word: concept for concept, words in lines for word in words.split("|")}
    return tuple(sorted(meaning, key=len, reverse=True)), meaning


@cache
def _spoken() -> re.Pattern[str]:
    """Finds those words; Chinese ones stand anywhere, others alone."""
    words, _ = _concepts()
    alone = "|".join(re.escape(word) for word in words if word.isascii())
    anywhere = "|".join(re.escape(word) for word in words if not word.isascii())
    return re.compile(rf"\bx(?:run|file|host|set|num|col|quote|url)\b|(?<![\w-])(?:{alone})(?![\w])|{anywhere}")


@cache
def fillers() -> frozenset[str]:
    """Words that mean nothing to us."""
    return frozenset(word for word, concept in _concepts()[1].items() if concept == "filler")


@lru_cache(_KEPT)
def concepts(said: str) -> tuple[str, ...]:
    """What the words of a masked sentence mean, in their order; those that mean nothing to us are left out."""
    _, meaning = _concepts()
    found = (meaning.get(found, found) for found in _spoken().findall(said))
    return tuple(concept for concept in found if concept != "filler")


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((mask, re.compile(pattern)) for mask, pattern in _MASKS)


def plain(words: str) -> str:
    """Lower case, without accents and typographic apostrophes."""
    apart = unicodedata.normalize("NFKD", words.lower().replace("’", "'"))
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


@lru_cache(_KEPT)
def masked(words: str, columns: tuple[str, ...] = ()) -> str:
    """A sentence whose names and values stand as what they are; `columns` are those of the data at hand."""
    said = _FOR.sub("por", plain(words))
    for mask, pattern in _patterns():
        said = pattern.sub(f" {mask} ", said)
    for column in sorted(columns, key=len, reverse=True):
        if len(column) > 2 or column.lower() == "id":  # shorter ones are words of any sentence
            said = re.sub(rf"(?<!\w){re.escape(plain(column))}(?!\w)", " xcol ", said)
    return said


def words_of(said: str) -> list[str]:
    """The words of a masked sentence; each Chinese character is one, a number in words is a number."""
    found = re.findall(r"[\u3400-\u9fff]|(?:(?![\u3400-\u9fff])[\w'])+", said)
    return ["xnum" if _concepts()[1].get(word) == "xnum" else word.strip("'") for word in found]


def features(said: str) -> dict[int, float]:
    """Weights of a masked sentence's n-grams by bucket: words and pairs of them, characters; each kind of length 1."""
    words = words_of(said)
    pairs = [*words, *(f"{one} {two}" for one, two in zip(["<", *words], [*words, ">"], strict=True))]
    text = f" {' '.join(words)} "
    grams = [text[at : at + size] for size in _CHARS for at in range(len(text) - size + 1)]
    meant = ["<", *concepts(said), ">"]
    ideas = [*meant, *(f"{one} {two}" for one, two in itertools.pairwise(meant)), *(f"< {one}" for one in meant)]
    found: dict[int, float] = {}
    for kind, counted in (("w", Counter(pairs)), ("c", Counter(grams)), ("k", Counter(ideas))):
        weights = {gram: 1.0 + math.log(count) for gram, count in counted.items()}
        norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        for gram, weight in weights.items():
            bucket = zlib.crc32(f"{kind}{gram}".encode()) % BUCKETS
            found[bucket] = found.get(bucket, 0.0) + weight / norm
    return found
