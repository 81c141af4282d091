"""Step 4 of a run, and the only reader of the sealed answers: score each candidate's predictions.

`python -m worker.recipes.evaluate --run-dir . --sealed-dir S` writes `scorecard.json` and puts the measured numbers
into `artifacts/metrics.json` and `artifacts/README.md`. Exits 65 with `error.json` when predictions do not fit the
sealed rows. What pictures are drawn from is `results.json` (fields of `agent.domain.results.Results`), which tells of
single sealed rows too; nothing that goes wrong with it costs the result.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from worker.recipes.common.job import leave, read_job, step
from worker.recipes.recipe import part


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Score a run's predictions against the sealed labels.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sealed-dir", type=Path, required=True)
    given = parser.parse_args(arguments)

    def act() -> None:
        job = read_job(given.run_dir)
        part(job.recipe, "score").score(job, given.sealed_dir)

    return step(given.run_dir, act)


if __name__ == "__main__":
    leave(main())
