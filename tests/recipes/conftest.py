"""Finished runs that several tests read, and a maker of fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.folders import REPO, Make, RunFolder, make_run, texts_csv


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda *arguments, **spec: make_run(tmp_path, *arguments, **spec)


@pytest.fixture(scope="session")
def visits(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished tabular run on the first 4000 rows of the example. Read only."""
    lines = (REPO / "examples/doctor_visits.csv").read_text(encoding="utf-8").splitlines()[:4001]
    folder = make_run(tmp_path_factory.mktemp("visits"), "\n".join(lines) + "\n", "visited_doctor")
    folder.all_steps()
    return folder


@pytest.fixture(scope="session")
def docstrings(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished text run on 300 rows of the example. Read only."""
    folder = make_run(tmp_path_factory.mktemp("docs"), texts_csv(), "library", recipe="text_classification")
    folder.all_steps()
    return folder
