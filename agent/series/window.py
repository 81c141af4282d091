"""What is read of a series: its summary, and a window of it as spans. Values; `agent.storage.series` finds them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.series.columns import POINT, SPAN, Entries
from agent.series.pyramid import fold_all, spans


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


def summary(found: Window, first_value: float, last_value: float) -> Summary | None:
    """Of a window onto the whole series, and the values of its first and its newest row; None without any row."""
    whole = fold_all(found.spans)
    if whole is None:
        return None
    count = int(whole["count"] + whole["nans"] + whole["ups"] + whole["downs"])
    low, high = (float(whole["low"]), int(whole["low_step"])), (float(whole["high"]), int(whole["high_step"]))
    return Summary(found.name, count, int(whole["first"]), int(whole["last"]), first_value, last_value, *low, *high)


def window(name: str, parts: Sequence[Entries]) -> Window:
    """Parts in the order of the series, points or spans, as one; in the order of their steps."""
    exact = all(part.dtype == POINT for part in parts)
    found = np.concatenate([np.zeros(0, dtype=SPAN), *[spans(p) if p.dtype == POINT else p for p in parts]])
    if np.any(np.diff(found["first"]) < 0):
        found = found[np.argsort(found["first"], kind="stable")]
    return Window(name, found, exact)
