"""What is read of a series: its summary, and a window of it as spans. Values; `agent.storage.series` finds them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.series.columns import POINT, SPAN, Entries
from agent.series.pyramid import fold_all, spans

PAUSE_S: Final = 60.0  # what takes longer, and out of proportion, is a pause
OUT_OF_PROPORTION: Final = 20.0
_COLUMNS: Final = 1000  # what is shorter than one of so many parts cannot be seen
_MOST_PAUSES: Final = 16


@dataclass(frozen=True, slots=True)
class Summary:
    """A series in a line: the steps it spans, its ends, its extremes (NaN where no value is finite)."""

    name: str
    count: int
    first_step: int
    last_step: int
    first_value: float
    last_value: float
    low: float
    low_step: int
    high: float
    high_step: int


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Part of a series, by step. `spans` (of `columns.SPAN`) follow each other; `exact`: each is one point."""

    name: str
    spans: Entries
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """What one attempt has of a series, in the order of its rows."""

    attempt: int
    window: Window

    def since(self, moment: float) -> "Stretch | None":
        """What it has from a moment on (seconds since the epoch); None where that is nothing."""
        spans = self.window.spans[self.window.spans["ended"] >= moment]
        return replace(self, window=replace(self.window, spans=spans)) if len(spans) else None


def summary(found: Window, first_value: float, last_value: float) -> Summary | None:
    """Of a window onto the whole series, and the values of its first and its newest row; None without any row."""
    whole = fold_all(found.spans)
    if whole is None:
        return None
    count = int(whole["count"] + whole["nans"] + whole["ups"] + whole["downs"])
    low, high = (float(whole["low"]), int(whole["low_step"])), (float(whole["high"]), int(whole["high_step"]))
    return Summary(found.name, count, int(whole["first"]), int(whole["last"]), first_value, last_value, *low, *high)


def window(name: str, parts: Sequence[Entries], *, by_step: bool = True) -> Window:
    """Parts in the order of the series, points or spans, as one; in the order of their steps, unless that is unsaid."""
    exact = all(part.dtype == POINT for part in parts)
    found = np.concatenate([np.zeros(0, dtype=SPAN), *[spans(p) if p.dtype == POINT else p for p in parts]])
    if by_step and np.any(np.diff(found["first"]) < 0):
        found = found[np.argsort(found["first"], kind="stable")]
    return Window(name, found, exact)


def points_in(entries: Entries) -> int:
    """How many points the spans stand for."""
    return int(sum(entries[kind].sum() for kind in ("count", "nans", "ups", "downs")))


def usual_s(entries: Entries) -> float:
    """The usual time between two points, in seconds; 0 where spans do not tell."""
    counts = _counts(entries)
    within = (entries["ended"] - entries["began"])[counts > 1] / (counts[counts > 1] - 1)
    between = (entries["began"][1:] - entries["ended"][:-1])[(counts[1:] == 1) & (counts[:-1] == 1)]
    # A span weighs as much as its points: half of all of them are nearer together than this.
    steps, weights = np.concatenate([within, between]), np.append(counts[counts > 1] - 1, np.ones(len(between)))
    known = steps >= 0
    steps, weights = steps[known], weights[known]
    if not len(steps):
        return 0.0
    order = np.argsort(steps, kind="stable")
    passed = np.cumsum(weights[order])
    return float(steps[order][np.searchsorted(passed, passed[-1] / 2)])


def longest_wait_s(entries: Entries) -> float:
    """How long the next point may take; what takes longer is a pause. Seconds."""
    return max(PAUSE_S, OUT_OF_PROPORTION * usual_s(entries))


def hidden_pauses(entries: Entries) -> list[int]:
    """The places of the spans of several points that hold a pause: the longest few, if they can be seen at all."""
    if not len(entries):
        return []
    counts, usual = _counts(entries), usual_s(entries)
    beyond = entries["ended"] - entries["began"] - usual * (counts - 1)
    seen = (entries["ended"].max() - entries["began"].min()) / _COLUMNS
    places = np.flatnonzero((counts > 1) & (beyond > max(longest_wait_s(entries), seen)))
    return sorted(places[np.argsort(beyond[places])[-_MOST_PAUSES:]].tolist())


def _counts(entries: Entries) -> Entries:
    counts: Entries = sum((entries[kind] for kind in ("nans", "ups", "downs")), entries["count"])
    return counts
