"""Writes real data sets as files, one function a task type: from data that come with installed libraries.

Each returns the path that it wrote. Used by `make demo TASK=…` and by the tests of builds.
"""

from __future__ import annotations

import csv
from pathlib import Path

from sklearn.datasets import load_wine


def clustering(folder: Path) -> Path:
    """178 wines of three growers (scikit-learn): “cluster wine.csv, labels=grower”."""
    wine = load_wine()
    names = [*(str(name).replace("/", "_") for name in wine.feature_names), "grower"]
    path = folder / "wine.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(
            [*row, f"grower {code + 1}"] for row, code in zip(wine.data.tolist(), wine.target, strict=True)
        )
    return path
