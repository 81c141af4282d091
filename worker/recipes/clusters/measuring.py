"""How well clusters fit: silhouettes of points, and agreement with groups that are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from worker.recipes.clusters.rules import Labels
from worker.recipes.clusters.space import Points


def silhouettes(points: Points, labels: Labels) -> Points:
    """The silhouette of each point, (n_points,): how much nearer its own cluster is than the next one, -1 to 1.

    It is 0 for a point that belongs to no cluster, is alone in its own, or where there is but one cluster.
    """
    from sklearn.metrics import silhouette_samples

    found = np.zeros(len(points))
    there = labels > 0
    kinds = len(set(labels[there].tolist()))
    if 2 <= kinds < there.sum():
        found[there] = silhouette_samples(points[there], labels[there])
    return found


def agreement(groups: Sequence[str] | Labels, labels: Labels) -> dict[str, float]:
    """The adjusted Rand index and normalised mutual information of clusters with known groups."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "ari": float(adjusted_rand_score(groups, labels)),
        "nmi": float(normalized_mutual_info_score(groups, labels)),
    }
