"""The recipe of quantities on tables: real training on small real data."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from agent.domain.orders import NumberPrediction
from agent.domain.results import Pictured, Results
from agent.domain.runs import Run, RunSpec, RunState, Scorecard
from agent.runs.pictures.results import picture_of, views_of
from charts_render.alt_text import describe
from charts_render.render import render
from tests.recipes.folders import Make, RunFolder, apply_run, as_csv, make_run
from tests.recipes.test_tabular import predict
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import read_table
from worker.recipes.inspect import audit


def diabetes() -> str:
    """442 patients, ten columns, the progression of their disease. Source: scikit-learn."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    rows = ([*(f"{cell:.6f}" for cell in row), f"{value:g}"] for row, value in zip(data.data, data.target, strict=True))
    return "\n".join(",".join(cells) for cells in ([*data.feature_names, "progression"], *rows)) + "\n"


def wavy(rows: int = 1200) -> str:
    """A quantity that no linear model explains, and a column of days."""
    random = np.random.default_rng(3)
    x, kind = random.uniform(0, 10, rows), random.integers(0, 3, rows)
    price = 100 * np.sin(x) * (1 + kind) + random.normal(0, 5, rows) + 400
    lines = (f"{a:.4f},{'abc'[k]},{p:.3f}" for a, k, p in zip(x, kind, price, strict=True))
    return "x,kind,price\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = make_run(tmp_path_factory.mktemp("patients"), diabetes(), "progression", recipe="tabular_regression")
    folder.all_steps_here()
    return folder


def test_a_finished_model_is_measured_on_other_rows(patients: RunFolder, tmp_path: Path) -> None:
    """Of its own sealed rows the score is the one that its run measured, beside their mean."""
    sealed = {row["row_id"]: row["label"] for row in RunFolder(patients.sealed, patients.sealed).rows("labels.csv")}
    rows = [{**row, "progression": sealed[row.pop("row_id")]} for row in patients.rows("data/test.csv")]
    run = apply_run(tmp_path, patients, as_csv(rows), job="evaluation")
    assert (run.prepare_here(), run.train_here(), run.evaluate_here()) == (0, 0, 0)
    card, before = Scorecard.model_validate(run.json("scorecard.json")), patients.json("scorecard.json")
    assert card.model.value == pytest.approx(before["model"]["value"], rel=1e-6)
    assert [score.name for score in card.baselines] == ["mean"]
    assert card.test_rows == len(rows)
    assert not (run.dir / "data/source.csv").exists()
    assert "progression" not in run.rows("data/test.csv")[0]
    wrong = apply_run(tmp_path / "wrong", patients, "age,progression\n" + "1,2\n3,4\n" * 30, job="evaluation")
    assert (wrong.prepare_here(), wrong.train_here()) == (0, 65)
    assert "which the model of r-abc123 reads" in wrong.json("error.json")["text"]


def test_every_row_of_a_file_is_predicted_in_batches_and_a_stop_leaves_no_half_file(
    patients: RunFolder, tmp_path: Path
) -> None:
    rows = [{name: row[name] for name in row if name != "row_id"} for row in patients.rows("data/test.csv")] * 60
    run = apply_run(tmp_path / "all", patients, as_csv(rows), job="prediction")
    assert run.train_here() == 0
    found = run.rows("artifacts/predictions.csv")
    assert [row["age"] for row in found] == [row["age"] for row in rows]
    assert found[0]["prediction"] == found[len(rows) // 60]["prediction"]
    assert run.metrics()[-1]["step"] == len(rows)
    halted = apply_run(tmp_path / "some", patients, as_csv(rows), job="prediction")
    assert halted.stop_here_after(1) == 0
    if len(halted.metrics()) < 3:  # it was asked in time
        assert not (halted.dir / "artifacts/predictions.csv").exists()


def test_the_simpler_model_is_kept_where_boosting_is_no_better(patients: RunFolder) -> None:
    """Reference: linear models reach an R² of 0.48 here, LightGBM's defaults 0.39."""
    card = Scorecard.model_validate(patients.json("scorecard.json"))
    assert (card.metric, card.higher_is_better) == ("rmse", False)
    assert {score.name for score in card.baselines} == {"mean", "linear"}
    assert patients.json("artifacts/metrics.json")["chosen"] == "linear"
    assert 0.3 < card.all_metrics["r2"] < 0.65
    mean = next(score.value for score in card.baselines if score.name == "mean")
    assert card.model.value < 0.85 * mean
    assert card.best_baseline.name == "linear"
    assert set(card.all_metrics) == {"rmse", "mae", "r2"}


def test_boosting_is_kept_where_it_is_better(make: Make) -> None:
    run = make(wavy(), "price", recipe="tabular_regression")
    scorecard = Scorecard.model_validate(run.all_steps_here())
    assert scorecard.beats_baseline
    assert scorecard.all_metrics["r2"] > 0.9
    baseline, *rows = run.metrics()
    assert baseline["values"].keys() == {f"baseline/linear/valid_{name}" for name in ("rmse", "mae", "r2")}
    assert rows[0]["values"].keys() == {"train_rmse", "valid_rmse"}
    assert "lower is better" in (run.dir / "artifacts/README.md").read_text()


def test_what_is_predicted_alone_is_what_was_measured(
    patients: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = patients.dir / "data/test.csv"
    predict(patients.dir / "artifacts", str(test), "--out", str(tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        alone = {row["row_id"]: float(row["prediction"]) for row in csv.DictReader(file)}
    told = {row["row_id"]: float(row["label"]) for row in patients.rows("predictions/model.csv")}
    assert alone == pytest.approx(told, rel=1e-6)
    rows = [{key: value for key, value in row.items() if key != "row_id"} for row in patients.rows("data/test.csv")[:2]]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    assert predict_here(["--json", str(tmp_path / "rows.json")], patients.dir / "artifacts") == 0
    answers = json.loads(capsys.readouterr().out)
    assert [NumberPrediction.model_validate(one).value for one in answers] == pytest.approx([told["0"], told["1"]])


def test_the_result_has_pictures(patients: RunFolder) -> None:
    found = Results.model_validate(patients.json("results.json")).found
    assert isinstance(found, Pictured)
    assert views_of(found) == ("overview", "predicted", "residuals", "errors", "importance", "mistakes")
    assert found.words.startswith("Half of the predictions are within ")
    spec = RunSpec.model_validate(patients.json("config.json")["spec"])
    made = datetime(2026, 11, 23, tzinfo=UTC)
    run = Run(id="r-abc123", session_id="s", requester="u", state=RunState.SUCCEEDED, spec=spec, created_at=made)
    for view in views_of(found):
        sheet = picture_of(run, found, view)
        assert sheet is not None
        assert render(sheet).startswith(b"\x89PNG")
        assert describe(sheet)
    overview = picture_of(run, found, "overview")
    assert overview is not None
    assert len(overview.pictures) == 4


def test_both_parts_span_all_values(patients: RunFolder) -> None:
    train = [float(row["progression"]) for row in patients.rows("data/train.csv")]
    with (patients.sealed / "labels.csv").open(newline="") as file:
        sealed = [float(row["label"]) for row in csv.DictReader(file)]
    tenths = np.quantile(train + sealed, np.linspace(0, 1, 11))[1:-1]
    for part in (train, sealed):
        assert np.bincount(np.searchsorted(tenths, part), minlength=10).min() >= len(part) // 20
    assert "progression" not in patients.rows("data/test.csv")[0]


def test_the_audit_suggests_it_for_a_quantity(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(diabetes())
    table = read_table(tmp_path / "d.csv")
    report = audit(table, target="progression")
    assert report["suggested_task"] == "tabular_regression"
    assert report["problems"] == []
    assert report["target"]["spread"] == [25.0, 140.5, 346.0]
    (tmp_path / "w.csv").write_text(wavy())
    guessed = audit(read_table(tmp_path / "w.csv"), target="price")
    assert guessed["leaks"] == []


@pytest.mark.parametrize("copy", ["{:.1f}", "P{:.1f}", "{:.1f} cents"])
def test_a_copy_of_the_quantity_is_a_leak_however_it_is_written(copy: str, tmp_path: Path) -> None:
    copied = wavy().splitlines()
    rows = [f"{line},{copy.format(float(line.split(',')[-1]) * 100)}" for line in copied[1:]]
    (tmp_path / "l.csv").write_text("\n".join([copied[0] + ",cents", *rows]) + "\n")
    (leak,) = audit(read_table(tmp_path / "l.csv"), target="price")["leaks"]
    assert (leak["column"], leak["accuracy"] > 0.98) == ("cents", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n" + "".join(f"{n},{'high' if n % 2 else n}\n" for n in range(60)), "holds what is no number (“high”)"),
        ("x,y\n" + "".join(f"{n % 9},5\n" for n in range(60)), "is always 5; there is nothing to predict"),
        ("x,y\n" + "".join(f"{n % 9},{'' if n > 3 else n}\n" for n in range(60)), "There are only 4 rows"),
        ("x,y\n" + "".join(f"{n},{n}\n" for n in range(9)), "There are only 9 rows"),
    ],
)
def test_a_target_that_cannot_work_is_refused_with_a_sentence(text: str, said: str, make: Make) -> None:
    run = make(text, "y", recipe="tabular_regression")
    assert run.prepare_here() == 65
    assert said in run.json("error.json")["text"]
