"""To which cluster a point belongs, by the rule that a method left. Copied beside the model; needs numpy.

A rule is a few arrays: centroids (k-means, Ward), Gaussians, or the clustered points themselves with how far each
cluster reaches (HDBSCAN). Clusters are numbered from 1, the largest first; 0 is a point that belongs to none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.recipes.clusters.space import Points

Labels = NDArray[np.int64]
_CHUNK = 4_000_000  # distances at a time
_FILE = "clusters.npz"


@dataclass(frozen=True)
class Rule:
    """`arrays` hold `centroids`, or `weights`, `means` and `roots`, or `members`, `owners` and `reach`.

    `numbers[i]` is the number of what is the i-th cluster in the arrays.
    """

    arrays: Mapping[str, Points]
    numbers: Labels

    @property
    def clusters(self) -> int:
        """How many there are."""
        return len(self.numbers)

    def assign(self, points: Points) -> Labels:
        """The number of each point's cluster, (n_points,)."""
        size = max(1, _CHUNK // max(map(len, self.arrays.values())))
        parts = [self._assign(points[at : at + size]) for at in range(0, len(points), size)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def renumbered(self, points: Points) -> Rule:
        """The same with the cluster first that has the most of these points."""
        found = self.assign(points)
        sizes = np.bincount(found, minlength=self.clusters + 1)[self.numbers]
        numbers = np.empty_like(self.numbers)
        numbers[np.argsort(-sizes, kind="stable")] = np.arange(1, self.clusters + 1)
        return Rule(self.arrays, numbers)

    def save(self, folder: Path) -> None:
        """Write it as plain arrays."""
        np.savez_compressed(folder / _FILE, allow_pickle=False, numbers=self.numbers, **self.arrays)

    def _named(self, at: Labels) -> Labels:
        found: Labels = self.numbers[at]
        return found

    def _assign(self, points: Points) -> Labels:
        given = self.arrays
        if "means" in given:
            return self._named(_likelihoods(points, given).argmax(axis=1))
        apart = _distances(points, given["centroids" if "centroids" in given else "members"])
        nearest = apart.argmin(axis=1)
        if "centroids" in given:
            return self._named(nearest)
        owner = given["owners"][nearest].astype(np.int64)
        near = np.sqrt(apart[np.arange(len(points)), nearest]) <= given["reach"][owner]
        return np.where(near, self.numbers[owner], 0)


def load_rule(folder: Path) -> Rule:
    """The rule that training left in `folder`."""
    with np.load(folder / _FILE, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return Rule({name: array for name, array in arrays.items() if name != "numbers"}, arrays["numbers"])


def _distances(points: Points, others: Points) -> Points:
    """Squared distances (n_points, n_others)."""
    squares: Points = (points**2).sum(axis=1)[:, None] - 2 * points @ others.T + (others**2).sum(axis=1)
    return np.maximum(squares, 0.0)


def _likelihoods(points: Points, given: Mapping[str, Points]) -> Points:
    """Log of how likely each point is in each Gaussian, up to a constant: (n_points, n_clusters).

    `roots` are the Cholesky factors of the precisions (k, width, width), or their diagonals (k, width).
    """
    found = []
    for weight, mean, root in zip(given["weights"], given["means"], given["roots"], strict=True):
        away = (points - mean) @ root if root.ndim == 2 else (points - mean) * root
        sides = np.diag(root) if root.ndim == 2 else root
        found.append(np.log(weight) + np.log(sides).sum() - 0.5 * (away**2).sum(axis=1))
    return np.column_stack(found)
