"""What is remembered of runs, as a Protocol and its values; the rest of the memory is in `agent.stores`.

Each method is one transaction. Knows no SQL: `agent.storage.runs` implements it. Called by the run service, the tools,
the live cards and the monitor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from agent.domain.errors import NotFound
from agent.domain.events import MetricRow, WorkerEvent
from agent.domain.inbound import Thread
from agent.domain.runs import Attempt, Checkpoint, Outcome, Run, RunPicture, RunState
from agent.series.slices import MetricTable, Slice
from agent.series.window import Stretch, Summary, Window

Place = tuple[int, int]  # attempt, and how many of its rows of metrics were read
START: Place = (0, 0)
Steps = tuple[int, int]  # from and to, both included
ALL_STEPS: Steps = (-(2**62), 2**62)
Kind = Literal["metrics", "usage"]
DROPPED = "lines dropped"  # stands in a log, with their number before it, where a host printed faster than it may send


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines of a log: the newest `limit` that contain a text (in any case) and have a level.

    `level` "warning" includes errors. `before` is a line's id: only lines before it. With `since` it is the oldest
    `limit` from that line on.
    """

    limit: int = 30
    contains: str = ""
    level: Literal["error", "warning"] | None = None
    before: int | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in the order of the log, with their ids. `older` leads to what is before them; None: they are the first."""

    lines: tuple[str, ...]
    ids: tuple[int, ...]
    older: int | None

    def last(self, count: int) -> "LogPage":
        """The last `count` lines alone."""
        cut = max(0, len(self.lines) - count)
        return LogPage(self.lines[cut:], self.ids[cut:], self.ids[cut]) if cut else self


@dataclass(frozen=True, slots=True)
class Note:
    """What a host told people about an attempt."""

    attempt: int
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Script:
    """A version of a run's program; 1 is the one that it was created with."""

    version: int
    bundle_sha256: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """A GPU that an attempt holds; nobody else gets it until the attempt is over."""

    host: str
    uuid: str
    run: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Cordon:
    """A GPU that gets no runs. `sticky`: a person has to say that it is well again."""

    host: str
    uuid: str
    reason: str
    since: datetime
    sticky: bool


@dataclass(frozen=True, slots=True)
class Home:
    """Where a run's newest checkpoint is. `lost` says that this host was silent when its attempt was given up."""

    host: str
    step: int
    lost: bool


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What is taken, by whom, and where queued runs belong.

    `live`: every run in a live state with its newest attempt. `homes`: where the newest checkpoint of each run that was
    asked about is; runs without one are left out. `spent`: GPU-seconds (a run without a GPU counts as one) of attempts
    that ended lately, by requester. `starts`: of attempts that were dispatched lately, requester, when asked for, when
    dispatched. `cordons`: every GPU that gets no runs.
    """

    live: Sequence[tuple[Run, Attempt]]
    homes: Mapping[str, Home]
    spent: Mapping[str, float]
    starts: Sequence[tuple[str, datetime, datetime]]
    cordons: "Sequence[Cordon]"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a run whose attempt is over: its state, and the attempt's outcome as it is stored."""

    state: RunState
    outcome: Outcome
    not_before: datetime | None = None
    note: str = ""


Ending = Callable[[Run, Sequence[Attempt], Attempt, Outcome], Verdict]
"""Decides: the run, its earlier attempts that count, the attempt that is over, and how it ended. Pure and quick."""


@dataclass(frozen=True, slots=True)
class Stale:
    """An attempt that lives although it may not: a later one was begun, or it was given up."""

    run: str
    attempt: int
    host: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch of events changed: the runs, each once, and the attempts that have to be told to end."""

    changed: tuple[str, ...] = ()
    stale: tuple[Stale, ...] = field(default=())


def no_run(run_id: str) -> NotFound:
    """What is said of a run that there is not."""
    return NotFound(f"There is no run `{run_id}` here. `runs` lists the runs of this thread.")


class Runs(Protocol):
    """Runs, their attempts, metrics and logs."""

    async def create(self, run: Run, thread: Thread, *, client_token: str, most_queued: int | None = None) -> Run:
        """Insert a run; a second call with the same token returns the first run.

        Raises `Conflict` when its requester has `most_queued` runs waiting already.
        """

    async def get(self, run_id: str) -> Run:
        """Raises `NotFound`."""

    async def thread(self, run_id: str) -> Thread:
        """Where its card is."""

    async def threads(self, run_ids: Sequence[str]) -> Mapping[str, Thread]:
        """Where the cards of these are."""

    async def card_view(self, run_id: str) -> str:
        """How its card draws, as `agent.runs.cards.card_view` writes it; empty at first. Raises `NotFound`."""

    async def set_card_view(self, run_id: str, view: str) -> None:
        """The newest wins."""

    async def of_session(self, session_id: str, limit: int) -> Sequence[Run]:
        """Newest first."""

    async def recent(self, limit: int, *, channel_of: Thread | None = None) -> Sequence[Run]:
        """Newest first, all sessions; or those alone whose card is in the channel of this thread."""

    async def measured_before(self, run: Run) -> int:
        """How many runs were measured on the same sealed rows before this one."""

    async def in_state(self, states: Sequence[RunState]) -> Sequence[Run]:
        """Oldest first."""

    async def live(self) -> Sequence[tuple[Run, Attempt]]:
        """Every run in a live state with its newest attempt, oldest first."""

    async def move(self, run_id: str, *, expect: RunState, to: RunState) -> bool:
        """Compare-and-set of the state, within the table of transitions."""

    async def request(
        self, run_id: str, *, expect: RunState, how: Literal["stop", "pause", "kill"], note: str = ""
    ) -> bool:
        """Compare-and-set into stopping or pausing, with what its host has to be told; `note` says who wants it."""

    async def go_on(self, run_id: str, *, expect: RunState, goes_on: bool) -> bool:
        """Whether it is queued again as soon as it has paused; compare-and-set on the state."""

    async def end(self, run_id: str, *, expect: RunState, outcome: Outcome, at: datetime) -> bool:
        """Compare-and-set into the state of `outcome`; an attempt that is open ends with it and gives its GPUs back."""

    async def requeue(self, run_id: str, *, expect: RunState, note: str, at: datetime) -> bool:
        """Compare-and-set into the queue on a person's request: earlier failures do not count any more."""

    async def replace_script(
        self, run_id: str, *, expect: RunState, to: RunState, was: str, bundle_sha256: str, at: datetime
    ) -> int | None:
        """Another program than `was`, as the next version; None when it has another state or program than expected.

        `to` may be `expect`; PAUSING means that the run is queued again as soon as it has paused.
        """

    async def note(self, run_id: str, text: str) -> bool:
        """Why a queued run waits; False when that was known or it does not wait."""

    async def prioritise(self, run_id: str, priority: int) -> bool:
        """False when it has ended."""

    async def dispatch(
        self, run_id: str, *, host: str, gpus: Sequence[str] = (), at: datetime
    ) -> tuple[Run, Attempt] | None:
        """Queued -> starting with a new attempt and all of its GPUs, or nothing at all and None.

        None: the run was not queued (or not yet due), or one of the GPUs is leased.
        """

    async def sent(self, run_id: str, attempt: int, *, at: datetime) -> None:
        """One more launch hint went out."""

    async def stop_sent(self, run_id: str, attempt: int, *, at: datetime) -> None:
        """One more hint to end went out."""

    async def close(
        self, run_id: str, attempt: int, *, expect: RunState, outcome: Outcome, at: datetime, ending: Ending
    ) -> Run | None:
        """Our own word that the newest attempt is over; the run after it, None when its state had changed."""

    async def apply(self, events: Sequence[WorkerEvent], *, at: datetime, ending: Ending) -> Applied:
        """Store events that were not stored before, all in one transaction. `at` is our own clock's time."""

    async def attempts(self, run_id: str) -> Sequence[Attempt]:
        """All attempts, oldest first."""

    async def checkpoints(self, run_id: str) -> Sequence[Checkpoint]:
        """In the order in which they were saved."""

    async def pictures(self, run_id: str) -> Sequence[RunPicture]:
        """The newest of each name that its training logged, by name."""

    async def notes(self, run_id: str) -> Sequence[Note]:
        """What its hosts told people, oldest first."""

    async def scripts(self, run_id: str) -> Sequence[Script]:
        """All versions of its program, oldest first."""

    async def occupancy(self, run_ids: Sequence[str], since: datetime) -> Occupancy:
        """What a plan for these runs, which are queued, is made from; `since` says what lately means."""

    async def leases(self) -> Sequence[Lease]:
        """Every GPU that is held."""

    async def cordons(self) -> Sequence[Cordon]:
        """Every GPU that gets no runs."""

    async def cordon(self, host: str, uuid: str, reason: str, *, at: datetime, sticky: bool) -> None:
        """Give it no more runs; what is known already keeps its date."""

    async def uncordon(self, host: str, uuid: str) -> bool:
        """It gets runs again; False when it did."""

    async def metrics(self, run_id: str) -> Sequence[MetricRow]:
        """All rows, attempts in order, file order within."""

    async def metrics_after(
        self, run_id: str, place: Place, *, most: int | None = None
    ) -> tuple[Sequence[MetricRow], Place]:
        """The rows that stand behind `place`, and where they end. `START` is before the first.

        With `most` at most so many of them, and all of one attempt; `place` again: there are no more.
        """

    async def newest_metrics(self, run_id: str, count: int) -> Sequence[MetricRow]:
        """The last `count` rows, newest last, without reading what is before them.

        Those of them are left out that a later attempt trained anew.
        """

    async def metric_table(self, run_id: str, kind: Kind = "metrics") -> MetricTable:
        """What there is to export: names, attempts and their numbers of rows, as of now; of what it used, if asked."""

    async def metric_slice(self, run_id: str, number: int, first: int, stop: int, kind: Kind = "metrics") -> Slice:
        """The rows `[first, stop)` of attempt `number`, which has as many, those too that a later one trained anew.

        Of what it used, a row is a heartbeat, and its step the one that the run had come to.
        """

    async def metric_names(self, run_id: str) -> Sequence[str]:
        """Of all metrics, the one that began at the lowest step first."""

    async def series(self, run_id: str, names: Sequence[str] | None = None) -> Sequence[Summary]:
        """What there is of each metric, the one that began first first; or of `names`, in their order."""

    async def windows(self, run_id: str, names: Sequence[str], steps: Steps = ALL_STEPS) -> Sequence[Window]:
        """The curves of these metrics between two steps, in no more detail than a picture shows.

        A step that a later attempt trained anew is shown once, as that one left it.
        """

    async def usage(self, run_id: str, *, last_s: float | None = None) -> Mapping[str, Sequence[Stretch]]:
        """What its attempts used, by the names of `agent.series.usage`; of the `last_s` seconds before the newest.

        In no more detail than a picture shows; a pause is never within a span. First and last of a span are moments.
        """

    async def paces(self, run_id: str, *, last_s: float | None = None) -> Sequence[Stretch]:
        """The steps that its attempts made, of the `last_s` seconds before the newest: spans of its densest metric.

        In no more detail than a picture shows; a pause is never within a span.
        """

    async def stretches(self, run_id: str, names: Sequence[str]) -> Mapping[str, Sequence[Stretch]]:
        """What each attempt has of these metrics, those steps too that a later one trained anew; by time."""

    async def log(self, run_id: str, limit: int) -> Sequence[str]:
        """The last lines, newest last."""

    async def log_page(self, run_id: str, query: LogQuery) -> LogPage:
        """A page of the log, in the log's order."""
