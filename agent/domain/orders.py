"""What goes down to a host: orders, each signed or answered at once."""

from datetime import datetime
from typing import Literal

from agent.domain.datasets import DatasetRef, TaskType
from agent.domain.runs import RunSpec
from agent.domain.value import Value


class LaunchOrder(Value):
    """Start attempt `attempt` of `run` on `host`. `attempt` is the fencing token.

    `signature` is Ed25519 over `agent.wire.signed_bytes(order)`, hex; a host refuses an order that is late or unsigned.
    """

    run: str
    attempt: int
    host: str
    spec: RunSpec
    expires_at: datetime
    signature: str = ""


class StopOrder(Value):
    """End an attempt: `stop` saves a checkpoint first, `kill` does not wait."""

    run: str
    attempt: int
    how: Literal["stop", "kill"] = "stop"


class InspectOrder(Value):
    """Audit a data file. With `target` the audit includes classes and leaks."""

    dataset: DatasetRef
    target: str | None = None
    task: TaskType | None = None


class PredictOrder(Value):
    """Predict with a finished model: either a data file, or rows of column name to value (as text)."""

    artifact_sha256: str
    dataset: DatasetRef | None = None
    rows: tuple[dict[str, str], ...] = ()


class Prediction(Value):
    """One answer: the label, and each label's probability, most likely first (at most five)."""

    label: str
    probabilities: tuple[tuple[str, float], ...]


class Predictions(Value):
    """Answers in the order of the rows, at most the first thousand; `total` and `counts` (label, rows) cover all.

    `file` is set for a data file: its rows with a column `prediction` and one `p_<label>` for each label added.
    """

    rows: tuple[Prediction, ...]
    total: int
    counts: tuple[tuple[str, int], ...]
    file: DatasetRef | None = None


class HostInfo(Value):
    """What a host says about itself. `sandbox` is the tier that passed its self-test."""

    host: str
    cpus: int
    memory_bytes: int
    disk_free_bytes: int
    gpus: tuple[str, ...] = ()
    sandbox: str = "none"
    at: datetime
