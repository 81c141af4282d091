"""The linear baselines of tables: medians, scaling and one-hot columns before a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.tabular.encoding import Feature, width


def categorical_columns(features: Sequence[Feature]) -> list[int]:
    """Positions of the category codes in the encoded matrix."""
    positions, at = [], 0
    for feature in features:
        if feature["kind"] == "category":
            positions.append(at)
        at += width(feature)
    return positions


def linear_width(features: Sequence[Feature]) -> int:
    """How many columns the linear model has: one for each category, two for a number with gaps."""
    return sum(
        len(feature["categories"]) + 2 if feature["kind"] == "category" else 2 * width(feature) for feature in features
    )


def fit_logistic(
    rows: NDArray[np.float64],
    codes: NDArray[np.int64],
    features: Sequence[Feature],
    *,
    seed: int,
    balanced: bool = False,
) -> Any:
    """A fitted sklearn pipeline over encoded rows (n_rows, width); `balanced`: each class counts as much."""
    return logistic(rows, features, seed=seed, balanced=balanced).fit(rows, codes)


def logistic(rows: NDArray[np.float64], features: Sequence[Feature], *, seed: int, balanced: bool = False) -> Any:
    """The pipeline before it is fitted; of `rows` only their width counts."""
    from sklearn.linear_model import LogisticRegression

    weight = "balanced" if balanced else None
    return _pipeline(rows, features, LogisticRegression(max_iter=2000, random_state=seed, class_weight=weight))


def fit_ridge(rows: NDArray[np.float64], values: NDArray[np.float64], features: Sequence[Feature]) -> Any:
    """Ridge regression, its strength by cross-validation: a fitted pipeline over encoded rows (n_rows, width)."""
    from sklearn.linear_model import RidgeCV

    return _pipeline(rows, features, RidgeCV(alphas=np.logspace(-3, 3, 13))).fit(rows, values)


def _pipeline(rows: NDArray[np.float64], features: Sequence[Feature], model: Any) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categories = categorical_columns(features)
    numbers = [at for at in range(rows.shape[1]) if at not in categories]
    filled = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    columns = ColumnTransformer(
        [
            ("numbers", filled, numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
        ]
    )
    return make_pipeline(columns, model)
