"""A picture that a training script logs itself, as it crosses processes: bounded values, told and not measured.

A script's file is not trusted, so every length and number is checked here; what does not fit is refused as a whole.
`trainyard.pictures` writes such files within these bounds, `worker.supervisor.pictures` checks them, and what it keeps
lies in the blob store. Knows neither chat nor drawing: `agent.runs.pictures.told` makes `agent.domain.pictures` of it.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from agent.domain.value import Value

LIMIT_BYTES = 2 * 1024 * 1024  # of one picture as JSON, images within it included
MOST_PICTURES = 20  # names of a run
MOST_POINTS = 2_000  # of all lines or groups of a picture together
MOST_GROUPS = 12
MOST_BARS = 60
MOST_BINS = 60
MOST_CLASSES = 51
MOST_ROWS = 50
MOST_COLUMNS = 12
MOST_CELL = 600  # characters
MOST_IMAGES = 12
MOST_BOXES = 24  # of one image
MOST_SIDE = 4_096  # pixels
MOST_PIXELS = 4_000_000  # of one image, so that all of a picture can be decoded in time

Form = Literal["table", "scatter", "lines", "bars", "histogram", "matrix", "images"]
PictureName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Title = Annotated[str, Field(max_length=160)]
Name = Annotated[str, Field(max_length=120)]
Cell = Annotated[str, Field(max_length=MOST_CELL)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Numbers = Annotated[tuple[float, ...], Field(max_length=MOST_POINTS)]


class ToldTable(Value):
    """Rows of text: samples that a model wrote, answers beside what was right."""

    form: Literal["table"] = "table"
    title: Title
    columns: tuple[Name, ...] = Field(min_length=1, max_length=MOST_COLUMNS)
    rows: tuple[tuple[Cell, ...], ...] = Field(max_length=MOST_ROWS)
    marks: tuple[Literal["", "good", "bad"], ...] = Field((), max_length=MOST_ROWS)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("each row must have a cell for each column")
        if self.marks and len(self.marks) != len(self.rows):
            raise ValueError("there must be a mark for each row, or none")
        return self


class ToldGroup(Value):
    """Points of one meaning. `names`, where given, label single points."""

    name: Name = ""
    x: Numbers
    y: Numbers
    names: tuple[Name, ...] = Field((), max_length=MOST_POINTS)

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.x) != len(self.y) or (self.names and len(self.names) != len(self.x)):
            raise ValueError("x, y and names must have one length")
        return self


class ToldScatter(Value):
    """Points over two free axes: residuals, a map of clusters."""

    form: Literal["scatter"] = "scatter"
    title: Title
    groups: tuple[ToldGroup, ...] = Field(max_length=MOST_GROUPS)
    x_label: Name = ""
    y_label: Name = ""
    guide: Literal["", "zero", "rising"] = ""

    @model_validator(mode="after")
    def _few(self) -> Self:
        _few_points(sum(len(group.x) for group in self.groups))
        return self


class ToldLine(Value):
    """Points in their order, NaN a gap; `low` and `high`, where given, say how sure it is of each."""

    name: Name = ""
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.x) != len(self.y) or len(self.low) != len(self.high) or len(self.low) not in (0, len(self.y)):
            raise ValueError("x and y must have one length, and low and high that length too or none")
        return self


class ToldLines(Value):
    """Lines over two free axes: a forecast with its intervals, which begins at `since`."""

    form: Literal["lines"] = "lines"
    title: Title
    lines: tuple[ToldLine, ...] = Field(max_length=MOST_GROUPS)
    x_label: Name = ""
    y_label: Name = ""
    since: float | None = None

    @model_validator(mode="after")
    def _few(self) -> Self:
        _few_points(sum(len(line.x) for line in self.lines))
        return self


class ToldValues(Value):
    """One value a bar, or one count a bin; `errors`, where given, are half the length of a whisker."""

    name: Name = ""
    values: Numbers
    errors: Numbers = ()


class ToldBars(Value):
    """Bars from zero; `most` is the end of the axis where it is known, 1 for shares."""

    form: Literal["bars"] = "bars"
    title: Title
    names: tuple[Name, ...] = Field(max_length=MOST_BARS)
    groups: tuple[ToldValues, ...] = Field(max_length=MOST_GROUPS)
    unit: Name = ""
    most: float | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for group in self.groups:
            if len(group.values) != len(self.names) or len(group.errors) not in (0, len(self.names)):
                raise ValueError("each group must have a value for each name")
        return self


class ToldHistogram(Value):
    """Counts between rising `edges`."""

    form: Literal["histogram"] = "histogram"
    title: Title
    edges: tuple[float, ...] = Field(min_length=2, max_length=MOST_BINS + 1)
    groups: tuple[ToldValues, ...] = Field(max_length=MOST_GROUPS)
    x_label: Name = ""
    unit: Name = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False)):  # NaN neither
            raise ValueError("edges must rise")
        if any(len(group.values) != len(self.edges) - 1 for group in self.groups):
            raise ValueError("there must be a count between every two edges")
        return self


class ToldMatrix(Value):
    """`counts[row][column]`: how often `columns` was said for what was `rows`."""

    form: Literal["matrix"] = "matrix"
    title: Title
    rows: tuple[Name, ...] = Field(min_length=1, max_length=MOST_CLASSES)
    columns: tuple[Name, ...] = Field(min_length=1, max_length=MOST_CLASSES)
    counts: tuple[tuple[float, ...], ...] = Field(max_length=MOST_CLASSES)
    row_label: Name = "true"
    column_label: Name = "predicted"
    others: bool = False  # the last row and column stand for many rare classes

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len(self.counts) != len(self.rows) or any(len(row) != len(self.columns) for row in self.counts):
            raise ValueError("counts must have a row for each of rows, and in it a number for each of columns")
        return self


class ToldBox(Value):
    """A rectangle in parts of the image's width and height, from its upper left. `truth`: what is there, not found."""

    name: Name = ""
    left: float
    top: float
    right: float
    bottom: float
    truth: bool = False
    score: float | None = None


class ToldTile(Value):
    """`image` is a PNG or JPEG in base64; whoever takes it in looks at its head."""

    image: Annotated[str, Field(max_length=LIMIT_BYTES)]
    caption: Name = ""
    right: bool | None = None
    boxes: tuple[ToldBox, ...] = Field((), max_length=MOST_BOXES)


class ToldImages(Value):
    """Samples: mistakes of a classifier, boxes of a detector."""

    form: Literal["images"] = "images"
    title: Title
    tiles: tuple[ToldTile, ...] = Field(max_length=MOST_IMAGES)


ToldPicture = Annotated[
    ToldTable | ToldScatter | ToldLines | ToldBars | ToldHistogram | ToldMatrix | ToldImages,
    Field(discriminator="form"),
]


class Told(Value):
    """The file `pictures/NAME.json`. `left_out` is how many points, rows or images did not fit into it."""

    step: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    picture: ToldPicture
    left_out: Count = 0


def _few_points(count: int) -> None:
    if count > MOST_POINTS:
        raise ValueError(f"there are {count:,} points; {MOST_POINTS:,} are the most")
