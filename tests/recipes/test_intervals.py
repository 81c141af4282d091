"""How sure a score is: known cases, and the quick metric against the slow one."""

import numpy as np
import pytest

from worker.recipes.classes.scores import decisive, decisive_metric, measure
from worker.recipes.common.intervals import intervals


@pytest.mark.parametrize("classes", [2, 5])
def test_the_quick_metric_is_the_one_that_decides(classes: int) -> None:
    random = np.random.default_rng(1)
    names = [str(code) for code in range(classes)]
    for _ in range(20):
        shares = np.round(random.dirichlet(np.ones(classes), 60), 2) + 1e-3  # with ties
        shares /= shares.sum(axis=1, keepdims=True)
        codes = random.integers(0, classes, 60)
        slow = measure([names[code] for code in codes], names, shares)[decisive_metric(classes)]
        assert decisive(codes, shares) == pytest.approx(slow, abs=1e-9)


def test_a_draw_without_one_of_two_classes_has_no_value() -> None:
    assert np.isnan(decisive(np.zeros(4, dtype=np.int64), np.full((4, 2), 0.5)))


def errors(size: int, spread: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, size)


def test_a_clear_advantage_and_none() -> None:
    good, bad, same = errors(400, 1.0, 1), errors(400, 2.0, 2), errors(400, 1.0, 3)

    def rmse(of: np.ndarray, at: np.ndarray) -> float:
        return float(np.sqrt((of[at] ** 2).mean()))

    clear = intervals(lambda at: rmse(good, at), lambda at: rmse(bad, at), 400, seed=0, lower=True)
    assert clear["interval"][0] < rmse(good, np.arange(400)) < clear["interval"][1]
    assert clear["gain"][0] > 0.5
    none = intervals(lambda at: rmse(good, at), lambda at: rmse(same, at), 400, seed=0, lower=True)
    assert none["gain"][0] < 0 < none["gain"][1]


def test_rows_that_belong_together_are_one_observation() -> None:
    values = np.repeat(errors(20, 1.0, 4), 50)
    groups = [row // 50 for row in range(1000)]

    def mean(at: np.ndarray) -> float:
        return float(values[at].mean())

    alone = intervals(mean, lambda _: 0.0, 1000, seed=0, lower=False)["interval"]
    grouped = intervals(mean, lambda _: 0.0, 1000, seed=0, lower=False, groups=groups)["interval"]
    assert grouped[1] - grouped[0] > 4 * (alone[1] - alone[0])
    assert intervals(mean, lambda _: 0.0, 1000, seed=0, lower=False, groups=["x"] * 1000) == {}
