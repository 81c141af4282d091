"""The memory of a language model: what it counts, that it stays a distribution, and when it is worth its weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from worker.recipes.common.table import BadData
from worker.recipes.language.memory import Memory

V = 12
DICE = np.random.default_rng(5)


def noise(length: int) -> list[int]:
    return [0, *DICE.integers(1, V, length).tolist()]


def repeating(texts: int) -> list[list[int]]:
    """Texts with one long passage between noise, which some have twice."""
    passage = np.random.default_rng(1).integers(1, V, 60).tolist()
    return [noise(20) + passage * (1 + text % 2) + noise(20)[1:] for text in range(texts)]


def uniform(rows: list[list[int]]) -> list[np.ndarray]:
    """What a network that knows nothing needs for each token."""
    return [np.full(len(row) - 1, math.log(V)) for row in rows]


def nats(memory: Memory, rows: list[list[int]]) -> float:
    return float(sum(map(np.sum, memory.nats(rows, uniform(rows)))))


def learned(rows: list[list[int]], weights: np.ndarray | None = None) -> Memory:
    return Memory.of([token for row in rows for token in row], V, weights)


@pytest.mark.parametrize("forged", [None, np.ones((10, 9)), DICE.random((10, 9))])
def test_the_probabilities_of_a_next_token_sum_to_one(forged: np.ndarray | None) -> None:
    """With fitted weights and with any others; what a text costs is the probability that it is written with."""
    rows = repeating(6)
    memory = learned(rows[:4], forged) if forged is not None else learned(rows[:4]).fitted(rows[4:], uniform(rows[4:]))
    row = rows[5]
    for end in range(1, len(row)):
        written = memory.mixed(row[:end], np.full(V, 1 / V))
        every = [[*row[:end], token] for token in range(V)]
        coded = np.exp([-found[-1] for found in memory.nats(every, uniform(every))])
        assert written.sum() == pytest.approx(1.0, abs=1e-12)
        assert coded.tolist() == pytest.approx(written.tolist(), abs=1e-12)


def test_texts_do_not_learn_from_each_other() -> None:
    rows = repeating(6)
    memory = learned(rows[:2]).fitted(rows[2:4], uniform(rows[2:4]))
    together = memory.nats(rows[4:], uniform(rows[4:]))
    for row, found in zip(rows[4:], together, strict=True):
        assert memory.nats([row], uniform([row]))[0].tolist() == found.tolist()


def test_long_passages_that_repeat_cost_little() -> None:
    rows = repeating(12)
    memory = learned(rows[:4]).fitted(rows[4:8], uniform(rows[4:8]))
    twice = rows[9]
    (found,) = memory.nats([twice], uniform([twice]))
    assert found[30:140].mean() < 0.2 * math.log(V)
    own = learned([noise(50)]).fitted(rows[4:8], uniform(rows[4:8]))  # a text's own passage, when it comes again
    (found,) = own.nats([twice], uniform([twice]))
    assert found[100:138].mean() < 0.5 * math.log(V) < found[30:70].mean()


def test_noise_is_not_worth_the_weights() -> None:
    rows = [noise(300) for _ in range(8)]
    memory = learned(rows[:4]).fitted(rows[4:], uniform(rows[4:]))
    saved = sum(map(np.sum, uniform(rows[4:]))) - nats(memory, rows[4:])
    assert saved / math.log(2) < memory.costs(1200)
    again = repeating(8)
    memory = learned(again[:4]).fitted(again[4:], uniform(again[4:]))
    saved = sum(map(np.sum, uniform(again[4:]))) - nats(memory, again[4:])
    assert saved / math.log(2) > memory.costs(sum(map(len, again[4:])))


def test_a_text_of_other_tokens_is_refused() -> None:
    with pytest.raises(BadData, match="vocabulary"):
        learned(repeating(2)).nats([[0, V]], [np.zeros(1)])
