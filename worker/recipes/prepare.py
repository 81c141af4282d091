"""Step 2 of a run: split the data and seal the answers of the test part.

`python -m worker.recipes.prepare --run-dir . --sealed-dir S` reads `data/source.csv`, writes the parts into `data/` and
the answers into S, then removes the source. Exits 65 with `error.json` when the data cannot be used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from worker.recipes.common.job import leave, read_job, step
from worker.recipes.recipe import part


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Split the data of a run and seal the test labels.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sealed-dir", type=Path, required=True)
    given = parser.parse_args(arguments)

    def act() -> None:
        job = read_job(given.run_dir)
        part(job.recipe, "prepare").prepare(job, given.sealed_dir)

    return step(given.run_dir, act)


if __name__ == "__main__":
    leave(main())
