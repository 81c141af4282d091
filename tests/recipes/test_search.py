"""A search of settings: what is drawn, what is kept, how it stops, pauses and goes on, and what stands on its card."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from agent.domain.pictures import Progress, Reported
from agent.domain.runs import Outcome, RunSpec, RunState
from agent.runs.cards.run_cards import found_facts
from tests.recipes.folders import TEXT, Make, RunFolder, make_run, texts_csv
from tests.recipes.pictures_of import archive, digits
from tests.recipes.test_regression import diabetes, wavy
from worker.recipes.common.job import BadSettings
from worker.recipes.common.search import KEPT, Budget, Plan, Range, Trial, ranges_left
from worker.recipes.tabular.boosting import SETTINGS, asked, effort
from worker.recipes.text_generation.settings import generation_settings
from worker.supervisor.outputs import read_found

SEARCH = {"trials": 8, "rounds": 60, "learning_rate": 0.2}


def trial(number: int, value: float, *, pruned: bool = False, seconds: float = 1.0) -> Trial:
    return Trial(number, {}, value, pruned, seconds, {})


def test_what_a_person_stated_is_not_drawn() -> None:
    ranges = {"learning_rate": Range(0.01, 0.3), "num_leaves": Range(4, 128)}
    assert list(ranges_left({"lr": 0.2, "num_leaves": None}, SETTINGS, ranges)) == ["num_leaves"]
    with pytest.raises(BadSettings, match="There is nothing to search: learning_rate, num_leaves are all given"):
        ranges_left({"lr": 0.2, "num_leaves": 8}, SETTINGS, ranges)


def test_a_budget_is_spent_by_trials_or_by_minutes_of_all_attempts() -> None:
    tried = [trial(1, 0.5, seconds=50), trial(2, 0.5, seconds=20)]
    assert Budget(2, 0).is_spent(tried)
    assert not Budget(3, 2).is_spent(tried)
    assert Budget(3, 1).is_spent(tried)
    assert Budget(0, 2).is_spent(tried, more_s=51)
    assert Budget(0, 0).most == 0


def test_the_best_is_the_best_of_those_that_went_to_their_end() -> None:
    tried = [trial(1, 0.7), trial(2, 0.9, pruned=True), trial(3, 0.8)]
    best = {lower: Plan({}, {}, "m", lower, Budget(3, 0)).best(tried) for lower in (False, True)}
    assert [one.number for lower in (False, True) if (one := best[lower])] == [3, 1]
    assert Plan({}, {}, "m", lower=True, budget=Budget(3, 0)).best([trial(1, 0.1, pruned=True)]) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trials": 0.5}, "The setting trials takes a whole number from 0 to 1,000, not 0.5."),
        ({"minutes": "soon"}, "The setting minutes takes a number from 0 to 10,000, not 'soon'."),
        ({"trial": 20}, "Did you mean “trials”"),
    ],
)
def test_a_budget_that_is_none_is_refused_before_anybody_is_asked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings) as refused:
        asked(given, {})
    assert said in str(refused.value)


def test_more_trials_are_more_work_and_the_card_says_that_they_are() -> None:
    assert effort({}, {}) == 1.0
    assert effort({"trials": 20}, {}) == pytest.approx(13.0)
    spec = {"task": "tabular_regression", "dataset": {"sha256": "0" * 64, "name": "d.csv", "size_bytes": 1},
            "target": "y", "host": "here", "bundle_sha256": "0" * 64}  # fmt: skip
    plain = RunSpec.model_validate(spec)
    searched = RunSpec.model_validate({**spec, "settings": {"trials": 20}})
    assert (plain.unit, searched.unit) == ("boosting round", "trial")
    assert [stage for stage in searched.stages if stage not in plain.stages] == [
        "Search settings on the training part: draw, try, and end early what falls behind"
    ]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = make_run(tmp_path_factory.mktemp("wavy"), wavy(500), "price", recipe="tabular_regression", settings=SEARCH)
    run.all_steps_here()
    return run


def test_one_step_is_one_trial_and_the_first_has_the_own_settings(searched: RunFolder) -> None:
    trials = searched.json(KEPT)
    assert [one["number"] for one in trials] == list(range(1, 9))
    assert trials[0]["drawn"]["num_leaves"] == SETTINGS["num_leaves"].default
    assert "learning_rate" not in trials[0]["drawn"]
    baseline, *rows = searched.metrics()
    assert set(baseline["values"]) == {"baseline/linear/valid_rmse"}
    assert [row["step"] for row in rows] == list(range(1, 9))
    best = [row["values"]["best/valid_rmse"] for row in rows]
    assert best == sorted(best, reverse=True)
    assert [("trial/valid_rmse" in row["values"]) for row in rows] == [not one["pruned"] for one in trials]
    assert searched.json("meta.json")["total_steps"] == 8


def test_the_best_settings_are_trained_with_and_measured_once(searched: RunFolder) -> None:
    settings = searched.json("artifacts/config.json")["settings"]
    best = min((one for one in searched.json(KEPT) if not one["pruned"]), key=lambda one: one["value"])
    assert {name: settings[name] for name in best["drawn"]} == best["drawn"]
    assert settings["learning_rate"] == 0.2
    assert searched.json("artifacts/metrics.json")["chosen"] == "lightgbm"
    assert searched.json("scorecard.json")["model"]["value"] < 30  # the mean is off by 144
    found = read_found(searched.dir)
    assert found == {name: value for name, value in best["drawn"].items() if value != SETTINGS[name].default}
    run = Outcome(state=RunState.SUCCEEDED, found={"learning_rate": 0.0312, "num_leaves": 12})
    assert found_facts(run)[0].value == "learning rate 0.0312, num leaves 12"


def test_its_picture_shows_best_so_far_and_what_was_ended_early(searched: RunFolder) -> None:
    picture = Reported.model_validate(searched.json("pictures/search.json")).picture
    assert isinstance(picture, Progress)
    early = [one["number"] for one in searched.json(KEPT) if one["pruned"]]
    assert [one.number for one in picture.trials if one.state == "pruned"] == early
    assert picture.trials[0].state == "kept"
    assert np.isfinite([one.value for one in picture.trials]).all()


def test_finished_trials_are_kept_over_a_stop(make: Make) -> None:
    run = make(diabetes(), "progression", recipe="tabular_regression", settings={"trials": 400, "rounds": 200})
    assert run.prepare_here() == 0
    assert run.stop_here_after(4) == 0
    before = run.json(KEPT)
    assert 3 <= len(before) < 400
    assert run.json("meta.json")["status"] == "stopped"
    assert run.rows("predictions/model.csv")
    config = run.json("config.json")
    config["spec"]["settings"]["trials"] = len(before) + 2
    (run.dir / "config.json").write_text(json.dumps(config))
    assert run.train_here() == 0
    after = run.json(KEPT)
    assert after[: len(before)] == before
    assert [one["number"] for one in after[len(before) :]] == [len(before) + 1, len(before) + 2]
    assert run.json("meta.json")["status"] == "completed"
    (run.dir / KEPT).unlink()
    assert run.train_here() == 0
    whole = run.json(KEPT)
    assert [(one["drawn"], one["value"]) for one in whole] == [(one["drawn"], one["value"]) for one in after]


def test_minutes_end_a_search(make: Make) -> None:
    settings = {"minutes": 0.02, "rounds": 60}
    run = make(diabetes(), "progression", recipe="tabular_regression", settings=settings)
    assert run.prepare_here() == 0
    began = time.monotonic()
    assert run.train_here() == 0
    taken = sum(one["seconds"] for one in run.json(KEPT))
    assert 1.2 <= taken < time.monotonic() - began


@pytest.mark.faults  # the quick suite has a search of networks that is stopped and goes on
@pytest.mark.parametrize(
    ("recipe", "network"), [("text_classification", "encoder"), ("image_classification", "network")]
)
def test_a_network_is_searched_too_and_trained_once_more_with_the_best(recipe: str, network: str, make: Make) -> None:
    images = [(f"digits/{label}/{at}.png", image) for at, (label, image) in enumerate(digits(120))]
    data, target = (texts_csv(200), "library") if network == "encoder" else (archive(images), "label")
    settings = {
        **(TEXT if network == "encoder" else {"epochs": 2, "batch_size": 16}),
        "trials": 6,
        "weight_decay": 0.05,
    }
    run = make(data, target, recipe=recipe, settings=settings)
    assert run.all_steps_here()["metric"] == "macro_f1"
    trials = run.json(KEPT)
    assert [one["number"] for one in trials] == list(range(1, 7))
    assert set(trials[0]["drawn"]) == {"learning_rate", "warmup_frac"}
    baseline, *rows = run.metrics()
    assert baseline["step"] == 0
    assert [row["step"] for row in rows] == list(range(1, 7))  # a step is a trial, in which nothing else reports
    best = max((one for one in trials if not one["pruned"]), key=lambda one: one["value"])
    settings = run.json("artifacts/config.json")["settings"]
    assert {name: settings[name] for name in best["drawn"]} == best["drawn"]
    scores = run.json("artifacts/metrics.json")["validation"]
    assert scores[network]["macro_f1"] == pytest.approx(best["value"])
    assert run.json("meta.json")["total_steps"] == 6


def test_a_search_of_networks_is_stopped_and_goes_on(make: Make) -> None:
    run = make(texts_csv(120), "library", recipe="text_classification", settings={**TEXT, "trials": 4})
    assert run.prepare_here() == 0
    assert run.stop_here_after(3) == 0  # the baseline and two trials
    before = run.json(KEPT)
    assert len(before) < 4
    assert run.json("meta.json")["status"] == "stopped"
    assert run.train_here() == 0
    assert run.json(KEPT)[: len(before)] == before
    assert len(run.json(KEPT)) == 4
    assert run.json("meta.json")["status"] == "completed"


def test_a_recipe_that_searches_nothing_says_which_do() -> None:
    with pytest.raises(BadSettings, match="searches no settings, so it takes no trials; those of tables"):
        generation_settings({"trials": 5})
