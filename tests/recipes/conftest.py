"""Finished runs that several tests read, and a maker of fresh ones."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipes.folders import REPO, Make, RunFolder, make_run, texts_csv


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda *arguments, **spec: make_run(tmp_path, *arguments, **spec)


def _finished_once(
    name: str, begin: Callable[[Path], RunFolder], worker_id: str, factory: pytest.TempPathFactory, *, alone: bool
) -> RunFolder:
    """A finished run, trained by the first process of the suite that asks for it; the others read the same folder.

    `alone`: its training is a process of its own.
    """
    base = factory.getbasetemp()
    at = (base if worker_id == "master" else base.parent) / name
    with at.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not at.exists():
            shutil.rmtree(at.with_suffix(".begun"), ignore_errors=True)  # of one whose training failed
            folder = begin(at.with_suffix(".begun"))
            folder.all_steps() if alone else folder.all_steps_here()
            folder.dir.parent.rename(at)
    return RunFolder(at / "run", at / "sealed")


@pytest.fixture(scope="session")
def visits(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished tabular run on the first 4000 rows of the example. Read only."""
    lines = (REPO / "examples/doctor_visits.csv").read_text(encoding="utf-8").splitlines()[:4001]
    text = "\n".join(lines) + "\n"
    return _finished_once(
        "visits", lambda at: make_run(at, text, "visited_doctor"), worker_id, tmp_path_factory, alone=True
    )


@pytest.fixture(scope="session")
def docstrings(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished text run on 300 rows of the example. Read only."""

    def begin(at: Path) -> RunFolder:
        return make_run(at, texts_csv(), "library", recipe="text_classification")

    return _finished_once("docstrings", begin, worker_id, tmp_path_factory, alone=False)
