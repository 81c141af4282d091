"""The text recipe: real training on real docstrings, resumed to the same weights, and predicting alone."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.domain.pictures import Histogram, Reported
from tests.recipes.folders import TEXT, Make, RunFolder, predict_within, texts_csv
from tests.recipes.test_tabular import predict
from worker.recipes.common.predict import main as predict_here
from worker.recipes.texts import encoder

if TYPE_CHECKING:
    import torch


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Loaded with the first test of this file; each worker of the suite reads the file."""
    global torch
    import torch


def state(run: RunFolder) -> dict[str, torch.Tensor]:
    newest = max(run.dir.glob("checkpoints/step_*/state.pt"))
    return torch.load(newest, weights_only=True)["parts"]["network"]  # type: ignore[no-any-return]


def test_the_better_of_both_candidates_is_kept_and_named(docstrings: RunFolder) -> None:
    card, facts = docstrings.json("scorecard.json"), docstrings.json("artifacts/metrics.json")
    assert card["metric"] == "macro_f1"
    held = facts["validation"]
    better = "encoder" if held["encoder"]["macro_f1"] > held["linear"]["macro_f1"] else "linear"
    assert facts["chosen"] == better
    scores = {score["name"]: score["value"] for score in card["baselines"]}
    assert scores["linear"] > scores["majority"] + 0.1
    assert card["model"]["value"] >= scores["linear"]
    assert {score["name"] for score in card["not_kept"]} == {"encoder"} - {better}


def test_each_step_and_each_measurement_is_a_row_of_metrics(docstrings: RunFolder) -> None:
    rows = docstrings.metrics()
    steps = [row["step"] for row in rows if "train_loss" in row["values"]]
    assert steps == list(range(1, 25))
    assert docstrings.json("meta.json")["total_steps"] == 24
    measured = [row["values"] for row in rows if "valid_loss" in row["values"]]
    assert len(measured) >= 2
    assert set(measured[0]) == {"valid_accuracy", "valid_macro_f1", "valid_loss"}
    assert "train_loss" in rows[0]["values"]  # it learns at once; the line to beat comes before the first measurement
    kinds = [name for row in rows for name in row["values"]]
    assert kinds.index("baseline/linear/valid_macro_f1") < kinds.index("valid_macro_f1")


def test_what_a_tokenizer_learns_does_not_depend_on_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [line for line in Path(encoder.__file__).read_text(encoding="utf-8").splitlines() if line.strip()]
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    learned = [encoder.learned_tokenizer(texts, 500).to_str()]
    assert "TOKENIZERS_PARALLELISM" not in os.environ
    monkeypatch.setattr(encoder, "_FEW", 0)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    learned.append(encoder.learned_tokenizer(texts, 500).to_str())
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    assert learned[0] == learned[1]
    assert json.loads(learned[0])["model"]["merges"]


def test_the_lengths_of_texts_in_tokens_are_shown(docstrings: RunFolder) -> None:
    reported = Reported.model_validate(docstrings.json("pictures/token-lengths.json"))
    found = reported.picture
    assert isinstance(found, Histogram)
    (group,) = found.groups  # more than two classes would hide each other
    said = re.fullmatch(r"Length of ([\d,]+) training texts, ([\d,]+) cut at 32 tokens", found.title)
    beyond = re.fullmatch(r"tokens, (\d+) longer texts left out", found.x_label)
    assert said is not None
    assert beyond is not None
    every, cut = (int(number.replace(",", "")) for number in said.groups())
    assert sum(group.values) + int(beyond[1]) == every
    assert int(beyond[1]) <= 0.02 * every
    assert 0 < cut < every
    assert 0.5 * every < 0.8 * len(docstrings.rows("data/train.csv")) < every  # those that it learns from
    assert found.edges[0] >= 2  # of each its beginning and its end
    assert reported.step == 24


def test_predicting_texts_alone(docstrings: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifacts = docstrings.dir / "artifacts"
    assert predict_within(artifacts, str(docstrings.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv")) == 0
    (tmp_path / "rows.json").write_text(json.dumps([{"text": row["text"]} for row in docstrings.rows("data/test.csv")]))
    assert predict_here(["--json", str(tmp_path / "rows.json")], artifacts) == 0
    answers = json.loads(capsys.readouterr().out)
    labels = [row["label"] for row in docstrings.rows("predictions/model.csv")]
    assert [line.split(",")[-5] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]] == labels
    assert [answer["label"] for answer in answers] == labels
    assert len(answers[0]["probabilities"]) == 4


def test_nothing_in_the_artifacts_is_a_pickle(visits: RunFolder, docstrings: RunFolder) -> None:
    files = [path for run in (visits, docstrings) for path in (run.dir / "artifacts").rglob("*") if path.is_file()]
    files = [path for path in files if path.parent.name != "__pycache__"]  # of another test's import of predict.py
    kinds = {path.suffix for path in files}
    assert kinds <= {".txt", ".json", ".py", ".md", ".skops", ".safetensors"}
    for path in files:
        assert not path.read_bytes().startswith(b"\x80")
        if path.suffix == ".skops":
            inside = zipfile.ZipFile(path).namelist()
            assert {Path(name).suffix for name in inside} <= {".json", ".npy", ".npz"}
            assert len(inside) < 100  # not one for each word


@pytest.fixture
def endings(make: Make) -> RunFolder:
    """Texts of words never seen twice; only their endings tell the class, so that weights per word are blind."""
    random = np.random.default_rng(5)
    lines = ["text,kind"]
    for number in range(300):
        stems = ["".join(random.choice(list("abdgklmoprstu"), size=6)) for _ in range(4)]
        ending = ("ing", "ness")[number % 2]
        lines.append(f"{' '.join(stem + ending for stem in stems)},{('doing', 'being')[number % 2]}")
    settings = {**TEXT, "max_steps": 80, "learning_rate": 0.005}
    return make("\n".join(lines) + "\n", "kind", recipe="text_classification", settings=settings)


def test_the_encoder_is_kept_where_it_is_better_and_predicts_alone(endings: RunFolder, tmp_path: Path) -> None:
    card = endings.all_steps_here()
    assert endings.json("artifacts/metrics.json")["chosen"] == "encoder"
    assert card["metric"] == "roc_auc"
    assert card["model"]["value"] > card["baselines"][-1]["value"]
    artifacts = endings.dir / "artifacts"
    assert {path.name for path in (artifacts / "encoder").iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    predict(artifacts, str(endings.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv"))
    alone = [line.split(",")[-2:] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    stored = [[row["p_being"], row["p_doing"]] for row in endings.rows("predictions/model.csv")]
    assert alone == stored

    named = endings.json("config.json")
    named["spec"]["settings"] = {"model": str(artifacts / "encoder"), "max_steps": 2, "batch_size": 8}
    (endings.dir / "config.json").write_text(json.dumps(named))
    assert endings.train_here() == 0
    assert endings.json("meta.json")["model"] == str(artifacts / "encoder")


@pytest.mark.faults  # the quick suite shows it with a tagger, whose network the same loop trains
def test_a_stopped_run_goes_on_to_the_weights_of_an_uninterrupted_one(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**TEXT, "max_steps": 60, "early_stopping_patience": 50}
    whole = make(texts_csv(200), "library", recipe="text_classification", settings=settings)
    assert whole.prepare_here() == 0
    other = whole.copy(tmp_path / "other")
    assert whole.train_here() == 0
    code, said = other.stop_after(3)
    assert code == 0, said
    assert other.json("meta.json")["status"] == "stopped"
    assert other.json("meta.json")["step"] < 60, "it ended before it could be stopped"
    assert other.train_here() == 0
    assert "Going on from the checkpoint at step" in capsys.readouterr().out
    for name, weights in state(whole).items():
        assert torch.equal(weights, state(other)[name]), name
    assert other.rows("predictions/model.csv") == whole.rows("predictions/model.csv")
    assert len([row for row in other.metrics() if "baseline/linear/valid_loss" in row["values"]]) == 1
    held = whole.json("artifacts/metrics.json")["validation"]
    assert whole.train_here() == 0  # all is trained and measured already
    assert whole.json("artifacts/metrics.json")["validation"] == held


def test_checkpoints_are_also_saved_within_an_epoch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as time says, not only where an epoch ends: what a killed attempt loses is a minute, not hours."""
    monkeypatch.setattr("worker.recipes.networks.loop.CHECKPOINT_EVERY_S", 0.0)
    settings = {**TEXT, "max_steps": 12, "batch_size": 8, "early_stopping_patience": 50}
    run = make(texts_csv(200), "library", recipe="text_classification", settings=settings)
    assert run.prepare_here() == 0
    assert run.train_here() == 0
    measured = {row["step"] for row in run.metrics() if "valid_accuracy" in row["values"]}
    assert measured
    assert 11 not in measured
    assert [path.name for path in sorted(run.dir.glob("checkpoints/step_*"))] == ["step_00000011", "step_00000012"]


@pytest.mark.parametrize(
    ("settings", "kind", "sentence"),
    [
        ({"model": "/no/such/model"}, "user_error", "The model “/no/such/model” cannot be loaded here"),
        ({"hidden_size": 30, "heads": 4}, "user_error", "must be a multiple of heads"),
        ({"num_leaves": 3}, "user_error", "There is no setting “num_leaves”"),
        ({**TEXT, "learning_rate": 1e6, "max_grad_norm": 0}, "diverged", "Training diverged: the loss at step"),
    ],
)
def test_what_cannot_work_is_said(
    settings: dict[str, object], kind: str, sentence: str, docstrings: RunFolder, tmp_path: Path
) -> None:
    run = docstrings.copy(tmp_path)
    config = run.json("config.json")
    config["spec"]["settings"] = settings
    (run.dir / "config.json").write_text(json.dumps(config))
    assert run.train_here() == 65
    error = run.json("error.json")
    assert error["kind"] == kind
    assert sentence in error["text"]


def test_a_table_without_text_is_refused(make: Make) -> None:
    run = make("a,kind\n" + "1,x\n2,y\n" * 20, "kind", recipe="text_classification")
    assert run.prepare_here() == 65
    assert "no column with text" in run.json("error.json")["text"]
