"""What a chart shows, before anybody draws it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Theme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Extremes:
    """The lowest and the highest value of a series, and where they are."""

    low_x: float
    low: float
    high_x: float
    high: float


@dataclass(frozen=True, slots=True)
class Series:
    """A line: `x` and `y` have one length, `x` does not fall; NaN in `y` is a gap.

    Where entries stand for many points, `y` are their means, and `low` and `high`, of the same length, what they span;
    `extremes` then says what no longer can be read off them, and `counts`, also of that length, how many points each
    mean is of. At `breaks` (values of x) something began anew, such as an attempt: smoothing does not reach across.
    At `nans` (values of x) a value was NaN; NaN in `y` elsewhere is a gap only.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    extremes: Extremes | None = None
    counts: Sequence[float] = ()
    breaks: Sequence[float] = ()
    nans: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """A horizontal line to beat."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at `x`: a checkpoint, a restart, the step that was kept."""

    x: float
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric, or a few that share a unit (train and validation loss).

    `smooth` is the weight of an exponential moving average, from 0 (none) to below 1. `floor` and `ceiling` are the
    ends of a linear y axis where they are set, whatever the values are.
    """

    title: str
    series: tuple[Series, ...]
    unit: str = ""
    baselines: tuple[Baseline, ...] = ()
    marks: tuple[Mark, ...] = ()
    log_scale: bool = False
    better: Literal["", "lower", "higher"] = ""
    smooth: float = 0.0
    floor: float | None = None
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """Panels over one x axis; the first twelve are drawn, more than four of them as small multiples."""

    title: str
    panels: tuple[Panel, ...]
    subtitle: str = ""
    x_label: str = "step"
    theme: Theme = "light"
    width_px: int = 1200
