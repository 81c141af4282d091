"""What a measure of written texts is, for any kind of pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Measure(ABC):
    """Metrics of texts against references: each row is counted once, and any choice of rows is scored from counts.

    `metric` decides, the higher the better; `names` are all metrics; `signature` says what exactly is measured.
    """

    metric: str
    names: Sequence[str]

    @property
    @abstractmethod
    def signature(self) -> str:
        """In words of the field."""

    @abstractmethod
    def statistics(self, said: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
        """What is counted of each row (n_rows, k)."""

    @abstractmethod
    def scores(self, rows: NDArray[np.float64]) -> dict[str, float]:
        """The metrics of rows of `statistics`."""
