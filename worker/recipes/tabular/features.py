"""Which columns of the training rows a tabular model uses, and how: decided once, stored as plain JSON."""

from __future__ import annotations

import re

from worker.recipes.common.columns import describe, values_of
from worker.recipes.common.table import BadData, Table
from worker.recipes.tabular.encoding import Feature

_MOST_CATEGORIES = 200
_WHY_NOT = {
    "identifier": "looks like an identifier",
    "constant": "always the same",
    "empty": "no value",
    "image": "an image; the tabular recipe does not read it",
    "text": "free text; the tabular recipe does not read it",
}


def choose_features(table: Table, target: str) -> tuple[list[Feature], list[str]]:
    """The features, and a few words on each column left out. Raises: BadData when none is left."""
    features: list[Feature] = []
    ignored: list[str] = []
    for name in table.names:
        if name == target:
            continue
        kind = describe(table, name)["kind"]
        if kind in _WHY_NOT:
            ignored.append(f"{name} ({_WHY_NOT[kind]})")
        elif kind in {"number", "datetime"}:
            features.append(_plain(name, kind, table.columns[name]))
        else:
            features.append({"column": name, "kind": "category", "categories": _categories(table, name)})
    if not features:
        purpose = f"predict “{target}” from" if target else "learn from"
        raise BadData(f"No column is left to {purpose}: {'; '.join(ignored)}.")
    return features, ignored


def _plain(name: str, kind: str, cells: list[str]) -> Feature:
    feature: Feature = {"column": name, "kind": kind}
    if kind == "datetime":
        firsts = [int(found[0]) for cell in cells if (found := re.match(r"\s*\d{1,2}(?!\d)", cell))]
        feature["day_first"] = any(first > 12 for first in firsts) or any("." in cell for cell in cells)
    return feature


def _categories(table: Table, name: str) -> list[str]:
    """The categories of a column, most frequent first; those beyond the 200th count as other."""
    return [category for category, _ in values_of(table, name).most_common(_MOST_CATEGORIES)]
