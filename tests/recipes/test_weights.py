"""Weights of classes: what a rare class counts, what that changes, and what is said of it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.recipes.folders import TABULAR, TEXT, RunFolder, as_csv, make_run
from worker.recipes.classes.weights import class_weights, weight_notes
from worker.recipes.common.job import BadSettings, read_settings
from worker.recipes.common.table import read_table
from worker.recipes.images.network import SETTINGS as IMAGES
from worker.recipes.inspect import audit
from worker.recipes.networks.losses import UNKNOWN, weighted_loss
from worker.recipes.texts.encoder import encoder_settings


def test_balanced_classes_count_alike_and_a_row_counts_1_in_the_mean() -> None:
    codes = np.array([0] * 8 + [2] * 2)
    weights = class_weights({"class_weight": "balanced"}, codes, 3)
    assert weights is not None
    assert weights.tolist() == [0.625, 0.0, 2.5]
    assert weights[codes].mean() == 1.0
    assert weight_notes(weights, ["no", "never", "yes"]) == (
        "Each class counted as much as every other (class_weight=balanced): an example of “yes” 4.0 times as much as "
        "one of “no”.",
    )
    assert class_weights({"class_weight": "none"}, codes, 3) is None


def test_a_weighted_loss_leaves_out_what_is_not_known() -> None:
    import torch

    logits, wanted = torch.zeros(4, 2), torch.tensor([0, 1, UNKNOWN, 1])
    assert float(weighted_loss(logits, wanted, None)) == pytest.approx(np.log(2))
    assert float(weighted_loss(logits, wanted, np.array([1.0, 4.0]))) == pytest.approx(np.log(2) * 3)


def test_what_classes_do_not_have_is_refused() -> None:
    with pytest.raises(BadSettings, match="one of none, balanced, not 'heavy'"):
        encoder_settings({"class_weight": "heavy"})
    with pytest.raises(BadSettings, match="There is no setting “class_weight”"):
        read_settings({"class_weight": "balanced"}, IMAGES)  # of a quantity


def uneven(rows: int = 400) -> list[dict[str, object]]:
    """One row in ten is rare, and looks like many of the others."""
    chance = random.Random(3)
    kinds = ["rare" if at % 10 == 0 else "usual" for at in range(rows)]
    middle = {"rare": 1.2, "usual": 0.0}
    return [
        {"size": round(chance.gauss(middle[kind], 1), 3), "weight": round(chance.gauss(middle[kind], 1), 3),
         "note": f"it was {chance.choice(['cold', 'warm'])} and {chance.choice(['late', kind, kind])} {at}",
         "kind": kind}
        for at, kind in enumerate(kinds)
    ]  # fmt: skip


def found_rare(run: RunFolder) -> int:
    assert (run.prepare_here(), run.train_here()) == (0, 0)
    return sum(row["label"] == "rare" for row in run.rows("predictions/model.csv"))


@pytest.mark.parametrize(
    ("recipe", "text"),
    [("tabular_classification", None), pytest.param("text_classification", "note", marks=pytest.mark.faults)],
)
def test_a_rare_class_is_found_more_often_and_the_card_says_why(recipe: str, text: str | None, tmp_path: Path) -> None:
    counts = []
    for weight in ("none", "balanced"):
        settings = {**(TEXT if text else TABULAR), "class_weight": weight}
        more = {"text_column": text} if text else {"drop_columns": ["note"]}
        run = make_run(tmp_path / weight, as_csv(uneven()), "kind", recipe=recipe, settings=settings, **more)
        counts.append(found_rare(run))
    assert counts[1] > counts[0]
    (note,) = run.json("artifacts/config.json")["notes"]
    assert "an example of “rare” 9." in note
    assert note in (run.dir / "artifacts/README.md").read_text()


def test_the_audit_says_what_helps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(as_csv([row for at, row in enumerate(uneven()) if at % 20 != 10]))
    assert any(
        "class_weight=balanced" in said for said in audit(read_table(tmp_path / "a.csv"), target="kind")["warnings"]
    )
