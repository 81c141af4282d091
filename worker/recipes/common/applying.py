"""A finished model answers for many rows: what an evaluation alone and the prediction of a whole file do, not training.

`model.tar` in the run's folder is the artifact of the run that made it. Called by `worker.recipes.entry`.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainyard import TrainingRuntime
from worker.recipes.common.annotations import IMAGE
from worker.recipes.common.job import BadSettings, Job
from worker.recipes.common.numerals import counted
from worker.recipes.common.predict import answers_of, load_model, predict_file
from worker.recipes.common.table import BadData, read_table, write_rows

_TAR, _MODEL = "model.tar", "model"


def predict_source(job: Job, runtime: TrainingRuntime) -> None:
    """Leave `artifacts/predictions.csv`: the rows of the data with the answers. Raises: BadData, BadSettings."""
    job.artifacts.mkdir(exist_ok=True)
    going = _Reported(runtime, f"predictions with the model of {_made_by(job)}")
    source = job.run_dir / job.data
    rows = predict_file(_load(job), source, job.artifacts / "predictions.csv", going=going, name=job.dataset_name)
    going.end(job.artifacts / "predictions.csv")
    runtime.log(f"Predicted {counted(rows, 'row', 'rows')}.")


def predict_test(job: Job, runtime: TrainingRuntime) -> None:
    """Leave `predictions/model.csv` for the sealed rows, and them with their answers as an artifact.

    Raises: BadData, BadSettings.
    """
    model, table = _load(job), read_table(job.run_dir / "data/test.csv", delimiter=",")
    missing = [name for name in model.needs if name not in table.columns]
    if missing:
        names = ", ".join(f"“{name}”" for name in missing)
        raise BadData(f"{job.dataset_name} has no column {names}, which the model of {_made_by(job)} reads.")
    going = _Reported(runtime, f"evaluation of the model of {_made_by(job)}")
    columns = {name: table.columns[name] for name in model.needs}
    if IMAGE in columns:
        columns[IMAGE] = [str(job.run_dir / cell) for cell in columns[IMAGE]]
    (job.run_dir / "predictions").mkdir(exist_ok=True)
    out = job.run_dir / "predictions" / "model.csv"
    answers = answers_of(model, columns, table.rows, going)
    header = ["row_id", "label", *model.added[1:]]
    write_rows(out, header, ([at, *cells] for at, cells in zip(table.columns["row_id"], answers, strict=False)))
    going.end(out)
    job.artifacts.mkdir(exist_ok=True)
    shutil.copyfile(out, job.artifacts / "predictions.csv")
    kept = job.run_dir / _MODEL / "config.json"
    if kept.is_file():  # which candidate of its run it is
        shutil.copyfile(kept, job.artifacts / "config.json")


def _load(job: Job) -> Any:
    """The model of the run, unpacked beside the data."""
    folder = job.run_dir / _MODEL
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(job.run_dir / _TAR) as tar:
        tar.extractall(folder, filter="data")
    if not (folder / "model.py").is_file():
        raise BadSettings(f"Run {_made_by(job)} left no model.py, so nothing can be predicted with it.")
    return load_model(folder)


def _made_by(job: Job) -> str:
    config: dict[str, Any] = json.loads((job.run_dir / "config.json").read_text(encoding="utf-8"))
    return str(config["spec"]["model"]["run"])


class _Reported:
    """Says how many rows are done, and ends between two batches where it is asked to."""

    def __init__(self, runtime: TrainingRuntime, what: str) -> None:
        self._runtime, self._what = runtime, what
        self._began, self._stopped = 0.0, False

    def __call__(self, done: int, rows: int) -> bool:
        """Before each batch, and after the last; whether to go on."""
        if not self._began:
            self._runtime.start(self._what, total_steps=rows)
            self._began = time.monotonic()
        if done:
            self._runtime.log_metrics(done, rows_a_second=done / max(time.monotonic() - self._began, 1e-3))
        self._stopped = done < rows and self._runtime.should_stop
        return not self._stopped

    def end(self, out: Path) -> None:
        """Half a file is none."""
        if self._stopped:
            out.unlink(missing_ok=True)
        self._runtime.finish("stopped" if self._stopped else "completed")


APPLIED: Mapping[str, Callable[[Job, TrainingRuntime], None]] = {
    "evaluation": predict_test,
    "prediction": predict_source,
}
