"""What pictures of a result are drawn from: bounded facts that an evaluation measured on the sealed test part.

A host's file is not trusted, so every length, number and cross-reference is checked here; what does not fit is refused
as a whole. Knows neither how facts are measured (`worker.recipes.*.score`) nor drawn (`agent.runs.pictures.results`).
They lie in the blob store, not in events: they tell of single sealed rows, and a run's folder is open to its next
attempt.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from agent.domain.pictures import MOST_CLASSES, AnyPicture, Count
from agent.domain.value import Value

LIMIT_BYTES = 2 * 1024**2  # of the facts as JSON
MOST_SHOWN = 8
MOST_CURVES = 6
MOST_POINTS = 200
MOST_BINS = 20
MOST_FEATURES = 30
MOST_MISTAKES = 10
MOST_CELLS = 4

ResultView = Literal[
    "overview", "confusion", "classes", "roc", "pr", "calibration", "importance", "lengths", "mistakes", "predicted",
    "residuals", "errors", "scores", "samples", "forecast", "clusters", "typical", "sizes", "boxes",
]  # fmt: skip
Name = Annotated[str, Field(max_length=80)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Confusion(Value):
    """How often each class was said: `counts[true][predicted]`. The last label may stand for all rare classes."""

    labels: tuple[Name, ...] = Field(min_length=1, max_length=MOST_CLASSES)
    counts: tuple[tuple[Count, ...], ...]

    @model_validator(mode="after")
    def _square(self) -> Self:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise ValueError("counts must have a row and a column for each label")
        return self


class Curve(Value):
    """Points of a curve in their order, and the area under the whole of it, not under these points."""

    x: tuple[Share, ...] = Field(min_length=1, max_length=MOST_POINTS)
    y: tuple[Share, ...]
    area: Share

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.x) != len(self.y):
            raise ValueError("x and y must have one length")
        return self


class ClassCurves(Value):
    """Of one class against all others; `share` is how many rows are of it, where precision begins by chance."""

    label: Name
    share: Share
    roc: Curve  # true positive rate over false positive rate
    pr: Curve  # precision over recall


class Bin(Value):
    """Rows whose probability was alike: the mean of what was said, and the part of which it was true."""

    count: Count
    predicted: Share
    observed: Share


class Calibration(Value):
    """Of the probability of `label`, or, where that is empty, of the class that was said. `error` is the mean gap."""

    label: Name
    bins: tuple[Bin, ...] = Field(max_length=MOST_BINS)
    error: Share


class ClassScore(Value):
    """How well one class is found, and the F1 of the strongest baseline at it."""

    label: Name
    support: Count
    precision: Share
    recall: Share
    f1: Share
    baseline_f1: Share


class Weight(Value):
    """A column and its part of the whole importance, or a word and its weight as a part of the strongest one's."""

    name: Name
    share: Share


class Importance(Value):
    """What the model leans on, the strongest first, as its training wrote it down; `left_out` columns are weaker.

    `gain` is LightGBM's total gain of splits; `coefficient` is how far a column moves a linear model's log-odds, for a
    number the absolute coefficient of the standardised column. `words` are those of a linear model of texts, each with
    the class that it speaks for.
    """

    kind: Literal["gain", "coefficient", "words"]
    features: tuple[Weight, ...] = Field(min_length=1, max_length=MOST_FEATURES)
    left_out: Count = 0


class Lengths(Value):
    """How many texts of a length were got right and wrong, between `edges`; `beyond` texts are longer."""

    unit: Literal["words", "characters"]
    edges: tuple[Count, ...] = Field(min_length=2, max_length=MOST_BINS + 1)
    right: tuple[Count, ...]
    wrong: tuple[Count, ...]
    beyond: Count = 0

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must rise")
        if not len(self.right) == len(self.wrong) == len(self.edges) - 1:
            raise ValueError("there must be a count between every two edges")
        return self


class Mistake(Value):
    """A row that was got wrong; `cells` are those of the table's columns."""

    row: Annotated[str, Field(max_length=20)]
    true: Name
    predicted: Name
    confidence: Share
    cells: tuple[Name, ...] = Field(max_length=MOST_CELLS)


class Mistakes(Value):
    """The surest of all `count` mistakes, the surest first."""

    count: Count
    columns: tuple[Name, ...] = Field(max_length=MOST_CELLS)
    rows: tuple[Mistake, ...] = Field(max_length=MOST_MISTAKES)

    @model_validator(mode="after")
    def _whole_rows(self) -> Self:
        if any(len(row.cells) != len(self.columns) for row in self.rows):
            raise ValueError("a mistake must have a cell for each column")
        return self


class Classification(Value):
    """Of a classifier. `beaten` is the candidate that is shown beside it; `classes` come the most frequent first."""

    kind: Literal["classification"] = "classification"
    rows: Count
    class_count: Count
    beaten: Name
    confusion: Confusion
    curves: tuple[ClassCurves, ...] = Field(max_length=MOST_CURVES)
    calibration: Calibration
    classes: tuple[ClassScore, ...] = Field(max_length=MOST_CLASSES)
    importance: Importance | None = None
    lengths: Lengths | None = None
    mistakes: Mistakes
    samples: AnyPicture | None = None  # of a classifier of images


class Shown(Value):
    """A picture that an evaluation made, and the name under which people ask for it."""

    origin: Literal["measured"] = "measured"
    view: ResultView
    picture: AnyPicture


class Pictured(Value):
    """Of any other kind of answer: pictures that the recipe's own evaluation made, those that say most first.

    `words` say in a sentence or two what they show. `beaten` is the candidate that is shown beside the model.
    """

    kind: Literal["pictured"] = "pictured"
    rows: Count
    beaten: Name
    words: Annotated[str, Field(max_length=400)]
    pictures: tuple[Shown, ...] = Field(min_length=1, max_length=MOST_SHOWN)


Found = Annotated[Classification | Pictured, Field(discriminator="kind")]


class Results(Value):
    """The facts of one evaluation."""

    found: Found
