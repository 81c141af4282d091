"""Facts of results, measured for real on made-up answers; two classes and more."""

from pathlib import Path

import numpy as np

from agent.domain.results import Results
from agent.domain.runs import Outcome, RunState, Score, Scorecard
from agent.wire import encode
from worker.client.blobs import FolderBlobs
from worker.recipes.classes.mistakes import single_rows
from worker.recipes.classes.results import Answers, classification
from worker.recipes.common.scoring import importance_of

CARD = Scorecard(
    metric="accuracy",
    higher_is_better=True,
    model=Score(name="model", value=0.8),
    baselines=(Score(name="majority", value=0.5),),
    all_metrics={"accuracy": 0.8},
    test_rows=400,
)


def facts(folder: Path, classes: int = 2, *, rows: int = 400, text: bool = False, weights: int = 5) -> Results:
    """A model that is right more often than not."""
    random = np.random.default_rng(classes)
    codes = random.integers(0, classes, rows)
    raw = random.exponential(size=(rows, classes))
    raw[np.arange(rows), codes] += 1.5
    shares = raw / raw.sum(axis=1, keepdims=True)
    names = ["no", "yes"] if classes == 2 else [f"class {n:02}" for n in range(classes)]
    answers = Answers(names, codes, shares, np.full_like(shares, 1 / classes), "majority")
    test = folder / "test.csv"
    words = (" ".join(["word"] * int(count)) for count in random.integers(3, 60, rows))
    head = "row_id,text" if text else "row_id,age,health"
    lines = (f"{row},{word}" if text else f"{row},{row % 90},good" for row, word in enumerate(words))
    test.write_text("\n".join((head, *lines)) + "\n")
    leans = {"kind": "gain", "features": [[f"column_{n}", 1.0 / (n + 1)] for n in range(weights)]} if weights else None
    importance = importance_of(leans)
    ids = [str(row) for row in range(rows)]
    found = classification(answers) | {"importance": importance}
    found |= single_rows(answers, ids, test, text="text" if text else None, weights=importance)
    return Results.model_validate({"found": found})


def outcome(folder: Path, results: Results | None, *, blobs: str = "blobs") -> Outcome:
    """A success whose facts are in the store of a `Harness`."""
    sha256 = FolderBlobs(folder / blobs).put_bytes(encode(results), name="results.json").sha256 if results else ""
    return Outcome(state=RunState.SUCCEEDED, scorecard=CARD, chosen="lightgbm", seconds=9.0, results=sha256)
