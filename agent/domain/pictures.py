"""What a picture of a result shows, before anybody draws it: one dataclass a kind, up to four of them on a sheet.

Owns the words between whoever measured (a host's evaluation, the agent) and whoever draws (`charts_render`). Knows
neither tasks nor pixels. Curves over the steps of a training are `agent.domain.charts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent.domain.charts import Theme

TrialState = Literal["kept", "discarded", "crashed", "running"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Counts of what was said (`columns`) for what was true (`rows`): `counts[row][column]`, at least 0.

    With `others` the last row and column stand for many rare classes, so that right and wrong lie in their last cell.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    row_label: str = "true"
    column_label: str = "predicted"
    others: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points in their order; NaN is a gap. `note` is said with its name: `AUC 0.91`.

    `low` and `high`, where given, have the length of `y` and span what is likely (an interval, not a range of data).
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    note: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """Lines over two free axes: ROC, precision over recall, calibration, a forecast with its intervals.

    `x_range` and `y_range` fix an axis, else it follows the values. `guide` is a faint line: `rising` (chance in a ROC,
    the ideal of a calibration) goes through equal values.
    """

    title: str
    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    guide: Literal["", "rising"] = ""
    since: float | None = None  # a vertical line: where the forecast begins


@dataclass(frozen=True, slots=True)
class Points:
    """A group of points of one meaning. `names`, where given, label single points; an empty one labels nothing."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points over two free axes: residuals, a map of clusters, a metric against its cost.

    `guide`: `zero` is the horizontal line at 0, `rising` the line of equal values. `front` names the group whose points
    are joined by steps: those that nothing beats in both directions.
    """

    title: str
    groups: tuple[Points, ...]
    x_label: str
    y_label: str
    guide: Literal["", "zero", "rising"] = ""
    front: str = ""


@dataclass(frozen=True, slots=True)
class BarGroup:
    """One value a name of the picture; NaN is missing. `errors`, where given, are half the length of a whisker."""

    name: str
    values: Sequence[float]
    errors: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars from zero: importance of features, scores of each class.

    In the order given; of too many, the longest, the longest first.
    """

    title: str
    names: tuple[str, ...]
    groups: tuple[BarGroup, ...]
    unit: str = ""
    most: float | None = None  # the end of the axis where it is known, 1 for shares


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between `edges` (one more than counts, rising) for one or a few groups: lengths of texts, of tokens."""

    title: str
    edges: tuple[float, ...]
    groups: tuple[BarGroup, ...]
    x_label: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text, as samples that a model wrote or mistakes that it made. `marks` may tell a row `good` or `bad`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[Literal["", "good", "bad"], ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in an image, in parts of its width and height (0 to 1, from the upper left)."""

    name: str
    left: float
    top: float
    right: float
    bottom: float
    truth: bool = False  # drawn dashed: what is there, against what the model found
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Tile:
    """One image of a grid: PNG or JPEG bytes, what stands below it, whether the model was right about it."""

    image: bytes
    caption: str = ""
    right: bool | None = None
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True)
class Images:
    """A grid of samples: mistakes of a classifier, boxes of a detector. Takes a whole sheet."""

    title: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One experiment: its number from 1, what it reached (NaN where it crashed), what it cost, what it came from."""

    number: int
    value: float
    state: TrialState
    name: str = ""
    parent: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Experiments in their order, with the best so far as steps."""

    title: str
    trials: tuple[Trial, ...]
    better: Literal["lower", "higher"]
    metric: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """Experiments below the one they came from. Takes a whole sheet."""

    title: str
    trials: tuple[Trial, ...]
    better: Literal["lower", "higher"]
    metric: str = ""


ResultPicture = Matrix | Plane | Cloud | Bars | Histogram | Table | Images | Progress | Tree


@dataclass(frozen=True, slots=True)
class PictureSpec:
    """At most four pictures on one sheet; one kind that takes a whole sheet stands alone."""

    title: str
    pictures: tuple[ResultPicture, ...]
    subtitle: str = ""
    theme: Theme = "light"
    width_px: int = 1200
