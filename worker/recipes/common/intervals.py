"""How sure a score is: what it would be on other test rows like these, by drawing rows with replacement.

Rows that belong together (of one person, of one series) are drawn together. The same rows are drawn for the model and
for the baseline, so that the interval of their difference leaves out what is hard for both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

_DRAWS, _MANY_DRAWS = 100, 300
_MANY_ROWS = 5_000  # from which fewer draws do, because they differ less
_SHARE = (2.5, 97.5)  # percent: an interval of 95 %

Places = NDArray[np.int64]
Score = Callable[[Places], float]


def intervals(
    model: Score, baseline: Score, rows: int, *, seed: int, lower: bool, groups: Sequence[Hashable] | None = None
) -> dict[str, list[float]]:
    """`interval` of the model's score and `gain`, that of how much better it is than the baseline.

    Scores are given positions of rows, in 0..rows, some of them several times; one that has no value there (a class is
    missing) is NaN and does not count. `lower`: a lower score is better. Empty with fewer than two groups.
    """
    members = _members(rows, groups)
    if len(members) < 2:
        return {}
    random = np.random.default_rng(seed)
    found = []
    for _ in range(_DRAWS if rows > _MANY_ROWS else _MANY_DRAWS):
        drawn = random.integers(0, len(members), len(members))
        at = drawn if groups is None else np.concatenate([members[group] for group in drawn])
        ours = model(at)
        found.append((ours, (baseline(at) - ours) if lower else (ours - baseline(at))))
    values = np.array([pair for pair in found if np.isfinite(pair).all()])  # (draws, 2)
    if len(values) < len(found) / 2:
        return {}
    low, high = np.percentile(values, _SHARE, axis=0)
    return {"interval": [float(low[0]), float(high[0])], "gain": [float(low[1]), float(high[1])]}


def _members(rows: int, groups: Sequence[Hashable] | None) -> list[Places]:
    """The rows of each group; without groups each row is one."""
    if groups is None:
        return [np.array([row]) for row in range(rows)]
    found: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        found.setdefault(group, []).append(row)
    return [np.array(places) for places in found.values()]
