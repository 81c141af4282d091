"""What comes up from hosts (`WorkerEvent`) and out of a turn (`TurnEvent`)."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from agent.domain.runs import Outcome, Usage
from agent.domain.value import Value


class Accepted(Value):
    """The supervisor holds the lock."""

    kind: Literal["accepted"] = "accepted"
    boot_id: str


class Started(Value):
    """The training script called `start`."""

    kind: Literal["started"] = "started"
    model: str
    total_steps: int | None


class MetricRow(Value):
    """Metrics of one step. Values may be NaN or infinite."""

    step: int
    at: float  # seconds since the epoch, on the host's clock
    values: dict[str, float]


class Measured(Value):
    """New rows of metrics.jsonl, in file order."""

    kind: Literal["measured"] = "measured"
    rows: tuple[MetricRow, ...]


class Logged(Value):
    """New lines of output.log; `dropped` counts lines left out by the rate cap."""

    kind: Literal["logged"] = "logged"
    lines: tuple[str, ...]
    dropped: int = 0


class Beat(Value):
    """The supervisor lives. `usage` is what its step uses now."""

    kind: Literal["beat"] = "beat"
    usage: Usage | None = None


class Saved(Value):
    """A checkpoint is whole on the host's disk."""

    kind: Literal["saved"] = "saved"
    step: int
    size_bytes: int


class Noted(Value):
    """Something that people should know and that ends nothing: a rung of the stop ladder, a disk that fills up."""

    kind: Literal["noted"] = "noted"
    text: str


class Ended(Value):
    """The attempt is over."""

    kind: Literal["ended"] = "ended"
    outcome: Outcome


EventBody = Annotated[
    Accepted | Started | Measured | Logged | Beat | Saved | Noted | Ended, Field(discriminator="kind")
]


class WorkerEvent(Value):
    """One entry of a host's event stream; (run, attempt, seq) is unique, seq counts from 1 without gaps."""

    run: str
    attempt: int
    seq: int
    host: str
    at: datetime
    body: EventBody
