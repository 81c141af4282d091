"""What `train.py` of a bundle calls: run the recipe that `config.json` names.

Under Trainyard the data is split already and the labels are elsewhere. Alone, it also splits first and measures last,
and says that the labels were not sealed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trainyard import TrainingRuntime
from worker.recipes.common.applying import APPLIED
from worker.recipes.common.job import Job, read_job, step
from worker.recipes.networks.ranks import join
from worker.recipes.recipe import part


def train(job: Job) -> None:
    """Train with the recipe of the job, or let a finished model answer. Raises: BadData, BadSettings."""
    runtime = TrainingRuntime(run_id=job.run, run_dir=job.run_dir)
    runtime.register_graceful_shutdown()
    join()
    act = APPLIED.get(job.kind) or part(job.recipe, "train").train
    act(job, runtime)


def train_alone(job: Job) -> None:
    """Split, train and measure in one process. Raises: BadData, BadSettings."""
    labels = job.run_dir / "sealed"
    print(
        "No Trainyard here: splitting now. The test labels are not sealed; they lie in sealed/labels.csv.", flush=True
    )
    part(job.recipe, "prepare").prepare(job, labels, keep_source=True)
    train(job)
    part(job.recipe, "score").score(job, labels, sealed=False)
    print((job.run_dir / "scorecard.json").read_text(encoding="utf-8"), flush=True)


def main() -> None:
    """Train in the folder of this run, and exit: 0, or 65 with `error.json` for data or settings that cannot work."""
    run_dir = Path(os.environ.get("TRAINYARD_RUN_DIR") or Path.cwd())
    job = read_job(run_dir)
    split = (run_dir / "data/train.csv").exists() and not (run_dir / "sealed").exists()
    alone = job.kind not in APPLIED and not split
    sys.exit(step(run_dir, lambda: train_alone(job) if alone else train(job)))
