"""The finished model: rows in, the number of each one's cluster out. Needs numpy alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.recipes.clusters.rules import Labels, load_rule
from worker.recipes.clusters.space import space_from
from worker.recipes.common.estimators import loading


@dataclass(frozen=True)
class Clusters:
    """The number of each row's cluster, 0 for none: (n_rows,)."""

    numbers: Labels

    def said(self) -> list[dict[str, Any]]:
        """One answer a row."""
        return [{"kind": "cluster", "cluster": number} for number in self.numbers.tolist()]

    def cells(self) -> Iterator[list[str]]:
        """The same as cells."""
        for number in self.numbers.tolist():
            yield [str(number)]


class Model:
    """`needs` are the columns that it reads, `added` those that its answers make."""

    added: Sequence[str] = ["prediction"]

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self._space = space_from(description["space"])
        self._rule = load_rule(folder)
        self.needs = self._space.columns

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Clusters:
        """An answer for each row."""
        return Clusters(self._rule.assign(self._space.points(columns)))


load = loading(Model)
