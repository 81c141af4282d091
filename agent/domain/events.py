"""What comes up from hosts: `WorkerEvent` and its bodies."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from agent.domain.pictures import PictureKind, PictureName, Sha256
from agent.domain.runs import Outcome, RunState, Usage
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


class Pictured(Value):
    """The training logged a picture: `sha256` is that of an `agent.domain.pictures.Reported` in the blob store.

    A later one of the same name replaces it.
    """

    kind: Literal["pictured"] = "pictured"
    name: PictureName
    form: PictureKind
    step: int
    sha256: Sha256


class Noted(Value):
    """Something that people should know and that ends nothing: a rung of the stop escalation, a disk that fills up."""

    kind: Literal["noted"] = "noted"
    text: str


class Ended(Value):
    """The attempt is over."""

    kind: Literal["ended"] = "ended"
    outcome: Outcome


EventBody = Annotated[
    Accepted | Started | Measured | Logged | Beat | Saved | Pictured | Noted | Ended, Field(discriminator="kind")
]


class WorkerEvent(Value):
    """One entry of a host's event stream; (run, attempt, seq) is unique, seq counts from 1 without gaps."""

    run: str
    attempt: int
    seq: int
    host: str
    at: datetime
    body: EventBody


def fits(number: int) -> bool:
    """Whether a database can hold it: 64 bits with a sign."""
    return -(2**63) <= number < 2**63


def storable(event: WorkerEvent) -> WorkerEvent:
    """The event without numbers that no database can hold; they come from what a training wrote by itself."""
    body: EventBody = event.body
    match body:
        case Started(total_steps=int(total)) if not fits(total):
            body = body.model_copy(update={"total_steps": None})
        case Measured(rows=rows) if not all(fits(row.step) for row in rows):
            body = Measured(rows=tuple(row for row in rows if fits(row.step)))
        case Saved(step=step, size_bytes=size) if not (fits(step) and fits(size)):
            body = Beat()  # it lives, and that is all
        case Pictured(step=step) if not fits(step):
            body = Beat()
        case Ended(outcome=outcome) if not fits(outcome.checkpoint_step or 0):
            body = Ended(outcome=outcome.model_copy(update={"checkpoint_step": None}))
    return event if body is event.body else event.model_copy(update={"body": body})


_UNREAD = (
    "Its host said how it ended, but the bot could not read or store that, so it counts as failed. The worker may be "
    "newer than the bot: update the bot. What it made lies in the run's folder on its host; retry trains again."
)


def stand_in(kind: str) -> EventBody:
    """The body for an event of this kind that cannot be read or stored: its number must not be missing for ever.

    An attempt that is over must not fall silent, be called lost and trained again by itself: it is left to people.
    """
    if kind == "ended":
        return Ended(outcome=Outcome(state=RunState.FAILED, reason=_UNREAD))
    return Beat()  # it lives, and that is all
