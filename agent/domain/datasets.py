"""What was found in a data file, in values that fit into a prompt and a card."""

from typing import Final, Literal

from agent.domain.sources import Source
from agent.domain.tasks import TaskType
from agent.domain.value import Value

ColumnKind = Literal[
    "number", "category", "text", "datetime", "boolean", "identifier", "constant", "empty", "image",
]  # fmt: skip


PROGRAM_ENDINGS: Final = (".py", ".zip")
FILE_LIMIT_BYTES: Final = 1_000_000_000  # of one file of data, attached or fetched


class DatasetRef(Value):
    """A file in the blob store. `origin` is where it was fetched, None where somebody attached it.

    `program` says whether it holds a program; None where nobody has looked, then its name decides.
    """

    sha256: str
    name: str
    size_bytes: int
    origin: Source | None = None
    program: bool | None = None

    @property
    def is_program(self) -> bool:
        """Whether it can be run: a Python file, or an archive that holds one."""
        return holds_program(self.name, self.program)


def may_be_program(name: str) -> bool:
    """Whether a file of this name can be a program."""
    return name.lower().endswith(PROGRAM_ENDINGS)


def holds_program(name: str, known: bool | None) -> bool:
    """Whether a file can be run; `known` is what somebody who looked into it found."""
    return may_be_program(name) if known is None else known


class ColumnReport(Value):
    """One column. `example` is a value as it stands in the file, cut at 80 characters.

    `values` are all of a column with few classes, the most frequent first; empty for other columns.
    """

    name: str
    kind: ColumnKind
    missing: int
    unique: int
    example: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    mean_chars: float | None = None


class TargetReport(Value):
    """What can be said once the column to predict is known.

    `classes` is label and count, most frequent first; `imbalance` is the most frequent class / the least frequent one.
    `spread` is the least, the median and the greatest value of a quantity, which has no classes; `about` says in a few
    words what values of any other kind are.
    """

    column: str
    classes: tuple[tuple[str, int], ...] = ()
    missing: int
    imbalance: float = 0.0
    spread: tuple[float, float, float] | None = None
    about: str = ""


class Leak(Value):
    """A column that gives the target away, and how well it does alone (accuracy or R², in 0..1)."""

    column: str
    accuracy: float
    why: str


class Split(Value):
    """How rows become a training and a test part.

    `random`: stratified, by chance; `group`: rows of one value of the column stay together; `time`: the newest rows are
    the test part; `given`: the column names the part of each row. `why` is a sentence where the data suggest it.
    """

    kind: Literal["random", "group", "time", "given"] = "random"
    column: str = ""
    why: str = ""

    def words(self, frac: float) -> str:
        """The test part in a few words."""
        match self.kind:
            case "group":
                return f"{frac:.0%}, whole groups of {self.column}"
            case "time":
                return f"{frac:.0%}, the newest by {self.column}"
            case "given":
                return f"as {self.column} says"
            case _:
                return f"{frac:.0%}"


class DataReport(Value):
    """The audit of one file.

    `problems` are sentences that stop a run; `warnings` are sentences that people should read first.
    `target`, `suggested_task` and `suggested_target` are guesses where nobody named a target.
    `preview` holds the first rows, each cell cut at 80 characters. `effort` is how much more work the settings of a
    planned run make than the recipe's own. `split` is what the data suggest. `spacing` is how far apart the rows of a
    series are, such as “hour” or “15 minutes”, empty where they are none.
    """

    dataset: DatasetRef
    rows: int
    columns: tuple[ColumnReport, ...]
    duplicate_rows: int
    encoding: str
    delimiter: str
    preview: tuple[tuple[str, ...], ...]
    target: TargetReport | None = None
    suggested_task: TaskType | None = None
    suggested_target: str | None = None
    text_column: str | None = None
    leaks: tuple[Leak, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    effort: float = 1.0
    split: Split = Split()
    spacing: str = ""
