"""Finds clusters: k-means, Gaussian mixtures, Ward and HDBSCAN of scikit-learn, each left as a `Rule`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from worker.recipes.clusters.rules import Labels, Rule
from worker.recipes.clusters.space import Points

NAMES = {"kmeans": "k-means", "gmm": "Gaussian mixture", "ward": "Ward", "hdbscan": "HDBSCAN"}
METHODS = tuple(NAMES)  # the simplest first
MOST_TRIED = 3_000  # rows of a candidate
_MOST_ROWS = {"kmeans": 100_000, "gmm": 50_000, "ward": MOST_TRIED, "hdbscan": MOST_TRIED}  # more take too long
_MIXTURE_STARTS = 2  # each takes long
_ROWS_A_COLUMN = 5  # of a cluster, from which its Gaussian may have a full covariance


@dataclass(frozen=True)
class Found:
    """A rule, and how well a mixture of Gaussians describes the points (lower is better); NaN for other methods."""

    rule: Rule
    bic: float = math.nan


def find(method: str, points: Points, size: int, *, seed: int, starts: int = 5) -> Found | None:
    """What a method finds in points (n_points, width); None where it finds fewer than two clusters.

    `size` is how many clusters there are to be; of HDBSCAN, which counts them itself, the least points of one.
    """
    points = sample(points, _MOST_ROWS[method], seed)
    if method == "hdbscan":
        return _dense(points, size)
    if len(points) <= size:
        return None
    if method == "gmm":
        return _mixture(points, size, seed, min(starts, _MIXTURE_STARTS))
    if method == "kmeans":
        from sklearn.cluster import KMeans

        return _around(KMeans(size, n_init=starts, random_state=seed).fit(points).cluster_centers_, points)
    from sklearn.cluster import AgglomerativeClustering

    labels = AgglomerativeClustering(size, linkage="ward").fit(points).labels_
    return _around(np.array([points[labels == label].mean(axis=0) for label in range(size)]), points)


def sample(points: Points, most: int, seed: int) -> Points:
    """At most so many of the points; a smaller sample is the beginning of a larger one."""
    return points if len(points) <= most else points[np.random.default_rng(seed).permutation(len(points))[:most]]


def _around(centroids: Points, points: Points) -> Found:
    rule = Rule({"centroids": centroids}, np.arange(1, len(centroids) + 1))
    return Found(rule.renumbered(points))


def _mixture(points: Points, k: int, seed: int, starts: int) -> Found:
    from sklearn.mixture import GaussianMixture

    shape = "full" if len(points) >= k * points.shape[1] * _ROWS_A_COLUMN else "diag"
    mixture = GaussianMixture(k, covariance_type=shape, n_init=starts, reg_covar=1e-4, random_state=seed).fit(points)
    arrays = {"weights": mixture.weights_, "means": mixture.means_, "roots": mixture.precisions_cholesky_}
    rule = Rule(arrays, np.arange(1, k + 1))
    return Found(rule.renumbered(points), float(mixture.bic(points)))


def _dense(points: Points, size: int) -> Found | None:
    from sklearn.cluster import HDBSCAN
    from sklearn.neighbors import NearestNeighbors

    if len(points) <= size:
        return None
    labels: Labels = HDBSCAN(min_cluster_size=size, copy=True).fit(points).labels_
    members, owners = points[labels >= 0], labels[labels >= 0]
    if len(set(owners.tolist())) < 2:
        return None
    apart, _ = NearestNeighbors(n_neighbors=2).fit(members).kneighbors(members)
    reach = np.array([apart[owners == owner, 1].max() for owner in range(owners.max() + 1)])
    arrays = {"members": members, "owners": owners.astype(np.float64), "reach": reach}
    return Found(Rule(arrays, np.arange(1, len(reach) + 1)).renumbered(points))
