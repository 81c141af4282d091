"""A memory beside a causal network: what followed the same tokens before is mixed into what it says of the next one.

The last 1, 2, 4, 8 and 16 tokens are looked up in the texts that were learned, and in what is there of the text itself
(a cache, Kuhn and De Mori 1990). Beginning with the network's probability p, each of these sources takes a weight w of
it, the shortest context first: p becomes (1 - w) p + w · (its share of the next token) (Jelinek and Mercer 1980). The
weights are fitted on held-out texts, by how often a source has seen the context. They depend on earlier tokens alone,
so the probabilities of a next token sum to one whatever a memory holds. Copied beside the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.table import BadData

FILE = "memory.safetensors"
MOST_TOKENS = 2_000_000  # learned from: the last of longer texts
_LENGTHS = (1, 2, 4, 8, 16)  # each twice the one before
_SOURCES, _SEEN = 2 * len(_LENGTHS), 8  # weights go by whether a context was seen once, 2 or 3 times, 4 to 7, …
_ROUNDS = 40
_LEAST = np.finfo(np.float64).tiny  # probability, so that its logarithm is a number
Whole = NDArray[np.int64]
Values = NDArray[np.float64]
Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Level:
    """The contexts of one length by number, 0 for none: the `halves` that make them, sorted; how often each was seen;
    and, sorted, each with a token that followed, and how often it did."""

    halves: Whole
    totals: Whole
    followed: Whole
    times: Whole


class Memory:
    """Counts of learned tokens, and the weight of each source by how often it has seen a context."""

    def __init__(self, tokens: Whole, weights: Values, vocabulary: int) -> None:
        """Raises: BadData for what is no memory of that vocabulary."""
        fits = tokens.ndim == 1 and 0 < len(tokens) <= MOST_TOKENS and tokens.dtype.kind == "i"
        if not fits or tokens.min() < 0 or tokens.max() >= vocabulary:
            raise BadData(f"The memory must hold 1 to {MOST_TOKENS:,} tokens of the model's vocabulary.")
        if weights.shape != (_SOURCES, _SEEN + 1) or not ((weights >= 0) & (weights <= 1)).all():
            raise BadData("The weights of the memory must lie between 0 and 1.")
        self._tokens, self._vocabulary = tokens.astype(np.int64), vocabulary
        self.weights = weights * (np.arange(_SEEN + 1) > 0)  # none for a context that was never seen
        self._levels = list(self._learned())

    @classmethod
    def of(cls, tokens: Sequence[int], vocabulary: int, weights: Values | None = None) -> Memory:
        """A memory of texts one after another."""
        start = np.zeros((_SOURCES, _SEEN + 1)) if weights is None else weights
        return cls(np.array(tokens[-MOST_TOKENS:], dtype=np.int64), start, vocabulary)

    def fitted(self, rows: Rows, nats: Sequence[Values]) -> Memory:
        """This memory with the weights under which held-out texts are likeliest (see `nats`)."""
        shares, seen = zip(*self._sources(rows), strict=True)
        weights = _fitted(np.exp(-np.concatenate(nats)), shares, seen)
        return Memory(self._tokens, weights, self._vocabulary)

    def costs(self, tokens: int) -> float:
        """What its weights cost in bits, fitted on so many tokens (Schwarz 1978): less than that is no gain."""
        return float((self.weights > 0).sum() * math.log2(max(2, tokens)) / 2)

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        save_file({"tokens": self._tokens.astype(np.int32), "weights": self.weights}, folder / FILE)

    def nats(self, rows: Rows, nats: Sequence[Values]) -> list[Values]:
        """What network and memory together need for each token but each row's first, where the network needs `nats`."""
        found = np.exp(-np.concatenate(nats))
        for (share, seen), weights in zip(self._sources(rows), self.weights, strict=True):
            found += weights[seen] * (share - found)
        return np.split(-np.log(np.maximum(found, _LEAST)), np.cumsum([len(each) for each in nats])[:-1])

    def mixed(self, tokens: Sequence[int], shares: Values) -> Values:
        """The probability of each next token after these (V,), where the network says `shares`."""
        row, found = np.array(tokens, dtype=np.int64), shares
        for counts, weights in zip(self._counts(row), self.weights, strict=True):
            total = counts.sum()
            if total:
                found = found + weights[_seen(total)] * (counts / total - found)
        return found

    def _learned(self) -> Iterator[_Level]:
        for halves, context in _contexts(np.append(0, self._tokens[:-1] + 1)):
            there = context > 0
            followed, times = np.unique(context[there] * self._vocabulary + self._tokens[there], return_counts=True)
            yield _Level(halves, np.bincount(context[there], minlength=len(halves)), followed, times)

    def _sources(self, rows: Rows) -> Iterator[tuple[Values, Whole]]:
        """For each source the share that it gives to each token but each row's first, and how often it saw the context
        before (see `_seen`)."""
        tokens = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
        if tokens.max() >= self._vocabulary:
            raise BadData("The tokenizer gives tokens that are not of the model's vocabulary.")
        row = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
        inner = np.append(False, row[1:] == row[:-1])
        before = np.where(inner, np.append(0, tokens[:-1] + 1), 0)
        own = np.where(inner, row * (self._vocabulary + 1) + before, 0)
        learned = _contexts(before, self._levels)
        for level, (_, context), (_, here) in zip(self._levels, learned, _contexts(own), strict=True):
            next_to = context * self._vocabulary + tokens
            place = _places(level.followed, next_to)
            times = np.where(level.followed[place] == next_to, level.times[place], 0)
            yield _shares(times, level.totals[context], inner)
            yield _shares(_earlier(here * self._vocabulary + tokens), np.where(here > 0, _earlier(here), 0), inner)

    def _counts(self, row: Whole) -> Iterator[Values]:
        """How often each token followed the end of the row, in each source."""
        same = np.ones(len(row), dtype=bool)
        compared = 0
        end = row[-_LENGTHS[-1] :] + 1
        for level, length, (_, context) in zip(self._levels, _LENGTHS, _contexts(end, self._levels), strict=True):
            first = int(context[-1]) * self._vocabulary
            low, high = np.searchsorted(level.followed, [first, first + self._vocabulary])
            counts = np.zeros(self._vocabulary)
            counts[level.followed[low:high] - first] = level.times[low:high]
            yield counts
            for back in range(compared + 1, min(length, len(row)) + 1):
                same[back:] &= row[:-back] == row[-back]
            same[:length], compared = False, length
            yield np.bincount(row[same], minlength=self._vocabulary).astype(float)


def load_memory(folder: Path, *, vocabulary: int) -> Memory | None:
    """The memory beside a network of that vocabulary, where there is one. Raises: BadData."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not (folder / FILE).is_file():
        return None
    try:
        found = load_file(folder / FILE)
        return Memory(found["tokens"], found["weights"], vocabulary)
    except (SafetensorError, KeyError) as error:
        raise BadData(f"The memory cannot be read ({error}).") from error


def _contexts(keys: Whole, known: Sequence[_Level] | None = None) -> Iterator[tuple[Whole, Whole]]:
    """For each length the halves that make the contexts, and the number of the context before each place.

    `keys` name the token before each place, 0 for none. A context is found among the known ones, or all are numbered.
    """
    for at, length in enumerate(_LENGTHS):
        halves = known[at].halves if known else np.unique(np.append(keys, 0))
        places = _places(halves, keys)
        context = np.where(halves[places] == keys, places, 0)
        yield halves, context
        older = np.append(np.zeros(min(length, len(context)), dtype=np.int64), context[:-length])
        keys = np.where((context > 0) & (older > 0), context * len(halves) + older, 0)


def _places(known: Whole, wanted: Whole) -> Whole:
    return np.minimum(np.searchsorted(known, wanted), len(known) - 1)


def _earlier(keys: Whole) -> Whole:
    """How often each key was there before."""
    order = np.argsort(keys, kind="stable")
    at = np.arange(len(keys))
    new = np.append(True, keys[order][1:] != keys[order][:-1])
    found = np.empty_like(at)
    found[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return found


def _shares(times: Whole, total: Whole, inner: NDArray[np.bool_]) -> tuple[Values, Whole]:
    share = np.where(total > 0, times / np.maximum(total, 1), 0.0)
    return share[inner], _seen(total[inner])


def _seen(total: Any) -> Any:
    """0 for never, 1 for once, 2 for 2 or 3 times, 3 for 4 to 7, …"""
    return np.minimum(np.frexp(total)[1], _SEEN)


def _fitted(said: Values, shares: Sequence[Values], seen: Sequence[Whole]) -> Values:
    """The weights under which held-out tokens are likeliest, by expectation maximization; 0 where nothing is known."""
    weights = np.full((len(shares), _SEEN + 1), 0.5)
    for _ in range(_ROUNDS):
        reached = [np.maximum(said, _LEAST)]
        for share, saw, weight in zip(shares, seen, weights, strict=True):
            reached.append(reached[-1] + weight[saw] * (share - reached[-1]))
        left = 1 / reached[-1]
        for source in reversed(range(len(shares))):
            weight = weights[source][seen[source]]
            taken = np.bincount(seen[source], left * weight * shares[source], _SEEN + 1)
            come = np.bincount(seen[source], left * reached[source + 1], _SEEN + 1)
            weights[source] = taken / (come + 1)
            left *= 1 - weight
    return weights
