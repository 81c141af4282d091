"""The metrics of predicted quantities; RMSE decides, lower is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

METRIC = "rmse"


def measure(truth: NDArray[np.float64], values: NDArray[np.float64]) -> dict[str, float]:
    """RMSE and MAE in the target's unit, and R², the part of the variance that is explained. Both (n_rows,)."""
    error = values - truth
    varies = float(((truth - truth.mean()) ** 2).sum())
    return {
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
        "r2": 1.0 - float((error**2).sum()) / varies if varies else 0.0,
    }
