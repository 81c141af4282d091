"""The answers of a model that predicts a quantity. Copied beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ADDED = ["prediction"]


@dataclass(frozen=True)
class Numbers:
    """One value for each row: `values` (n_rows,)."""

    values: NDArray[np.float64]

    def cells(self) -> Iterator[list[str]]:
        """What each row gets in the columns of `ADDED`."""
        for value in self.values:
            yield [f"{value:.8g}"]

    def said(self) -> list[dict[str, Any]]:
        """One answer a row."""
        return [{"kind": "number", "value": float(value)} for value in self.values]
