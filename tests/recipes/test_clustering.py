"""Clusters: points of mixed columns, rules that need numpy alone, bad input, and real data with known groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agent.domain.datasets import DataReport
from agent.domain.orders import ClusterPrediction
from agent.domain.results import Results
from agent.domain.runs import Scorecard
from tests.recipes.folders import Make, RunFolder, make_run, predict, sklearn_csv
from worker.recipes.clusters.measuring import silhouettes
from worker.recipes.clusters.methods import METHODS, find
from worker.recipes.clusters.rules import load_rule
from worker.recipes.clusters.space import Points, space_from, space_of
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import read_table
from worker.recipes.inspect import audit
from worker.recipes.tabular.features import choose_features


def mixed_csv(rows: int = 90) -> str:
    """Three kinds of customers in columns of all kinds, with holes, and a column that names them."""
    random = np.random.default_rng(1)
    lines = ["customer,age,spends,town,since,tier"]
    for at in range(rows):
        kind = at % 3
        age = "" if at % 31 == 5 else f"{30 + 15 * kind + random.normal(0, 5):.1f}"
        town = "?" if at % 13 == 7 else ("Ulm", "Bonn", "Kiel")[kind]
        lines.append(
            f"c{at:03},{age},{100 * (kind == 1) + random.normal():.2f},{town},"
            f"{2018 + 2 * kind}-03-0{1 + at % 9},{'abc'[kind]}"
        )
    return "\n".join(lines) + "\n"


def blobs(seed: int = 0) -> Points:
    random = np.random.default_rng(seed)
    return np.concatenate([random.normal(place, 0.3, (40, 2)) for place in ((0, 0), (4, 0), (0, 4))])


def test_cells_of_all_kinds_become_points(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(mixed_csv())
    table = read_table(tmp_path / "data.csv")
    features, ignored = choose_features(table, "tier")
    space = space_of(table.columns, features)
    points = space.points(table.columns)
    assert points.shape == (90, 1 + 1 + 3 + 1)  # two numbers, three towns, a date
    assert np.isfinite(points).all()
    assert ignored == ["customer (looks like an identifier)"]
    again = space_from(json.loads(json.dumps(space.described()))).points(table.columns)
    assert (again == points).all()
    elsewhere = {**table.columns, "town": ["Rome"] * 90}
    assert (space.points(elsewhere)[:, 2:5] == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_of_plain_arrays_finds_what_is_there(method: str, tmp_path: Path) -> None:
    points = blobs()
    found = find(method, points, 10 if method == "hdbscan" else 3, seed=7)
    assert found is not None
    found.rule.save(tmp_path)
    numbers = load_rule(tmp_path).assign(blobs(seed=1))
    assert [len(set(numbers[at : at + 40].tolist()) - {0}) for at in (0, 40, 80)] == [1, 1, 1]
    assert set(numbers.tolist()) - {0} == {1, 2, 3}
    far = found.rule.assign(np.array([[50.0, 50.0]]))
    assert (far[0] == 0) == (method == "hdbscan")


def test_a_mixture_says_what_scikit_learn_says() -> None:
    from sklearn.datasets import load_iris
    from sklearn.metrics import adjusted_rand_score
    from sklearn.mixture import GaussianMixture

    points = load_iris().data
    theirs = GaussianMixture(3, n_init=2, reg_covar=1e-4, random_state=7).fit(points).predict(points)
    found = find("gmm", points, 3, seed=7)
    assert found is not None
    assert adjusted_rand_score(theirs, found.rule.assign(points)) == 1.0
    assert adjusted_rand_score(load_iris().target, theirs) > 0.9  # the reference score of these data


def test_rows_of_no_cluster_count_as_nothing() -> None:
    points = blobs()
    numbers = np.repeat([1, 2, 0], 40)
    assert (silhouettes(points, numbers)[80:] == 0).all()
    assert silhouettes(points, numbers)[:80].mean() > 0.8
    assert (silhouettes(points, np.ones(120, np.int64)) == 0).all()


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    settings = {"k": 3, "method": "gmm", "labels": "kind", "resamples": 2}
    run = make_run(tmp_path_factory.mktemp("iris"), sklearn_csv("iris"), "", recipe="clustering", settings=settings)
    run.all_steps()
    return run


def test_real_groups_are_found_and_measured_on_sealed_rows(flowers: RunFolder) -> None:
    card = Scorecard.model_validate(flowers.json("scorecard.json"))
    assert (card.metric, card.higher_is_better, card.test_rows) == ("silhouette", True, 30)
    scores = {score.name: score.value for score in card.baselines}
    assert scores["random"] < 0.1 < scores["kmeans"]
    assert card.all_metrics["ari"] > 0.85  # 0.904 is the reference of a mixture on all rows
    readme = (flowers.dir / "artifacts/README.md").read_text()
    assert "Gaussian mixture with 3 clusters, as it was asked for" in readme
    assert "pipeline_tag" not in readme  # the Hub has none for clusters


def test_known_groups_lie_nowhere_in_the_run(flowers: RunFolder) -> None:
    columns = set(flowers.rows("data/train.csv")[0])
    assert columns == set(flowers.rows("data/test.csv")[0]) - {"row_id"}
    assert "kind" not in columns
    assert not (flowers.dir / "data/source.csv").exists()


def test_pictures_show_map_typical_rows_and_known_groups(flowers: RunFolder) -> None:
    found = Results.model_validate(flowers.json("results.json")).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures] == ["clusters", "typical", "scores", "sizes", "confusion"]
    assert "The sealed rows fall into 3 clusters" in found.words


def test_each_candidate_is_a_row_of_metrics(flowers: RunFolder) -> None:
    assert [set(row["values"]) for row in flowers.metrics()] == [
        {"kmeans/silhouette", "kmeans/stability"},
        {"gmm/silhouette", "gmm/stability"},
    ]


def test_predicting_alone_gives_the_clusters_of_the_run(
    flowers: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts = flowers.dir / "artifacts"
    predict(artifacts, str(flowers.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv"))
    alone = [line.rpartition(",")[2] for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert alone == ["prediction", *(row["label"] for row in flowers.rows("predictions/model.csv"))]
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(flowers.rows("data/test.csv")[:2]))
    assert predict_here(["--json", str(rows)], artifacts) == 0
    said = [ClusterPrediction.model_validate(one) for one in json.loads(capsys.readouterr().out)]
    assert [str(one.cluster) for one in said] == alone[1:3]
    assert {path.suffix for path in artifacts.iterdir()} <= {".json", ".md", ".txt", ".py", ".npz", ""}


def test_what_was_tried_is_not_tried_again(flowers: RunFolder, tmp_path: Path) -> None:
    run = flowers.copy(tmp_path)
    before = run.rows("predictions/model.csv")
    (run.dir / "metrics.jsonl").unlink()
    assert run.train_here() == 0
    assert run.rows("predictions/model.csv") == before
    assert run.metrics() == []


def test_the_number_of_clusters_is_found_in_mixed_columns(make: Make) -> None:
    run = make(mixed_csv(), "", recipe="clustering", settings={"max_k": 4, "resamples": 2, "labels": "tier"})
    card = run.all_steps_here()
    assert card["all_metrics"]["ari"] == 1.0
    assert run.json("artifacts/model.json")["clusters"] == 3
    assert card["gain"] == [0.0, 0.0]  # k-means was kept, since nothing beats it


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        (mixed_csv(), {"k": 1}, "One cluster holds everything"),
        (mixed_csv(), {"k": 60}, "k = 60 is too many for 90 rows"),
        (mixed_csv(), {"method": "dbscan"}, "There is no method “dbscan”. The methods are: kmeans, gmm, ward, hdbscan"),
        (mixed_csv(), {"method": "HDBSCAN", "k": 3}, "HDBSCAN finds the number of clusters itself"),
        (mixed_csv(), {"labels": "tiers"}, "There is no labels column “tiers”. Did you mean “tier”?"),
        (mixed_csv(), {"kk": 3}, "There is no setting “kk”"),
        (mixed_csv(9), {}, "There are only 9 rows; at least 20 are needed to find clusters."),
        ("a,b\n" + "1,2\n" * 40, {}, "Almost all rows are equal"),
        ("name\n" + "".join(f"row {at}\n" for at in range(40)), {}, "No column is left to learn from"),
    ],
)
def test_bad_input_gets_a_sentence(text: str, settings: dict[str, object], said: str, make: Make) -> None:
    run = make(text, "", recipe="clustering", settings=settings)
    assert run.prepare_here() == 65
    assert said in run.json("error.json")["text"]


def test_the_audit_names_no_target_and_a_column_that_may_hold_groups(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(sklearn_csv("iris"))
    found = audit(read_table(tmp_path / "data.csv"), task="clustering")
    dataset = {"sha256": "0" * 64, "name": "data.csv", "size_bytes": 1}
    report = DataReport.model_validate_json(json.dumps({**found, "dataset": dataset}))
    assert (report.target, report.suggested_task, report.problems) == (None, "clustering", ())
    assert any("say labels=kind and it is sealed" in warning for warning in report.warnings)
