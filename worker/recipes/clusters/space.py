"""Rows of mixed columns as points between which distances mean something. Copied beside the model; needs numpy.

A number is filled with its median and standardised, and so is a date as its day. A category is a column of zeros and
ones for each of its frequent values; a rare, unknown or missing one lies between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.tabular.encoding import Feature, encode, width

Points = NDArray[np.float64]
_MOST_CATEGORIES = 20  # that get a column of their own


@dataclass(frozen=True)
class Space:
    """What training rows say of each encoded column: what fills it, its mean and its spread, each (n_encoded,)."""

    features: list[Feature]
    fill: Points
    mean: Points
    spread: Points

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        return [feature["column"] for feature in self.features]

    def points(self, cells: Mapping[str, Sequence[str]]) -> Points:
        """Each row as a point, (n_rows, width)."""
        encoded = encode(cells, self.features)
        scaled = (np.where(np.isnan(encoded), self.fill, encoded) - self.mean) / self.spread
        blocks, at = [], 0
        for feature in self.features:
            if feature["kind"] == "category":
                kept = min(len(feature["categories"]), _MOST_CATEGORIES)
                blocks.append((encoded[:, at : at + 1] == np.arange(kept)).astype(np.float64))
            else:
                blocks.append(scaled[:, at : at + 1])  # of a date the day: its weekday and hour come round again
            at += width(feature)
        return np.column_stack(blocks)

    def described(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "features": self.features,
            **{name: getattr(self, name).tolist() for name in ("fill", "mean", "spread")},
        }


def space_of(cells: Mapping[str, Sequence[str]], features: list[Feature]) -> Space:
    """The space of training rows."""
    encoded = encode(cells, features)
    known = ~np.isnan(encoded)
    fill = np.array(
        [np.median(column[there]) if there.any() else 0.0 for column, there in zip(encoded.T, known.T, strict=True)]
    )
    filled = np.where(known, encoded, fill)
    spread = filled.std(axis=0)
    return Space(features, fill, filled.mean(axis=0), np.where(spread > 0, spread, 1.0))


def space_from(described: Mapping[str, Any]) -> Space:
    """A space from its JSON."""
    return Space(described["features"], *(np.array(described[name]) for name in ("fill", "mean", "spread")))
