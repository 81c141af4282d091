"""Fits the classifier of intents: `make intents`. Reads intents.tsv, writes intents.npz, prints what it reaches.

Each line of the table is an intent, a language and a sentence; `{run}` and the like stand for names and values, and
`{this|that}` for either word. Sentences are filled several times, once of them amid words of `talk.tsv` that ask for
nothing (“my boss is asking”), as people write them; all that came of one stand in one fold.
"""

import hashlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression

from agent.llm.features import BUCKETS, TABLE, WEIGHTS, features, masked
from agent.llm.slots import glossary, names, numbers, replacing
from agent.llm.slots.numbers import in_figures

FILLED, FOLDS, STRENGTH, SEED = 4, 5, 30.0, 7
_TALK = Path(__file__).with_name("talk.tsv")
_IT = {
    "en": "{run}|{run}|it|the run|the training|this run|my run|that run|the job|my training|my job|training {run}",
    "de": "{run}|{run}|es|den Lauf|das Training|das|den Job|ihn|mein Training",
    "fr": "{run}|{run}|l'entraînement|le run|ça|le|mon entraînement|le job",
    "es": "{run}|{run}|el entrenamiento|el run|la ejecución|eso|lo|mi entrenamiento",
    "zh": "{run}|{run}|训练|这个训练|它|任务|运行",
}
_FILLS = {
    "col": "xcol|xcol|churn|price|the price|visited_doctor|health|species|demand|the label|sales|`xcol`|salary|income"
    "|fraud|quality|the column xcol|whether they pay|species of the flower|temperature",
    "metric": "loss|accuracy|the loss|the accuracy|auc|f1|train loss|validation loss|rmse|perplexity|error|recall",
    "run": "r-abc123",
    "file": "data.csv|data.csv|sales.parquet|this file",
    "n": "20|0.1",
    "set": "learning rate|epochs",
    "host": "gpu-2",
    "quote": "“abc”",
}


class Sentence(NamedTuple):
    """One line of the table."""

    intent: str
    language: str
    words: str


def table() -> list[Sentence]:
    """The committed sentences."""
    return [Sentence(*line.split("\t")) for line in TABLE.read_text(encoding="utf-8").splitlines()]


def digest() -> str:
    """What the weights were made of: the table, how sentences are read, and how they are fitted."""
    here = Path(__file__)
    readers = (Path(str(module.__file__)) for module in (glossary, names, numbers, replacing))
    sources = (TABLE, _TALK, here, here.with_name("features.py"), here.with_name("words.tsv"), *readers)
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()


def filled(sentence: Sentence, chance: random.Random) -> Iterator[str]:
    """The sentence with names and values in its places, masked; once where it has none."""
    for _ in range(FILLED if "{" in sentence.words else 1):
        words = sentence.words
        while found := re.search(r"\{([^{}]*)\}", words):
            name = found.group(1)
            choices = (_IT[sentence.language] if name == "it" else _FILLS.get(name, name)).split("|")
            words = words[: found.start()] + chance.choice(choices) + words[found.end() :]
        yield masked(in_figures(words))


def amid_talk(sentence: Sentence, talk: Mapping[str, Sequence[str]], chance: random.Random) -> str:
    """The sentence, filled and masked, before or behind words that ask for nothing."""
    wish = next(filled(sentence, chance))
    parts = [wish, masked(in_figures(chance.choice(talk[sentence.language])))]
    return chance.choice((", ", ". ", ": ", " - ", " ")).join(parts if chance.random() < 0.5 else reversed(parts))


def main() -> None:
    """Fit, measure by cross-validation, write."""
    chance, sentences = random.Random(SEED), table()
    names = sorted({sentence.intent for sentence in sentences})
    rows = [(index, text) for index, one in enumerate(sentences) for text in filled(one, chance)]
    talk, plain = _talk(), len(rows)
    rows += [(index, amid_talk(one, talk, chance)) for index, one in enumerate(sentences)]
    of_line = np.array([index for index, _ in rows])
    wanted = np.array([names.index(sentences[index].intent) for index, _ in rows])
    matrix = _matrix([text for _, text in rows])
    fold = np.array([chance.randrange(FOLDS) for _ in sentences])[of_line]
    chances = np.zeros((len(rows), len(names)))
    for held in range(FOLDS):
        chances[fold == held] = _fit(matrix[fold != held], wanted[fold != held]).predict_proba(matrix[fold == held])
    right = (chances.argmax(axis=1) == wanted)[:plain]  # measured of the sentences alone
    model = _fit(matrix, wanted)
    np.savez_compressed(
        WEIGHTS,
        names=np.array(names),
        weights=model.coef_.astype(np.float16),
        bias=model.intercept_.astype(np.float16),
        digest=np.array(digest()),
        cross_validated=np.array(right.mean()),
    )
    sure = chances.max(axis=1)[:plain] > 0.5
    told = f"cross-validated {right.mean():.3f}; {sure.mean():.3f} sure: {right[sure].mean():.3f}"
    print(f"{len(sentences)} sentences, {told}")  # noqa: T201


def _talk() -> dict[str, list[str]]:
    """What people say beside what they want, by language."""
    lines = (line.split("\t") for line in _TALK.read_text(encoding="utf-8").splitlines())
    talk: dict[str, list[str]] = {}
    for language, words in lines:
        talk.setdefault(language, []).append(words)
    return talk


def _matrix(texts: list[str]) -> csr_matrix:
    found = [features(text) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(one) for one in found])
    columns = np.array([bucket for one in found for bucket in one])
    values = np.array([weight for one in found for weight in one.values()])
    return csr_matrix((values, (rows, columns)), shape=(len(texts), BUCKETS))


def _fit(matrix: csr_matrix, wanted: Any) -> LogisticRegression:
    return LogisticRegression(C=STRENGTH, max_iter=300).fit(matrix, wanted)


if __name__ == "__main__":
    main()
