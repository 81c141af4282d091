"""Pictures of results: one union by `kind`, which scripts, recipes, the store, the agent and the drawing share.

Owns the bounds. What a script or a host wrote is not trusted: every length and number is checked where a picture is
made, and one that does not fit is refused as a whole. Where it comes from is said beside it: `Reported` by a training
script, or measured by an evaluation (`agent.domain.results`). Knows neither tasks nor pixels. Curves over the steps of
a training are `agent.domain.charts`.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator
from pydantic.dataclasses import dataclass

from agent.domain.charts import Theme
from agent.domain.value import Value

LIMIT_BYTES = 2 * 1024 * 1024  # of one picture as JSON, images within it included
MOST_PICTURES = 20  # names of a run
MOST_POINTS = 2_000  # of all lines or groups of a picture together
MOST_GROUPS = 12
MOST_BARS = 60
MOST_BINS = 60
MOST_CLASSES = 51  # fifty, and the others together
MOST_ROWS = 50
MOST_COLUMNS = 12
MOST_CELL, MOST_NAME, MOST_TITLE = 600, 120, 160  # characters
MOST_IMAGES = 12
MOST_BOXES = 24  # of one image
MOST_SIDE = 4_096  # pixels
MOST_PIXELS = 4_000_000  # of one image, so that all of a picture can be decoded in time
MOST_TEXTS = 12
MOST_SPANS = 60  # of one text
MOST_TRIALS = 1_000

_CONFIG = ConfigDict(extra="forbid", ser_json_inf_nan="strings")


def _bytes(given: object) -> object:
    """Base64 as bytes."""
    if not isinstance(given, str):
        return given
    try:
        return base64.b64decode(given, validate=True)
    except ValueError:
        raise ValueError("it is not base64") from None


PictureKind = Literal[
    "table", "scatter", "lines", "bars", "histogram", "matrix", "images", "texts", "progress", "tree",
]  # fmt: skip
WHOLE_SHEET: frozenset[PictureKind] = frozenset({"table", "images", "texts", "tree"})  # these stand alone on a sheet
TrialState = Literal["kept", "discarded", "pruned", "crashed", "running"]
UNFINISHED: frozenset[TrialState] = frozenset({"crashed", "pruned"})  # what they reached is not compared
PictureName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Title = Annotated[str, Field(max_length=MOST_TITLE)]
Name = Annotated[str, Field(max_length=MOST_NAME)]
Cell = Annotated[str, Field(max_length=MOST_CELL)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
TrialNumber = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Numbers = Annotated[Sequence[float], Field(max_length=MOST_POINTS), AfterValidator(tuple)]
Names = Annotated[Sequence[Name], Field(max_length=MOST_POINTS), AfterValidator(tuple)]
ImageBytes = Annotated[
    bytes,
    Field(max_length=LIMIT_BYTES),
    BeforeValidator(_bytes),
    PlainSerializer(lambda data: base64.b64encode(data).decode(), return_type=str, when_used="json"),
]


@dataclass(frozen=True, slots=True, config=_CONFIG)
class _Picture:
    """What every kind has. `left_out` points, rows or images did not fit into it."""

    title: Title
    left_out: Count = field(default=0, kw_only=True)

    @property
    def heading(self) -> str:
        """The title, and what is left out."""
        return f"{self.title} · {self.left_out:,} more left out" if self.left_out else self.title


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Matrix(_Picture):
    """Counts of what was said (`columns`) for what was true (`rows`): `counts[row][column]`, NaN where unknown.

    With `others` the last row and column stand for many rare classes, so that right and wrong lie in their last cell.
    """

    rows: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_CLASSES)]
    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_CLASSES)]
    counts: Annotated[tuple[tuple[float, ...], ...], Field(max_length=MOST_CLASSES)]
    row_label: Name = "true"
    column_label: Name = "predicted"
    others: bool = False
    kind: Literal["matrix"] = field(default="matrix", kw_only=True)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len(self.counts) != len(self.rows) or any(len(row) != len(self.columns) for row in self.counts):
            raise ValueError("counts must have a row for each of rows, and in it a number for each of columns")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Line:
    """A line through points in their order; NaN is a gap. `note` is said with its name: `AUC 0.91`.

    `low` and `high`, where given, span what is likely at each point (an interval, not a range of data).
    """

    name: Name = ""
    x: Numbers = ()
    y: Numbers = ()
    note: Name = ""
    low: Numbers = ()
    high: Numbers = ()
    dots: bool = False

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.x) != len(self.y) or len(self.low) != len(self.high) or len(self.low) not in (0, len(self.y)):
            raise ValueError("x and y must have one length, and low and high that length too or none")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Lines(_Picture):
    """Lines over two free axes: ROC, precision over recall, calibration, a forecast with its intervals.

    `x_range` and `y_range` fix an axis, else it follows the values. `guide` is a faint line: `rising` (chance in a ROC,
    the ideal of a calibration) goes through equal values, `zero` along 0. A forecast begins at `since`. `moments` are
    the names of the whole places of x from `first` on, shown in place of numbers, as many as there is room for.
    """

    lines: Annotated[tuple[Line, ...], Field(max_length=MOST_GROUPS)]
    x_label: Name = ""
    y_label: Name = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    guide: Literal["", "zero", "rising"] = ""
    since: float | None = None
    first: int = 0
    moments: Names = ()
    kind: Literal["lines"] = field(default="lines", kw_only=True)

    @model_validator(mode="after")
    def _few(self) -> Self:
        _few_points(sum(len(line.x) for line in self.lines))
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Points:
    """A group of points of one meaning. `names`, where given, label single points; an empty one labels nothing."""

    name: Name = ""
    x: Numbers = ()
    y: Numbers = ()
    names: Names = ()

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.x) != len(self.y) or (self.names and len(self.names) != len(self.x)):
            raise ValueError("x, y and names must have one length")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Scatter(_Picture):
    """Points over two free axes: residuals, a map of clusters, a metric against its cost.

    `guide`: `zero` is the horizontal line at 0, `rising` the line of equal values. `front` names the group whose points
    are joined by steps: those that nothing beats in both directions.
    """

    groups: Annotated[tuple[Points, ...], Field(max_length=MOST_GROUPS)]
    x_label: Name = ""
    y_label: Name = ""
    guide: Literal["", "zero", "rising"] = ""
    front: Name = ""
    kind: Literal["scatter"] = field(default="scatter", kw_only=True)

    @model_validator(mode="after")
    def _few(self) -> Self:
        _few_points(sum(len(group.x) for group in self.groups))
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class BarGroup:
    """A value a bar, or a count a bin; NaN is missing. `errors`, where given, are half the length of a whisker."""

    name: Name = ""
    values: Numbers = ()
    errors: Numbers = ()


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Bars(_Picture):
    """Horizontal bars from zero: importance of features, scores of each class.

    In the order given; of too many, the longest, the longest first. `most` is the end of the axis where it is known, 1
    for shares.
    """

    names: Annotated[tuple[Name, ...], Field(max_length=MOST_BARS)]
    groups: Annotated[tuple[BarGroup, ...], Field(max_length=MOST_GROUPS)]
    unit: Name = ""
    most: float | None = None
    kind: Literal["bars"] = field(default="bars", kw_only=True)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for group in self.groups:
            if len(group.values) != len(self.names) or len(group.errors) not in (0, len(self.names)):
                raise ValueError("each group must have a value for each name")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Histogram(_Picture):
    """Counts between rising `edges` for one or a few groups: lengths of texts, of tokens."""

    edges: Annotated[tuple[float, ...], Field(min_length=2, max_length=MOST_BINS + 1)]
    groups: Annotated[tuple[BarGroup, ...], Field(max_length=MOST_GROUPS)]
    x_label: Name = ""
    unit: Name = ""
    kind: Literal["histogram"] = field(default="histogram", kw_only=True)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False)):  # NaN neither
            raise ValueError("edges must rise")
        if any(len(group.values) != len(self.edges) - 1 for group in self.groups):
            raise ValueError("there must be a count between every two edges")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Table(_Picture):
    """Rows of text: samples that a model wrote, mistakes that it made. `marks` may call a row `good` or `bad`."""

    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    rows: Annotated[tuple[tuple[Cell, ...], ...], Field(max_length=MOST_ROWS)]
    marks: Annotated[tuple[Literal["", "good", "bad"], ...], Field(max_length=MOST_ROWS)] = ()
    kind: Literal["table"] = field(default="table", kw_only=True)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("each row must have a cell for each column")
        if self.marks and len(self.marks) != len(self.rows):
            raise ValueError("there must be a mark for each row, or none")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Box:
    """A rectangle in parts of the image's width and height, from its upper left. `truth`: what is there, not found."""

    name: Name = ""
    left: float = 0.0
    top: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    truth: bool = False
    score: float | None = None


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Tile:
    """An image of a grid: PNG or JPEG bytes (base64 in JSON), what stands below, whether the model was right."""

    image: ImageBytes
    caption: Name = ""
    right: bool | None = None
    boxes: Annotated[tuple[Box, ...], Field(max_length=MOST_BOXES)] = ()


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Images(_Picture):
    """A grid of samples: mistakes of a classifier, boxes of a detector. Takes a whole sheet."""

    tiles: Annotated[tuple[Tile, ...], Field(max_length=MOST_IMAGES)]
    kind: Literal["images"] = field(default="images", kw_only=True)


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Span:
    """Characters `start` up to `end` of a text and what they are, as an entity. `truth`: what is there, not found."""

    start: Annotated[int, Field(ge=0, lt=MOST_CELL)]
    end: Annotated[int, Field(gt=0, le=MOST_CELL)]
    name: Name = ""
    truth: bool = False

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.start >= self.end:
            raise ValueError("a span must end after its start")
        return self


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Passage:
    """A text with spans, what stands below, whether the model was right. Spans beyond the text are not shown."""

    text: Cell
    spans: Annotated[tuple[Span, ...], Field(max_length=MOST_SPANS)] = ()
    caption: Name = ""
    right: bool | None = None


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Texts(_Picture):
    """Texts with marked spans: entities that a model found, beside those that are there. Takes a whole sheet."""

    passages: Annotated[tuple[Passage, ...], Field(max_length=MOST_TEXTS)]
    kind: Literal["texts"] = field(default="texts", kw_only=True)


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Trial:
    """One experiment: its number from 1, what it reached (NaN where it crashed), what it cost, what it came from.

    A pruned one fell behind the others and was ended early.
    """

    number: TrialNumber
    value: float
    state: TrialState
    name: Name = ""
    parent: TrialNumber | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, config=_CONFIG)
class _Trials(_Picture):
    trials: Annotated[tuple[Trial, ...], Field(max_length=MOST_TRIALS)]
    better: Literal["lower", "higher"]
    metric: Name = ""


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Progress(_Trials):
    """Experiments in their order, with the best so far as steps."""

    kind: Literal["progress"] = field(default="progress", kw_only=True)


@dataclass(frozen=True, slots=True, config=_CONFIG)
class Tree(_Trials):
    """Experiments below the one they came from. Takes a whole sheet."""

    kind: Literal["tree"] = field(default="tree", kw_only=True)


def _kind_for_form(given: object) -> object:
    """Pictures stored before 2026-11-24 say `form` for `kind`, and so do programs of that time."""
    if isinstance(given, Mapping) and "form" in given:
        return {"kind" if key == "form" else key: value for key, value in given.items()}
    return given


ResultPicture = Matrix | Lines | Scatter | Bars | Histogram | Table | Images | Texts | Progress | Tree
AnyPicture = Annotated[ResultPicture, Field(discriminator="kind"), BeforeValidator(_kind_for_form)]


class Reported(Value):
    """The file `pictures/NAME.json`: a picture that a training script reports of itself, and at which step."""

    origin: Literal["reported"] = "reported"
    step: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    picture: AnyPicture

    @model_validator(mode="before")
    @classmethod
    def _left_out_within(cls, given: Any) -> Any:
        """Files of before 2026-11-24 have `left_out` beside the picture."""
        if isinstance(given, Mapping) and "left_out" in given and isinstance(given.get("picture"), Mapping):
            rest = {key: value for key, value in given.items() if key != "left_out"}
            return {**rest, "picture": {"left_out": given["left_out"], **given["picture"]}}
        return given


@plain_dataclass(frozen=True, slots=True)
class PictureSpec:
    """At most four pictures on one sheet; one kind that takes a whole sheet stands alone."""

    title: str
    pictures: tuple[ResultPicture, ...]
    subtitle: str = ""
    theme: Theme = "light"
    width_px: int = 1200


def _few_points(count: int) -> None:
    if count > MOST_POINTS:
        raise ValueError(f"there are {count:,} points; {MOST_POINTS:,} are the most")
