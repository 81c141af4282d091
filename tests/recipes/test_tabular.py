"""The tabular recipe: real training on small real data, step by step as a supervisor runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent.domain.orders import LabelPrediction
from agent.domain.runs import Scorecard
from tests.recipes.folders import (
    REPO,
    Make,
    RunFolder,
    as_csv,
    imports_of_ours,
    predict,
    predict_within,
    sklearn_csv,
)  # fmt: skip
from worker.recipes.common.predict import main as predict_here


def test_the_model_beats_both_baselines_on_sealed_rows(visits: RunFolder) -> None:
    card = Scorecard.model_validate(visits.json("scorecard.json"))
    assert card.metric == "roc_auc"
    assert [score.name for score in card.baselines] == ["majority", "linear"]
    assert card.baselines[0].value == 0.5
    assert set(card.all_metrics) == {"roc_auc", "accuracy", "macro_f1", "log_loss"}
    assert card.test_rows == len(visits.rows("data/test.csv")) == visits.json("data/split.json")["test_rows"]
    assert 0.55 < card.model.value < 0.9
    readme = (visits.dir / "artifacts/README.md").read_text()
    assert f"{card.model.value:.4f}" in readme
    assert "pipeline_tag: tabular-classification\ntags: [trainyard]\n" in readme
    assert visits.json("artifacts/metrics.json")["test"]["model"] == card.all_metrics


def test_every_round_is_a_row_of_metrics(visits: RunFolder) -> None:
    baseline, *rows = visits.metrics()
    assert baseline["step"] == 0
    assert {"baseline/linear/valid_loss", "baseline/linear/valid_auc"} <= set(baseline["values"])
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert set(rows[0]["values"]) == {"train_loss", "train_auc", "valid_loss", "valid_auc"}
    assert visits.json("meta.json")["total_steps"] == 40
    assert visits.json("meta.json")["status"] == "completed"


def test_sealed_labels_and_the_source_are_not_in_the_run_folder(visits: RunFolder) -> None:
    assert not (visits.dir / "data/source.csv").exists()
    assert list(visits.dir.rglob("labels.csv")) == []
    assert "visited_doctor" not in visits.rows("data/test.csv")[0]
    assert len((visits.sealed / "labels.csv").read_text().splitlines()) == len(visits.rows("data/test.csv")) + 1


def test_equal_inputs_stay_on_one_side(visits: RunFolder) -> None:
    seen = {tuple(row[name] for name in row if name != "visited_doctor") for row in visits.rows("data/train.csv")}
    test = {tuple(row[name] for name in row if name != "row_id") for row in visits.rows("data/test.csv")}
    assert seen
    assert not seen & test


def test_predicting_alone_gives_the_predictions_of_the_run(visits: RunFolder, tmp_path: Path) -> None:
    predict(visits.dir / "artifacts", str(visits.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv"))
    alone = (tmp_path / "out.csv").read_text().splitlines()
    stored = visits.rows("predictions/model.csv")
    assert alone[0].endswith("health,prediction,p_no,p_yes")
    for line, row in zip(alone[1:], stored, strict=True):
        assert line.split(",")[-3:] == [row["label"], row["p_no"], row["p_yes"]]


def test_predicting_rows_of_json(visits: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{k: v for k, v in row.items() if k != "row_id"} for row in visits.rows("data/test.csv")[:3]]
    rows[1]["health"] = "never seen before"
    rows[2]["log_coinsurance"] = ""
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    assert predict_here(["--json", str(tmp_path / "rows.json")], visits.dir / "artifacts") == 0
    answers = json.loads(capsys.readouterr().out)
    read = [LabelPrediction.model_validate(answer) for answer in answers]
    assert read[0].label == visits.rows("predictions/model.csv")[0]["label"]
    assert all(sum(share for _, share in answer.probabilities) == pytest.approx(1) for answer in read)

    (tmp_path / "rows.json").write_text(json.dumps([{"health": "good"}]))
    assert predict_here(["--json", str(tmp_path / "rows.json")], visits.dir / "artifacts") == 65
    said = json.loads(capsys.readouterr().out)["error"]
    assert "Row 1 has no column “log_coinsurance”" in said
    assert "The model needs: log_coinsurance, individual_deductible_plan" in said


def test_a_file_without_a_needed_column_is_refused(
    visits: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.csv").write_text("health,log_coinsurance\ngood,1\n")
    assert predict_here([str(tmp_path / "new.csv")], visits.dir / "artifacts") == 65
    said = json.loads(capsys.readouterr().out)["error"]
    assert "new.csv has no column “individual_deductible_plan”" in said


def drop_row(text: str) -> str:
    return "\n".join(text.splitlines()[:-1]) + "\n"


def repeat_row(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines, lines[-1]]) + "\n"


def replace_row(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:-1], "999999," + lines[-1].partition(",")[2]]) + "\n"


def flip_label(text: str) -> str:
    head, first, *rest = text.splitlines()
    row_id, label, shares = first.split(",", 2)
    return "\n".join([head, f"{row_id},{'yes' if label == 'no' else 'no'},{shares}", *rest]) + "\n"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (drop_row, "lacks 1 of"),
        (repeat_row, "more than once"),
        (replace_row, "not asked for (row_id 999999)"),
        (flip_label, "not the most probable class"),
        (lambda text: text.replace("0.", "7.", 1), "no probability from 0 to 1"),
    ],
)  # fmt: skip
def test_tampered_predictions_are_refused(change, sentence: str, visits: RunFolder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run = visits.copy(tmp_path)
    (run.dir / "scorecard.json").unlink()
    path = run.dir / "predictions/model.csv"
    path.write_text(change(path.read_text()))
    assert run.evaluate_here() == 65
    error = run.json("error.json")
    assert error["kind"] == "bad_data"
    assert sentence in error["text"]
    assert not (run.dir / "scorecard.json").exists()


def test_logistic_regression_is_kept_where_it_is_better(make: Make, tmp_path: Path) -> None:
    run = make(sklearn_csv("wine"), "kind")
    card = run.all_steps_here()
    assert card["metric"] == "macro_f1"
    facts = run.json("artifacts/metrics.json")
    assert facts["chosen"] == "linear"
    assert facts["why"].startswith("Logistic regression is kept")
    assert "over the folds" in facts["why"]
    assert run.json("artifacts/config.json")["chosen"] == facts["why"]
    assert card["model"]["value"] == {b["name"]: b["value"] for b in card["baselines"]}["linear"]
    assert [score["name"] for score in card["not_kept"]] == ["lightgbm"]
    assert (
        run.json("results.json")["found"]["beaten"] == "LightGBM, not kept"
    )  # a model beside itself would say nothing
    assert card["not_kept"][0]["value"] > card["baselines"][0]["value"]  # it was trained, and measured on the same rows
    assert (
        f"| lightgbm (not kept) | {card['not_kept'][0]['value']:.4f}" in (run.dir / "artifacts/README.md").read_text()
    )
    assert (run.dir / "artifacts/model.skops").exists()
    asked = [str(run.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv")]
    assert predict_within(run.dir / "artifacts", *asked) == 0
    stored = [row["label"] for row in run.rows("predictions/model.csv")]
    assert [line.split(",")[-4] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]] == stored


USED = """
import sys
from pathlib import Path
from worker.recipes.common.estimators import read_estimator, write_estimator
from worker.warm.preload import load
from sklearn.linear_model import Ridge
write_estimator(Ridge(7.0), Path("m.skops"))
assert read_estimator(Path("m.skops")).alpha == 7.0
assert load("tabular") == []
print("torch" in sys.modules, "skops.io" in sys.modules)
"""


def test_what_a_table_needs_does_not_load_torch(tmp_path: Path) -> None:
    ran, env = [sys.executable, "-c", USED], {"PYTHONPATH": str(REPO)}
    done = subprocess.run(ran, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "False True\n", done.stderr


def mixed_rows(count: int) -> list[dict[str, object]]:
    """Gaps, categories, dates, an identifier and a text; the class is a band of amounts that depends on the city."""
    random = np.random.default_rng(3)
    cities = ["Rome", "Oslo", "Lima", "São Paulo"]
    rows: list[dict[str, object]] = []
    for number in range(count):
        city, amount = cities[int(random.integers(4))], float(random.normal(50, 20))
        low = 30 if city in {"Rome", "Lima"} else 45
        label = "late" if low < amount < low + 30 else "on time"
        rows.append(
            {"order_id": 5000 + number, "city": city if number % 13 else "",
             "amount": f"{amount:.2f}" if number % 11 else "",
             "ordered": f"2024-{number % 12 + 1:02d}-15 10:30", "note": f"please leave it at adapter {number} thanks",
             "spare": "x", "status": label}
        )  # fmt: skip
    return rows


def test_gaps_categories_dates_and_useless_columns(make: Make, tmp_path: Path) -> None:
    run = make(as_csv(mixed_rows(400)), "status", drop_columns=["spare"])
    card = run.all_steps_here()
    facts = run.json("artifacts/metrics.json")
    assert facts["chosen"] == "lightgbm"
    assert card["model"]["value"] > 0.8
    features = {feature["column"]: feature["kind"] for feature in run.json("artifacts/model.json")["features"]}
    assert features == {"city": "category", "amount": "number", "ordered": "datetime"}
    assert "spare" not in run.rows("data/train.csv")[0]
    assert any("order_id" in words for words in facts["ignored"])
    asked = [str(run.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv")]
    assert predict_within(run.dir / "artifacts", *asked) == 0
    stored = [row["p_late"] for row in run.rows("predictions/model.csv")]
    assert [line.split(",")[-2] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]] == stored


def test_the_same_seed_gives_the_same_run(make: Make, visits: RunFolder, tmp_path: Path) -> None:
    again = visits.copy(tmp_path)
    for old in (again.dir / "predictions").iterdir():
        old.unlink()
    assert again.train_here() == 0
    for name in ("model", "linear"):
        assert again.rows(f"predictions/{name}.csv") == visits.rows(f"predictions/{name}.csv")


def test_settings_are_honoured(make: Make) -> None:
    settings = {"n_estimators": 7, "num_leaves": 4, "learning_rate": "0.3", "max_depth": None}
    run = make(sklearn_csv("breast_cancer"), "kind", settings=settings)
    assert (run.prepare_here(), run.train_here()) == (0, 0)
    assert run.json("meta.json")["total_steps"] == 7
    assert len(run.metrics()) == 1 + 7  # the baseline, then the rounds
    booster = next(run.dir.glob("checkpoints/*/lightgbm.txt")).read_text()
    assert "[learning_rate: 0.3]" in booster
    assert "[num_leaves: 4]" in booster
    assert run.json("artifacts/config.json")["settings"]["rounds"] == 7


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rat": 0.1}, "There is no setting “learning_rat”. Did you mean “learning_rate”, which takes"),
        ({"rounds": 1.5}, "The setting rounds takes a whole number from 1"),
        ({"learning_rate": "fast"}, "not 'fast'"),
        ({"feature_fraction": 3}, "a number from 0.01 to 1"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused(
    settings: dict[str, object], sentence: str, visits: RunFolder, tmp_path: Path
) -> None:
    run = visits.copy(tmp_path)
    config = run.json("config.json")
    config["spec"]["settings"] = settings
    (run.dir / "config.json").write_text(json.dumps(config))
    assert run.train_here() == 65
    error = run.json("error.json")
    assert error["kind"] == "user_error"
    assert sentence in error["text"]


@pytest.mark.parametrize(
    ("text", "target", "sentence"),
    [
        ("a,kind\n" + "1,x\n2,y\n" * 20, "sort", "no target column “sort”. The columns are: a, kind"),
        ("a,kind\n" + "1,x\n" * 20 + "3,z\n", "kind", "only one row (“z”)"),
        ("a,kind\n" + "1,x\n2,\n" * 20, "kind", "always “x”"),
        ("a,b\n1,2\n3\n", "b", "line 3 has 1"),
        ("kind\n" + "x\ny\n" * 20, "kind", "No column is left"),
    ],
)
def test_unusable_data_ends_the_preparation(text: str, target: str, sentence: str, make: Make) -> None:
    run = make(text, target)
    assert run.prepare_here() == 65
    error = run.json("error.json")
    assert error["kind"] == "bad_data"
    assert sentence in error["text"]
    assert not (run.dir / "data/train.csv").exists()


def test_only_useless_columns_end_the_training(make: Make) -> None:
    rows: list[dict[str, object]] = [{"id": n, "same": 1, "kind": "xy"[n % 2]} for n in range(60)]
    run = make(as_csv(rows), "kind")
    assert (run.prepare_here(), run.train_here()) == (0, 65)
    assert "id (looks like an identifier); same (always the same)" in run.json("error.json")["text"]


def test_a_stop_keeps_the_best_so_far(make: Make) -> None:
    endless = {"rounds": 100_000, "learning_rate": 0.001, "early_stopping_patience": 100_000}
    run = make(sklearn_csv("breast_cancer"), "kind", settings=endless)
    assert run.prepare_here() == 0
    assert run.stop_here_after(5) == 0
    assert run.json("meta.json")["status"] == "stopped"
    assert 1 <= len(list(run.dir.glob("checkpoints/*/lightgbm.txt"))) <= 2
    assert run.evaluate_here() == 0
    assert run.json("artifacts/metrics.json")["stopped"] is True
    assert "stopped early" in (run.dir / "artifacts/README.md").read_text()


# Where the code comes from and what is not there, then the training as the host begins it.
LOOKING = """
import runpy
import worker.recipes.entry
print(worker.recipes.entry.__file__)
try:
    import agent
except ModuleNotFoundError as missing:
    print(missing)
runpy.run_path("train.py", run_name="__main__")
"""


def test_a_bundle_trains_alone_and_says_that_nothing_was_sealed(make: Make) -> None:
    run = make((REPO / "examples/doctor_visits.csv").read_text()[:60_000].rpartition("\n")[0], "visited_doctor")
    said = run.run("-c", LOOKING)
    assert f"{run.dir}/worker/recipes/entry.py" in said
    assert "No module named 'agent'" in said
    assert "not sealed" in said
    assert '"metric": "roc_auc"' in said
    assert "were not sealed" in (run.dir / "artifacts/README.md").read_text()
    assert (run.dir / "data/source.csv").exists()


def test_what_is_in_a_bundle_imports_nothing_else_of_ours() -> None:
    """So that each recipe trains as the tabular one does, of which a process is seen."""
    found = imports_of_ours(REPO / "worker/recipes") | imports_of_ours(REPO / "trainyard")
    assert "worker.recipes.recipe" in found
    assert not [name for name in found if not f"{name}.".startswith(("worker.recipes.", "trainyard."))]
