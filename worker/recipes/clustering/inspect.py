"""What this recipe says of a file before its rows are clustered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worker.recipes.clusters.methods import MOST_TRIED
from worker.recipes.clusters.reading import asked_of, known_groups
from worker.recipes.common.columns import described
from worker.recipes.common.job import Job
from worker.recipes.common.table import BadData, Table

READS_TEXT = False
NEEDS_TARGET = False
OWN_SPLIT = True
HUB_TASK = ""


def fits(_table: Table, _columns: list[dict[str, Any]], _target: str) -> float:
    """It is never guessed: who names a target wants it predicted."""
    return 0.0


def problems(table: Table, _target: str) -> list[str]:
    """Sentences that stop a clustering of this table."""
    try:
        asked_of(table, Job("", Path(), "", "clustering", "", None, (), {}, 0, 0.2, "", ""))
    except BadData as error:
        return [str(error)]
    return []


def warnings(table: Table, _target: str) -> list[str]:
    """Sentences that people should read first: columns that may name the groups already."""
    return [
        f"“{name}” may name groups that are known. It is read like any other column; say labels={name} and it is "
        "sealed, and the clusters are compared with it."
        for name in known_groups(described(table))
    ]


def describe(_table: Table, _target: str) -> None:
    """There is no target."""


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """Nothing is predicted, so nothing gives it away."""
    return []


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    asked = asked_of(table, job)
    tried = len(asked.counts(table.rows)) * len(asked.methods)
    part = min(1.0, 1.25 * MOST_TRIED / table.rows)
    return part * tried / 36 * (1 + float(asked.settings["resamples"])) / 6
