"""What the evaluation of clusters shows: values in the words of `agent.domain.results.Pictured`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from worker.recipes.clusters.methods import NAMES
from worker.recipes.clusters.rules import Labels
from worker.recipes.clusters.space import Points
from worker.recipes.common.numerals import counted
from worker.recipes.common.scoring import named, rounded, short
from worker.recipes.common.table import Table, is_missing, number

_MOST_POINTS = 900
_MOST_SHOWN = 7  # clusters with a colour of their own
_MOST_BARS = 30
_MOST_COLUMNS = 4
_MOST_GROUPS = 40


@dataclass(frozen=True)
class Measured:
    """The sealed rows: points, clusters, silhouettes, and what the column `labels` says where there is one."""

    points: Points
    numbers: Labels
    silhouettes: Points
    groups: list[str] | None
    labels: str

    @property
    def clusters(self) -> list[int]:
        """Their numbers; 0, which belongs to none, is the last."""
        return sorted(set(self.numbers.tolist()), key=lambda number_: number_ or 10**9)


def pictured(measured: Measured, cells: Table | None, tried: object, *, beaten: str) -> dict[str, Any]:
    """The map, what is typical of each cluster, what was tried, sizes, and the known groups."""
    pictures = [_map(measured), _typical(measured, cells), _scores(tried), _sizes(measured), _groups(measured)]
    return {
        "kind": "pictured",
        "rows": len(measured.points),
        "beaten": named(beaten),
        "words": _words(measured),
        "pictures": [{"view": view, "picture": picture} for view, picture in pictures if picture],
    }


def _name(cluster: int) -> str:
    return f"cluster {cluster}" if cluster else "none"


def _words(measured: Measured) -> str:
    named = [one for one in measured.clusters if one]
    shares = [float((measured.numbers == one).mean()) for one in named]
    apart = {one: float(measured.silhouettes[measured.numbers == one].mean()) for one in named}
    clear = max(apart, key=lambda one: apart[one], default=0)
    outside = float((measured.numbers == 0).mean())
    said = f"The sealed rows fall into {counted(len(named), 'cluster', 'clusters')}"
    said += f", each with {min(shares):.0%} to {max(shares):.0%} of them." if named else "."
    if clear:
        said += f" Cluster {clear} stands apart most clearly (silhouette {apart[clear]:.2f})."
    return said + (f" {outside:.0%} of the rows belong to none." if outside else "")


def _map(measured: Measured) -> tuple[str, dict[str, Any]]:
    """The points along the two directions in which they differ most."""
    away = measured.points - measured.points.mean(axis=0)
    _, sizes, directions = np.linalg.svd(away, full_matrices=False)
    flat = away @ directions[:2].T
    flat = np.column_stack([flat, np.zeros((len(flat), 2 - flat.shape[1]))]) if flat.shape[1] < 2 else flat
    part = float((sizes[:2] ** 2).sum() / max(float((sizes**2).sum()), 1e-12))
    drawn = np.unique(np.linspace(0, len(flat) - 1, min(len(flat), _MOST_POINTS)).astype(np.int64))
    shown = measured.clusters[:_MOST_SHOWN]
    groups = [_points(_name(one), flat[drawn][measured.numbers[drawn] == one]) for one in shown]
    others = ~np.isin(measured.numbers[drawn], shown)
    if others.any():
        groups.append(_points("other clusters", flat[drawn][others]))
    title = f"map of the clusters ({part:.0%} of variance)"
    labels = {"x_label": "first component", "y_label": "second component"}
    return "clusters", {"kind": "scatter", "title": title, "groups": groups, **labels}


def _points(name: str, at: Points) -> dict[str, Any]:
    return {"name": name, "x": [rounded(x) for x in at[:, 0]], "y": [rounded(y) for y in at[:, 1]]}


def _sizes(measured: Measured) -> tuple[str, dict[str, Any]]:
    shown = measured.clusters[:_MOST_BARS]
    shares = [rounded(100 * (measured.numbers == one).mean()) for one in shown]
    title = "rows in each cluster, in percent"
    return "sizes", {
        "kind": "bars",
        "title": title,
        "names": [_name(one) for one in shown],
        "groups": [{"name": "percent", "values": shares}],
    }


def _typical(measured: Measured, cells: Table | None) -> tuple[str, dict[str, Any] | None]:
    """Of the columns in which the clusters differ most: means, or the most frequent value and how frequent it is."""
    if cells is None:
        return "typical", None
    named = [one for one in measured.clusters if one][:_MOST_BARS]
    columns = {name: column for name, column in cells.columns.items() if name != "row_id"}
    apart = {name: _apart(column, measured.numbers) for name, column in columns.items()}
    shown = sorted(columns, key=lambda name: -apart[name])[:_MOST_COLUMNS]
    rows = []
    for one in named:
        at = np.flatnonzero(measured.numbers == one)
        rows.append([str(one), f"{len(at):,}", *(_usual([columns[name][row] for row in at]) for name in shown)])
    title = "typical of each cluster: mean, or most frequent"
    return "typical", {
        "kind": "table",
        "title": title,
        "columns": ["cluster", "rows", *map(short, shown)],
        "rows": rows,
    }


def _numbers(column: Sequence[str]) -> Points | None:
    """The cells as numbers, NaN where one is missing; None where some are something else."""
    found = [number(cell) for cell in column]
    if any(value is None and not is_missing(cell) for value, cell in zip(found, column, strict=True)):
        return None
    return np.array([np.nan if value is None else value for value in found])


def _apart(column: Sequence[str], numbers: Labels) -> float:
    """The part of a column's variance, or of the surprise in its values, that the clusters explain: 0 to 1."""
    values = _numbers(column)
    if values is None:
        from sklearn.metrics import normalized_mutual_info_score

        return float(normalized_mutual_info_score(list(column), numbers))
    known = ~np.isnan(values)
    values, of = values[known], numbers[known]
    whole = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    if not whole:
        return 0.0
    within = sum(float(((values[of == one] - values[of == one].mean()) ** 2).sum()) for one in set(of.tolist()))
    return 1.0 - within / whole


def _usual(column: Sequence[str]) -> str:
    values = _numbers(column)
    if values is not None:
        return f"{np.nanmean(values):.4g}" if (~np.isnan(values)).any() else "-"
    (value, times), *_ = Counter(cell.strip() for cell in column).most_common(1)
    return f"{short(value, 40) or 'missing'} ({times / len(column):.0%})"


def _scores(tried: object) -> tuple[str, dict[str, Any] | None]:
    """The silhouette by the number of clusters, of each method, as the training says; of one k, a bar a method."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in NAMES}
    for one in tried if isinstance(tried, list) else []:
        method, k, value = (one.get(name) for name in ("method", "k", "silhouette"))
        if method in found and isinstance(k, int) and isinstance(value, float) and -1 <= value <= 1:
            found[method].append((k, value))
    found = {name: sorted(pairs)[:100] for name, pairs in found.items() if pairs}
    if not found:
        return "scores", None
    if len({k for pairs in found.values() for k, _ in pairs}) == 1:
        values = [rounded(pairs[0][1]) for pairs in found.values()]
        bars = {"names": [NAMES[name] for name in found], "groups": [{"name": "silhouette", "values": values}]}
        return "scores", {"kind": "bars", "title": "silhouette by method (training)", **bars}
    lines = [
        {"name": NAMES[name], "x": [float(k) for k, _ in pairs], "y": [rounded(y) for _, y in pairs], "dots": True}
        for name, pairs in found.items()
    ]
    labels = {"x_label": "number of clusters", "y_label": "silhouette"}
    return "scores", {"kind": "lines", "title": "silhouette by k (training)", "lines": lines, **labels}


def _groups(measured: Measured) -> tuple[str, dict[str, Any] | None]:
    """How the known groups fall into the clusters."""
    if measured.groups is None:
        return "confusion", None
    rows = [name for name, _ in Counter(measured.groups).most_common(_MOST_GROUPS)]
    columns = measured.clusters[:_MOST_GROUPS]
    counts = Counter(zip(measured.groups, measured.numbers.tolist(), strict=True))
    return "confusion", {
        "kind": "matrix",
        "title": f"clusters and {short(measured.labels, 40)}",
        "rows": [short(name) or "missing" for name in rows],
        "columns": [_name(one) for one in columns],
        "counts": [[float(counts[group, one]) for one in columns] for group in rows],
        "row_label": short(measured.labels, 40),
        "column_label": "cluster",
    }
