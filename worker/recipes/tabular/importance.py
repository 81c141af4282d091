"""What a finished model leans on, column by column: written beside it, and drawn with its result.

Owns how numbers of encoded columns become numbers of the file's columns. Called by the recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.tabular.encoding import Feature, width
from worker.recipes.tabular.linear import categorical_columns

_ROWS = 5000  # enough to tell how far a column moves a prediction


def gain(booster: Any, features: Sequence[Feature], *, rounds: int) -> dict[str, Any]:
    """How much each column's splits lowered LightGBM's training loss, up to a round."""
    gains = np.asarray(booster.feature_importance(importance_type="gain", iteration=rounds), dtype=np.float64)
    return _told("gain", features, np.add.reduceat(gains, _starts(features)))


def linear_weights(pipeline: Any, features: Sequence[Feature], rows: NDArray[np.float64]) -> dict[str, Any]:
    """How far each column moves what a linear model says (a classifier's log-odds): the standard deviation over rows.

    For a number without gaps that is the absolute coefficient of the standardised column; a category's many columns
    count as one, by how often each is there. Over classes it is the mean. `rows` are encoded (n_rows, width).
    """
    columns, model = pipeline[0], pipeline[-1]
    sample = rows[:: max(1, len(rows) // _ROWS)]
    made = np.asarray(columns.transform(sample), dtype=np.float64)  # (n_rows, n_made)
    source = _sources(columns, features, rows.shape[1])
    starts = _starts(features)
    owner = np.searchsorted(starts, source, side="right") - 1
    spread = np.zeros(len(features))
    for weights in np.atleast_2d(model.coef_):
        moved = made * weights
        for at in range(len(features)):
            spread[at] += moved[:, owner == at].sum(axis=1).std()
    return _told("coefficient", features, spread / len(np.atleast_2d(model.coef_)))


def _sources(columns: Any, features: Sequence[Feature], encoded: int) -> NDArray[np.int64]:
    """From which encoded column each column of the linear model's input was made."""
    categories = categorical_columns(features)
    numbers = [at for at in range(encoded) if at not in categories]
    found: list[int] = []
    if numbers:
        gaps = columns.named_transformers_["numbers"][0].indicator_.features_
        found += [*numbers, *(numbers[at] for at in gaps)]
    if categories:
        known = columns.named_transformers_["categories"].categories_
        found += [at for at, each in zip(categories, known, strict=True) for _ in each]
    return np.array(found, dtype=np.int64)


def _starts(features: Sequence[Feature]) -> NDArray[np.int64]:
    return np.cumsum([0, *(width(feature) for feature in features[:-1])])


def _told(kind: str, features: Sequence[Feature], values: NDArray[np.float64]) -> dict[str, Any]:
    named = zip(features, values.tolist(), strict=True)
    return {"kind": kind, "features": [[feature["column"], value] for feature, value in named]}
