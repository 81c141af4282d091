"""What a clustering is asked for, checked against its table: settings, the columns that it reads, known groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from worker.recipes.clusters.methods import METHODS
from worker.recipes.common.columns import FEWEST_ROWS, find_column
from worker.recipes.common.job import BadSettings, Job, Setting, read_settings
from worker.recipes.common.parting import names_parts
from worker.recipes.common.table import BadData, Table
from worker.recipes.tabular.encoding import Feature
from worker.recipes.tabular.features import choose_features

SETTINGS = {
    "k": Setting(0, 0, 1000, ("clusters", "n_clusters", "groups")),  # 0: found
    "max_k": Setting(10, 2, 100),
    "method": Setting(None, also=("algorithm",)),
    "labels": Setting(None, also=("label", "labels_column", "truth")),
    "resamples": Setting(5, 2, 50, ("bootstraps",)),
}
_USUAL_NAMES = {"target", "label", "labels", "class", "category", "species", "kind", "group", "cluster", "segment"}
_MOST_GROUPS = 50


@dataclass(frozen=True)
class Asked:
    """A request that can be carried out: `labels` has the known groups, `ignored` says why columns are not read."""

    settings: dict[str, Any]
    features: list[Feature]
    ignored: list[str]
    labels: str | None

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that are tried, k-means always: it is what the others must beat."""
        wanted = self.settings["method"]
        if wanted:
            return tuple(name for name in METHODS if name in {"kmeans", wanted})
        return METHODS[:-1] if self.settings["k"] else METHODS

    def counts(self, rows: int) -> list[int]:
        """The numbers of clusters that are tried."""
        k = self.settings["k"]
        return [k] if k else list(range(2, min(self.settings["max_k"], rows // 4) + 1))


def asked_of(table: Table, job: Job) -> Asked:
    """Raises: BadData, BadSettings."""
    settings = settings_of(job.settings)
    refuse_few(table)
    labels = find_column(table, settings["labels"], role="labels") if settings["labels"] else None
    dropped = {find_column(table, name, role="") for name in job.drop_columns} | {labels, "row_id"}
    dropped |= {name for name in table.names if names_parts(table, name)}
    names = [name for name in table.names if name not in dropped]
    left = Table(names, {name: table.columns[name] for name in names}, table.lines, table.encoding, table.delimiter)
    features, ignored = choose_features(left, "")
    if settings["k"] > table.rows // 4:
        raise BadSettings(f"k = {settings['k']} is too many for {table.rows:,} rows: a cluster needs at least four.")
    return Asked(settings, features, ignored, labels)


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each setting. Raises: BadSettings."""
    settings = read_settings(given, SETTINGS)
    if settings["k"] == 1:
        raise BadSettings("One cluster holds everything; k takes 2 or more, or leave it out and it is found.")
    if settings["method"] is not None:
        settings["method"] = settings["method"].lower().replace("-", "")
        if settings["method"] not in METHODS:
            raise BadSettings(f"There is no method “{settings['method']}”. The methods are: {', '.join(METHODS)}.")
    if settings["method"] == "hdbscan" and settings["k"]:
        raise BadSettings("HDBSCAN finds the number of clusters itself; leave k out, or take another method.")
    return settings


def refuse_few(table: Table) -> None:
    """Raises: BadData."""
    if table.rows < FEWEST_ROWS:
        raise BadData(f"There are only {table.rows} rows; at least {FEWEST_ROWS} are needed to find clusters.")
    if len(set(zip(*table.columns.values(), strict=True))) < 4:
        raise BadData("Almost all rows are equal; there are no clusters to find.")


def known_groups(columns: list[dict[str, Any]]) -> list[str]:
    """Columns that look as if they named groups that are known already."""
    return [
        column["name"]
        for column in columns
        if column["name"].lower() in _USUAL_NAMES and 2 <= column["unique"] <= _MOST_GROUPS
    ]
