"""What goes down to a host: orders, each signed or answered at once."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from agent.domain.datasets import DatasetRef
from agent.domain.runs import DEFAULT_ENGINE, Network, Outcome, RunSpec
from agent.domain.sources import Source
from agent.domain.tasks import TaskType
from agent.domain.value import Value


class LaunchOrder(Value):
    """Start attempt `attempt` of `run` on `host`. `attempt` is the fencing token.

    `gpu_uuids` are leased to it in the database; `budget_s` is the training time that its approval still covers.
    `signature` is Ed25519 over `agent.wire.signed_bytes(order)`, hex; a host refuses an order that is late or unsigned.
    """

    run: str
    attempt: int
    host: str
    spec: RunSpec
    gpu_uuids: tuple[str, ...] = ()
    budget_s: float | None = None  # None: all of spec.max_hours
    expires_at: datetime
    signature: str = ""


class StopOrder(Value):
    """End an attempt: `stop` and `pause` save a checkpoint first, `kill` does not wait. Signed as a launch is."""

    run: str
    attempt: int
    how: Literal["stop", "pause", "kill"] = "stop"
    signature: str = ""


class AttemptLabel(Value):
    """What an attempt is found by: its run and number; `host` is where its order went."""

    run: str
    attempt: int
    host: str


class AttemptStatus(Value):
    """What an engine knows of an attempt. `outcome` is how it ended; without one and not `alive`, nobody said yet."""

    alive: bool
    outcome: Outcome | None = None


class LogPart(Value):
    """A piece of a log; `end` is the byte behind it, from which the next piece is asked for."""

    text: str
    end: int


class LookOrder(Value):
    """Ask a host what became of an attempt, and for the part of its log behind byte `log_after`. Signed as a launch."""

    label: AttemptLabel
    log_after: int = 0
    signature: str = ""


class Looked(Value):
    """The answer; `status` is None where this host never began such an attempt."""

    status: AttemptStatus | None
    log: LogPart


class InspectOrder(Value):
    """Audit a data file. With `target` the audit includes classes and leaks.

    With `plan` it is refused where the steps of this run could not work, and leaks are left out, which the plan knows.
    """

    dataset: DatasetRef
    target: str | None = None
    task: TaskType | None = None
    plan: RunSpec | None = None
    signature: str = ""


class PredictOrder(Value):
    """Predict with a finished model: either a data file, or rows of column name to value (as text).

    `serving` is a run on `host` that keeps this model up; it is asked first.
    """

    artifact_sha256: str
    serving: str = ""
    host: str = ""
    dataset: DatasetRef | None = None
    rows: tuple[dict[str, str], ...] = ()
    signature: str = ""


class FetchOrder(Value):
    """Fetch data that nobody attached; more than `limit_bytes` is refused."""

    source: Source
    limit_bytes: int
    signature: str = ""


class Fetched(Value):
    """The answer: a file, its `origin` with the exact revision, and what people should know, in sentences."""

    dataset: DatasetRef
    notes: tuple[str, ...] = ()


SignedOrder = LaunchOrder | StopOrder | InspectOrder | PredictOrder | FetchOrder | LookOrder


class OfImage(Value):
    """What an answer of a model for images has, of the first images: `thumbnail` is the image, small, as base64.

    `name` is that of its file, `size` its own, in pixels; 0 where nobody says.
    """

    name: str = ""
    size: tuple[int, int] = (0, 0)
    thumbnail: str = ""


class LabelPrediction(OfImage):
    """The label, and each label's probability, most likely first (at most five)."""

    kind: Literal["label"] = "label"
    label: str
    probabilities: tuple[tuple[str, float], ...] = ()


class NumberPrediction(OfImage):
    """A quantity, in the unit of the target column."""

    kind: Literal["number"] = "number"
    value: float


class StepPrediction(Value):
    """A quantity at a moment to come, and between what it lies in 90 of 100 cases; `series` where there are several."""

    kind: Literal["step"] = "step"
    series: str = ""
    moment: str
    value: float
    low: float
    high: float


class ClusterPrediction(Value):
    """The number of a row's cluster, the largest has 1; 0 where it belongs to none."""

    kind: Literal["cluster"] = "cluster"
    cluster: int = Field(ge=0)

    @property
    def label(self) -> str:
        """The cluster in words."""
        return f"cluster {self.cluster}" if self.cluster else "no cluster"


class TextPrediction(Value):
    """A text that the model wrote: a summary, a translation, what follows a prompt."""

    kind: Literal["text"] = "text"
    text: str


class FoundSpan(Value):
    """Characters `start` up to `end` of a text and what they are."""

    start: int
    end: int
    label: str
    text: str = ""


class SpansPrediction(Value):
    """A text with the spans that the model found in it, in their order."""

    kind: Literal["spans"] = "spans"
    text: str
    spans: tuple[FoundSpan, ...] = ()


class FoundBox(Value):
    """A rectangle in pixels of its image, what is in it, and how sure that is."""

    label: str
    left: float
    top: float
    width: float
    height: float
    score: float


class BoxesPrediction(OfImage):
    """What was found on an image, the surest first."""

    kind: Literal["boxes"] = "boxes"
    boxes: tuple[FoundBox, ...] = ()


Prediction = Annotated[
    LabelPrediction
    | NumberPrediction
    | StepPrediction
    | ClusterPrediction
    | TextPrediction
    | SpansPrediction
    | BoxesPrediction,
    Field(discriminator="kind"),
]


class Predictions(Value):
    """Answers in the order of the rows, at most the first thousand; the other fields cover all.

    `counts` are (label, rows), most frequent first; `spread` is the least, the median and the greatest of numbers.
    `file` is set for a data file: its rows with a column `prediction` added, and one `p_<label>` for each label.
    """

    rows: tuple[Prediction, ...]
    total: int
    counts: tuple[tuple[str, int], ...] = ()
    spread: tuple[float, float, float] | None = None
    file: DatasetRef | None = None


class GpuInfo(Value):
    """One GPU of a host. `foreign_bytes` is held by processes not ours; `sick`: why not to use it.

    `minor` is the number of its device file /dev/nvidia<minor>, -1 where nobody said.
    """

    uuid: str
    index: int
    name: str
    memory_bytes: int
    used_bytes: int = 0
    foreign_bytes: int = 0
    busy: float = 0.0  # 0..1
    sick: str = ""
    minor: int = -1


class Limits(Value):
    """What one run may take of a host, with all its processes together; 0: no limit.

    `processes` counts their threads too; `disk_bytes` is what its folder may grow by; `files` are open ones, of each.
    """

    memory_bytes: int = 0
    disk_bytes: int = 0
    processes: int = 0
    files: int = 0


class HostInfo(Value):
    """What a host of `engine` says about itself. `sandbox` is the tier that passed its self-test.

    `slots` is how many runs without a GPU it takes at a time; `networks` are the policies that it can enforce;
    `boot_id` changes when the machine starts anew; `warm` names the sets of libraries that stand ready;
    `consuming` is false when its pool does not take orders though its main process lives; `alert` is a sentence that
    people should hear, as of an order that nobody had signed; `secrets` are the names of what it keeps, never a value
    (None: it does not say). `limits` are those of a run without a GPU, with one, with two and so on; empty: it does
    not say.
    """

    host: str
    cpus: int
    memory_bytes: int
    disk_free_bytes: int
    gpus: tuple[GpuInfo, ...] = ()
    sandbox: str = "none"
    networks: tuple[Network, ...] = ("none", "open")
    slots: int = 2
    boot_id: str = ""
    warm: tuple[str, ...] = ()
    consuming: bool = True
    disk_low: bool = False
    alert: str = ""
    secrets: tuple[str, ...] | None = None
    limits: tuple[Limits, ...] = ()
    engine: str = DEFAULT_ENGINE
    at: datetime

    def limits_with(self, gpus: int) -> Limits | None:
        """Those of a run with so many GPUs, where the host says."""
        return self.limits[min(gpus, len(self.limits) - 1)] if self.limits else None

    @property
    def shut(self) -> str:
        """Why it takes no new runs now; empty where it does."""
        if self.disk_low:
            return f"its disk is almost full ({self.disk_free_bytes / 1e9:.1f} GB free)"
        return "" if self.consuming else "its worker hangs: restart `trainyard worker` there"
