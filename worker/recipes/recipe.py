"""Finds the parts of a recipe by name: `worker/recipes/<task>/` with inspect, prepare, train, score and predict.

- `inspect`: `fits(table, columns, target) -> float` how well this task suits a file (0: not at all); `problems(table,
  target)`, `describe(table, target)`, `warnings(table, target)`, `leaks(table, target)`, `effort(table, job)`.
  `NEEDS_TARGET = False` says that nothing is predicted; the target is then empty, and `describe` gives None. `WHOLE =
  True` says that a large file is read whole, as rows that were drawn from it would tell nothing, `OWN_SPLIT = True`
  that people cannot choose how it is split, `USUAL = True` that it says what is wrong with a target where no task fits.
  `HUB_TASK` is the Hub's name of the task where it is another one, empty where the Hub has none. Where a recipe knows
  better than the rules for all: `suggest_target(table, *, asked)`, a target found by signs of its own, and
  `source_of(table, target)`, the text that it reads, and `reads(table, target)`, other columns that it reads.
- `prepare`: `prepare(job, sealed_dir, *, keep_source)` splits the data and seals the answers of the test part.
- `train`: `train(job, runtime)` leaves predictions and artifacts.
- `score`: `score(job, sealed_dir, *, sealed)` measures predictions against the sealed answers.
- `predict`: `load(folder)`, the finished model; copied beside it as `model.py`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from worker.recipes.common.job import BadSettings

PARTS = ("inspect", "prepare", "train", "score", "predict")


def names() -> list[str]:
    """The recipes that are here, in the order of their names."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/train.py"))


def needs_target(recipe: str) -> bool:
    """Whether a column is predicted. Raises: BadSettings where there is no such recipe."""
    return bool(getattr(part(recipe, "inspect"), "NEEDS_TARGET", True))


def usual() -> str:
    """The recipe that judges a target where no task fits."""
    return next(name for name in names() if getattr(part(name, "inspect"), "USUAL", False))


def part(recipe: str, name: str) -> Any:
    """The module `name` of a recipe. Raises: BadSettings where there is no such recipe."""
    if recipe not in names():
        raise BadSettings(f"There is no recipe “{recipe}”. The recipes are: {', '.join(names())}.")
    return importlib.import_module(f"worker.recipes.{recipe}.{name}")
