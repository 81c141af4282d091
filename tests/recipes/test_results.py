"""What pictures of a result are drawn from: any answers give facts that fit, and the facts are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent.domain.results import LIMIT_BYTES, Classification, Results
from worker.recipes.classes.mistakes import single_rows
from worker.recipes.classes.results import OTHERS, Answers, classification, thinned
from worker.recipes.common.scoring import importance_of, short
from worker.recipes.evaluate import main as evaluate
from worker.recipes.tabular import importance
from worker.recipes.tabular.boosting import SETTINGS, boost, parameters
from worker.recipes.tabular.encoding import encode
from worker.recipes.tabular.linear import categorical_columns, fit_logistic
from worker.recipes.text_classification.train import _fit_linear as fit_linear
from worker.recipes.texts.words import words

Numbers = NDArray[np.float64]


def facts_of(answers: Answers, test: Path, *, text: str | None = None, weights: dict[str, Any] | None = None) -> str:
    ids = [str(row) for row in range(len(answers.codes))]
    told = classification(answers) | {"importance": weights}
    told |= single_rows(answers, ids, test, text=text, weights=weights)
    return json.dumps({"found": told}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def checked(answers: Answers, test: Path = Path("none.csv"), **more: Any) -> Classification:
    """The facts as the host checks them."""
    return Results.model_validate_json(facts_of(answers, test, **more)).found


def answers_of(codes: Any, shares: Any, classes: list[str] | None = None, baseline: Any = None) -> Answers:
    shares = np.asarray(shares, dtype=np.float64)
    classes = classes or [f"c{n:03}" for n in range(shares.shape[1])]
    theirs = np.full_like(shares, 1 / shares.shape[1]) if baseline is None else np.asarray(baseline)
    return Answers(classes, np.asarray(codes, dtype=np.int64), shares, theirs, "majority")


def random_answers(rows: int, classes: int, *, seed: int = 3, skill: float = 1.0) -> Answers:
    random = np.random.default_rng(seed)
    codes = random.integers(0, classes, rows)
    raw = random.exponential(size=(rows, classes))
    raw[np.arange(rows), codes] += skill
    return answers_of(codes, raw / raw.sum(axis=1, keepdims=True))


@st.composite
def any_answers(draw: st.DrawFn) -> Answers:
    """A few rows, often with classes that are true of none, ties, and certainties."""
    classes, rows = draw(st.integers(2, 5)), draw(st.integers(1, 30))
    codes = draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    cell = st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.5, 1e-9, 3.0])
    raw = np.array(draw(st.lists(st.lists(cell, min_size=classes, max_size=classes), min_size=rows, max_size=rows)))
    raw[raw.sum(axis=1) == 0] = 1.0
    names = draw(st.lists(st.text(min_size=1, max_size=100), min_size=classes, max_size=classes, unique=True))
    return answers_of(
        codes, raw / raw.sum(axis=1, keepdims=True), [name.encode(errors="replace").decode() for name in names]
    )


@given(any_answers())
def test_any_answers_give_facts_that_fit_and_add_up(answers: Answers) -> None:
    found = checked(answers)
    counts = np.array(found.confusion.counts)
    assert counts.sum() == found.rows == len(answers.codes)
    assert found.mistakes.count == counts.sum() - np.trace(counts)
    assert sum(one.count for one in found.calibration.bins) == found.rows
    assert [one.support for one in found.classes] == sorted(counts.sum(axis=1).tolist(), reverse=True)
    for curve in found.curves:
        assert curve.roc.x == tuple(sorted(curve.roc.x))
        assert (curve.roc.x[0], curve.roc.y[0], curve.roc.x[-1], curve.roc.y[-1]) == (0, 0, 1, 1)


def test_a_perfect_model_has_perfect_facts() -> None:
    found = checked(answers_of([0, 1, 1, 0], [[1, 0], [0, 1], [0, 1], [1, 0]]))
    (curve,) = found.curves
    assert (curve.label, curve.share, curve.roc.area, curve.pr.area) == ("c001", 0.5, 1.0, 1.0)
    assert found.calibration.error == 0.0
    assert found.mistakes.rows == ()
    assert [(one.f1, one.baseline_f1) for one in found.classes] == [(1.0, pytest.approx(2 / 3, abs=1e-4)), (1.0, 0.0)]


def test_where_only_one_class_is_true_there_is_no_curve() -> None:
    found = checked(answers_of([1, 1, 1], [[0.2, 0.8], [0.6, 0.4], [0.1, 0.9]]))
    assert found.curves == ()
    assert found.confusion.counts == ((0, 0), (1, 2))


def test_ties_are_one_slope_not_a_lucky_order() -> None:
    (curve,) = checked(answers_of([0, 1, 0, 1], [[0.5, 0.5]] * 4)).curves
    assert (curve.roc.area, curve.roc.x, curve.roc.y) == (0.5, (0.0, 1.0), (0.0, 1.0))


def test_precision_of_the_surest_row_is_not_made_up() -> None:
    """The surest row is wrong, so precision begins at 0."""
    (curve,) = checked(answers_of([0, 1, 0, 1], [[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])).curves
    assert (curve.pr.x[0], curve.pr.y[0]) == (0.0, 0.0)
    assert (curve.pr.x[-1], curve.pr.y[-1]) == (1.0, 0.5)


def test_rare_ones_of_very_many_classes_are_counted_together() -> None:
    answers = random_answers(3000, 60)
    found = checked(answers)
    assert found.class_count == 60
    assert len(found.confusion.labels) == 51
    assert found.confusion.labels[-1] == OTHERS
    assert np.array(found.confusion.counts).sum() == 3000
    assert len(found.classes) == 50
    assert len(found.curves) == 6
    assert found.calibration.label == ""


def test_a_thinned_curve_keeps_its_ends_and_its_corner() -> None:
    """A model that is nearly perfect has one steep corner; a thinning along x alone would cut it off."""
    x = np.concatenate([np.zeros(5000), np.linspace(0, 1, 5000)])
    y = np.concatenate([np.linspace(0, 1, 5000), np.ones(5000)])
    found = thinned(x, y)
    assert len(found["x"]) <= 200
    assert (found["x"][0], found["y"][0], found["x"][-1], found["y"][-1]) == (0, 0, 1, 1)

    at = random_answers(20_000, 2, skill=0.5)
    (curve,) = checked(at).curves
    area = float(np.sum(np.diff(curve.roc.x) * (np.array(curve.roc.y[1:]) + np.array(curve.roc.y[:-1])) / 2))
    assert area == pytest.approx(curve.roc.area, abs=0.005)


def test_calibration_tells_how_far_words_and_truth_are_apart() -> None:
    """What is said with 90 % is true half of the time."""
    found = checked(answers_of([1, 0] * 50, [[0.1, 0.9]] * 100)).calibration
    assert [(one.count, one.predicted, one.observed) for one in found.bins] == [(100, 0.9, 0.5)]
    assert found.error == pytest.approx(0.4)


def test_the_surest_mistakes_come_first_with_what_tells_most(tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("row_id,a,b,c,d\n2,x,2,u,1\n0,y,0,u,1\n1,z,1,u,1\n")
    answers = answers_of([0, 1, 1], [[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    weights = importance_of({"kind": "gain", "features": [["a", 1.0], ["b", 3.0]]})
    found = checked(answers, test, weights=weights)
    assert found.mistakes.columns == ("b", "a", "c")
    rows = [(one.row, one.true, one.predicted, one.confidence, one.cells) for one in found.mistakes.rows]
    assert rows == [("0", "c000", "c001", 0.9, ("0", "y", "u")), ("1", "c001", "c000", 0.8, ("1", "z", "u"))]


@pytest.mark.parametrize(
    "content", ["", "row_id,a\n0,x\n", "a\n1\n2\n3\n", 'row_id,a\n"0', "row_id,a\n7,x\n8,y\n9,z\n"]
)
def test_test_rows_that_are_not_there_any_more_cost_their_cells_only(tmp_path: Path, content: str) -> None:
    test = tmp_path / "test.csv"
    test.write_text(content)
    found = checked(answers_of([0, 1, 1], [[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), test)
    assert [(one.row, one.cells) for one in found.mistakes.rows] == [("0", ()), ("1", ())]
    assert found.mistakes.columns == ()


@pytest.mark.parametrize(("word", "unit"), [("word ", "words"), ("語", "characters")])
def test_lengths_count_every_text(tmp_path: Path, word: str, unit: str) -> None:
    test = tmp_path / "test.csv"
    texts = [word * (3 + row % 40) for row in range(400)] + [word * 5000] * 2
    test.write_text("row_id,text\n" + "".join(f"{row},{text}\n" for row, text in enumerate(texts)), encoding="utf-8")
    found = checked(random_answers(402, 3), test, text="text").lengths
    assert found is not None
    assert found.unit == unit
    assert sum(found.right) + sum(found.wrong) + found.beyond == 402
    assert found.beyond == 2
    assert found.edges[0] == 3


@pytest.mark.parametrize(
    "found",
    [None, [], {"kind": "gain"}, {"kind": "magic", "features": [["a", 1]]}, {"kind": "gain", "features": [["a", -1]]},
     {"kind": "gain", "features": [["a", float("nan")]]}, {"kind": "gain", "features": [["a", True]]},
     {"kind": "gain", "features": [["a", 10**400]]}, {"kind": "gain", "features": [["a"]]},
     {"kind": "gain", "features": [[{}, 1]]}, {"kind": "gain", "features": [["a", 0.0]]}],
)  # fmt: skip
def test_an_importance_that_cannot_be_is_none(found: object) -> None:
    assert importance_of(found) is None


def test_importance_is_of_columns_and_finds_the_one_that_matters() -> None:
    random = np.random.default_rng(1)
    size = 600
    signal, gaps = random.normal(size=size), random.normal(size=size)
    columns = {
        "day": [f"2024-01-{1 + day:02}" for day in random.integers(0, 28, size)],
        "colour": random.choice(["red", "green", "blue"], size).tolist(),
        "signal": [f"{value:.4f}" for value in signal],
        "gappy": ["" if row % 7 == 0 else f"{value:.4f}" for row, value in enumerate(gaps)],
    }
    features = [{"column": "day", "kind": "datetime", "day_first": False},
                {"column": "colour", "kind": "category", "categories": ["red", "green", "blue"]},
                {"column": "signal", "kind": "number"}, {"column": "gappy", "kind": "number"}]  # fmt: skip
    rows = encode(columns, features)
    codes = (signal > 0).astype(np.int64)
    params = parameters(
        {name: one.default for name, one in SETTINGS.items()}, {"objective": "binary"}, rows=size, seed=1
    )
    booster = boost(params, (rows, codes, None), categories=categorical_columns(features), rounds=5)
    told = [
        importance.gain(booster, features, rounds=5),
        importance.linear_weights(fit_logistic(rows, codes, features, seed=1), features, rows),
    ]
    for one in told:
        assert [name for name, _ in one["features"]] == list(columns)
        found = importance_of(one)
        assert found is not None
        assert found["features"][0]["name"] == "signal"
        assert found["features"][0]["share"] > 0.5
        assert sum(each["share"] for each in found["features"]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("classes", [["cat", "dog"], ["cat", "dog", "eel"]])
def test_telling_words_speak_for_their_class(classes: list[str]) -> None:
    texts = [f"{name} says {sound}" for name, sound in zip(["purr", "woof", "zap"], "abc", strict=True)] * 20
    kept = [(text, at % 3) for at, text in enumerate(texts) if at % 3 < len(classes)]
    pipeline = fit_linear([text for text, _ in kept], np.array([code for _, code in kept]), seed=1)
    found = importance_of(words(pipeline, classes))
    assert found is not None
    assert found["kind"] == "words"
    assert found["features"][0]["share"] == 1.0
    names = [one["name"] for one in found["features"]]
    assert "purr → cat" in names
    assert "woof → dog" in names
    assert not any(name.startswith("woof → cat") for name in names)


def test_the_examples_come_with_facts(visits: Any, docstrings: Any) -> None:
    table = Results.model_validate(visits.json("results.json")).found
    card = visits.json("scorecard.json")
    assert table.rows == card["test_rows"]
    assert table.curves[0].roc.area == pytest.approx(card["model"]["value"], abs=1e-4)
    assert table.importance is not None
    known = {name for name in visits.rows("data/test.csv")[0] if name != "row_id"}
    assert {one.name for one in table.importance.features} <= known
    assert table.mistakes.rows
    assert table.mistakes.columns[0] == table.importance.features[0].name
    right = sum(counts[at] for at, counts in enumerate(table.confusion.counts)) / table.rows
    assert right == pytest.approx(card["all_metrics"]["accuracy"], abs=1e-4)
    texts = Results.model_validate(docstrings.json("results.json")).found
    assert texts.lengths is not None
    linear = docstrings.json("artifacts/config.json")["kind"] == "linear"
    assert (texts.importance is not None and texts.importance.kind == "words") == linear
    assert texts.mistakes.columns == ("text",)
    f1 = sum(one.f1 for one in texts.classes) / len(texts.classes)
    assert f1 == pytest.approx(docstrings.json("scorecard.json")["model"]["value"], abs=1e-4)


def test_facts_that_cannot_be_made_do_not_cost_the_result(
    visits: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = visits.copy(tmp_path)
    (run.dir / "results.json").unlink()
    (run.dir / "results.json").mkdir()
    assert evaluate(["--run-dir", str(run.dir), "--sealed-dir", str(run.sealed)]) == 0
    assert "There will be no pictures of this result" in caplog.text
    assert run.json("scorecard.json") == visits.json("scorecard.json")


def test_the_largest_facts_are_small() -> None:
    """At every bound and with the longest names in three bytes a letter."""
    label = "語" * 80
    largest = {
        "kind": "classification", "rows": 2**40, "class_count": 10**6, "beaten": label,
        "confusion": {"labels": [label] * 51, "counts": [[123_456] * 51] * 51},
        "curves": [{"label": label, "share": 0.12345,
                    "roc": {"x": [0.12345] * 200, "y": [0.12345] * 200, "area": 0.12345},
                    "pr": {"x": [0.12345] * 200, "y": [0.12345] * 200, "area": 0.12345}}] * 6,
        "calibration": {"label": label, "bins": [{"count": 10**9, "predicted": 0.12345, "observed": 0.12345}] * 20,
                        "error": 0.12345},
        "classes": [{"label": label, "support": 10**9, "precision": 0.12345, "recall": 0.12345, "f1": 0.12345,
                     "baseline_f1": 0.12345}] * 51,
        "importance": {"kind": "gain", "features": [{"name": label, "share": 0.12345}] * 30, "left_out": 9},
        "lengths": {"unit": "words", "edges": list(range(21)), "right": [10**9] * 20, "wrong": [10**9] * 20},
        "mistakes": {"count": 10**9, "columns": [label] * 4,
                     "rows": [{"row": "1" * 20, "true": label, "predicted": label, "confidence": 0.1234,
                               "cells": [label] * 4}] * 10},
    }  # fmt: skip
    assert len(Results.model_validate({"found": largest}).model_dump_json().encode()) < LIMIT_BYTES


def test_long_names_are_cut_to_one_line() -> None:
    assert short("a\n b\t c") == "a b c"
    assert len(short("x" * 500)) == 80
