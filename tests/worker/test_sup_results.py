"""The facts that pictures of a result are drawn from: checked, kept in the store, out of reach of the training."""

import pytest

from agent.domain.results import Results
from agent.domain.runs import RunState
from agent.wire import decode
from tests.worker.conftest import EVALUATE, GOOD, Yard

TELL = b"""
import csv
rows = list(csv.DictReader(open("data/test.csv")))
assert [row["row_id"] for row in rows] == ["0"], rows
curve = {"x": [0, 1], "y": [0, 1], "area": 0.5}
facts = {"kind": "classification", "rows": 1, "class_count": 2, "beaten": "majority",
         "confusion": {"labels": ["a", "b"], "counts": [[0, 1], [0, 0]]},
         "curves": [{"label": "b", "share": 0.5, "roc": curve, "pr": curve}],
         "calibration": {"label": "b", "bins": [], "error": 0}, "classes": [],
         "mistakes": {"count": 1, "columns": ["x"], "rows": [
             {"row": "0", "true": "sealed" + "-word", "predicted": "b", "confidence": 0.9,
              "cells": ["hunter2-is-secret"]}]}}
pathlib.Path("results.json").write_text(json.dumps({"found": facts}))
"""


async def test_facts_come_back_through_the_store_and_lie_where_no_training_reads(yard: Yard) -> None:
    await yard.launch(yard.order("r-facts0", GOOD, files={"worker/recipes/evaluate.py": EVALUATE + TELL}))
    outcome = yard.outcome("r-facts0")
    assert outcome.state is RunState.SUCCEEDED, outcome
    found = decode(Results, yard.blobs.get_file(outcome.results).read_bytes()).found
    assert found.mistakes.rows[0].true == "sealed-word"
    yard.gone("r-facts0")
    folder = yard.folder("r-facts0")
    for path in (found for found in (*folder.path.rglob("*"), *folder.sealed.rglob("*")) if found.is_file()):
        assert b"sealed-word" not in path.read_bytes(), path
    assert not (folder.path / "results.json").exists()
    assert outcome.artifact is not None
    assert "results.json" not in outcome.artifact.files


async def test_a_secret_in_a_cell_is_taken_out(yard: Yard) -> None:
    secrets = yard.home / "secrets"
    secrets.mkdir(mode=0o700, exist_ok=True)
    (secrets / "TOKEN").write_text("hunter2-is-secret")
    (secrets / "TOKEN").chmod(0o600)
    files = {"worker/recipes/evaluate.py": EVALUATE + TELL}
    await yard.launch(yard.order("r-facts1", GOOD, files=files, secrets=("TOKEN",)))
    outcome = yard.outcome("r-facts1")
    assert outcome.results, outcome
    data = yard.blobs.get_file(outcome.results).read_bytes()
    assert b"hunter2" not in data
    assert b"sealed-word" in data


@pytest.mark.parametrize(
    "lay",
    [
        b"pathlib.Path('results.json').write_text('{')\n",
        b"pathlib.Path('results.json').write_text('[' * 100_000)\n",
        b'pathlib.Path(\'results.json\').write_text(\'{"found": {"kind": "other"}}\')\n',
        b"pathlib.Path('results.json').write_text(' ' * 300_000 + '{}')\n",
        b"import os\nos.mkfifo('results.json')\n",
        b"pathlib.Path('results.json').symlink_to('/etc/passwd')\n",
        b"",
    ],
)
async def test_facts_that_cannot_be_used_cost_the_pictures_only(yard: Yard, lay: bytes) -> None:
    run = f"r-bad{abs(hash(lay)) % 10**6}"
    await yard.launch(yard.order(run, GOOD, files={"worker/recipes/evaluate.py": EVALUATE + lay}))
    outcome = yard.outcome(run)
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.scorecard is not None
    assert outcome.results == ""
    said = (yard.folder(run).path / "supervisor.log").read_text()
    assert ("no_results" in said) == bool(lay)
