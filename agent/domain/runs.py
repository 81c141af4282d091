"""A run and its attempts: specification, states, legal transitions, results."""

import math
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from agent.domain.datasets import DatasetRef, Split
from agent.domain.pictures import PictureKind
from agent.domain.tasks import TASKS, TaskType
from agent.domain.value import Value


class RunState(StrEnum):
    """Where a run stands. `unreachable` and `lost` say that its host does not answer."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    LOST = "lost"


class ExitClass(StrEnum):
    """Why an attempt failed; decides what is worth trying next."""

    USER_ERROR = "user_error"
    BAD_DATA = "bad_data"
    CUDA_OOM = "cuda_oom"
    CUDA_FAULT = "cuda_fault"
    HOST_OOM = "host_oom"
    DIVERGED = "diverged"
    HANG = "hang"
    DISK_FULL = "disk_full"
    NCCL = "nccl"
    PREEMPTED = "preempted"
    KILLED = "killed"
    LOST = "lost"


_S = RunState
_ENDINGS = frozenset({_S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.LOST})
# What any attempt can turn into, whatever was asked for: it ends, pauses, falls silent, or is tried again (QUEUED).
_ANY_TIME = _ENDINGS | {_S.QUEUED, _S.PAUSED, _S.PAUSING, _S.STOPPING, _S.UNREACHABLE}
TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    # Queued after its host was lost, and then that host reports that it had succeeded.
    _S.QUEUED: frozenset({_S.STARTING, _S.PAUSED, _S.STOPPED, _S.FAILED, _S.SUCCEEDED}),
    _S.STARTING: _ANY_TIME | {_S.RUNNING},
    _S.RUNNING: _ANY_TIME,
    _S.PAUSING: _ANY_TIME - {_S.PAUSING},
    _S.PAUSED: frozenset({_S.QUEUED, _S.STOPPED, _S.SUCCEEDED}),  # the same, and somebody had paused it meanwhile
    _S.STOPPING: _ENDINGS | {_S.UNREACHABLE},
    _S.UNREACHABLE: (_ANY_TIME | {_S.STARTING, _S.RUNNING}) - {_S.UNREACHABLE},
    _S.LOST: (_ANY_TIME | {_S.STARTING, _S.RUNNING}) - {_S.LOST, _S.UNREACHABLE},  # its host may come back with it
    _S.STOPPED: frozenset({_S.QUEUED}),
    _S.FAILED: frozenset({_S.QUEUED}),
    _S.SUCCEEDED: frozenset(),
}
LIVE = frozenset({_S.STARTING, _S.RUNNING, _S.PAUSING, _S.STOPPING, _S.UNREACHABLE})
ENDED = _ENDINGS


def may_become(state: RunState, following: RunState) -> bool:
    """Whether the one table of transitions allows this step."""
    return following in TRANSITIONS[state]


Network = Literal["none", "hub", "open"]
PRIORITIES: dict[str, int] = {"low": -1, "normal": 0, "high": 1}


class JobKind(StrEnum):
    """What an order asks a host to do; the supervisor's steps follow from it."""

    RECIPE = "recipe"
    SCRIPT = "script"
    SERVING = "serving"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"


class Script(Value):
    """A program of somebody's own, as it runs: `python <entry> <arguments>` in the run's folder.

    `name` is the file that people attached, `entry` the program in the bundle. `data` lie in `data/` under their names.
    `requirements` are installed before it begins, where the host lacks them; `environment` is added to its own.
    """

    name: str
    entry: str = "train.py"
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    data: tuple[DatasetRef, ...] = ()
    requirements: tuple[str, ...] = ()


class Serving(Value):
    """Whose model a job keeps up, and who may ask it: who knows the token of this SHA-256.

    The bot makes the token of `nonce` and a key that never leaves it (`agent.ports.ServingTokens`).
    """

    run: str
    nonce: str
    token_sha256: str


class FinishedModel(Value):
    """The model that a job evaluates or predicts with: the artifact of a run, as one tar.

    `measured` says what its own run measured, in words.
    """

    run: str
    sha256: str
    size_bytes: int
    measured: str = ""


USES_MODEL = frozenset({JobKind.EVALUATION, JobKind.PREDICTION})
_MODEL_STAGES: dict[JobKind, tuple[str, ...]] = {
    JobKind.EVALUATION: (
        "Take every row for the test, and seal the answers",
        "Predict the rows with the model as it is: nothing is trained",
        "Measure the predictions, beside a constant answer",
    ),
    JobKind.PREDICTION: ("Predict every row with the model as it is, and hand over the file",),
}
DEFAULT_ENGINE = "hosts"
SEARCH_SETTINGS = ("trials", "minutes")
SEARCH_STAGE = "Search settings on the training part: draw, try, and end early what falls behind"


class RunSpec(Value):
    """Everything that decides what a run does. It is shown on the approval card and hashed into its digest.

    A recipe has a task, data and mostly a target; a program of somebody's own has `script`; a model that is kept up has
    `serving` too, and its `script` is our server. An evaluation alone and the prediction of a whole file are jobs of a
    recipe with the `model` of an earlier run.
    `settings` are the recipe's hyperparameters; None means that nobody said, and the recipe's default holds.
    `host` is where it goes first; another host may take it if that is full or lost and has the same sandbox tier.
    `max_hours` is what an approval buys: all attempts of the run spend from it. `network` is what the training process
    may reach: nothing, the model hubs through an allowlist, or everything. `secrets` are the names of the host's
    secrets that its environment gets. `auto_resume` tries again by itself where that helps (`agent.domain.restarts`).
    `on_partition` is what a host does that has not reached Redis for long: checkpoint and end, or keep on.
    `cloned_from` is the run that it is a changed copy of; it decides nothing. `engine` is where its attempts run, for
    `price_usd` an hour where that is charged.
    """

    job: JobKind = JobKind.RECIPE
    script: Script | None = None
    serving: Serving | None = None
    model: FinishedModel | None = None
    task: TaskType | None = None
    recipe: str = ""
    dataset: DatasetRef | None = None
    target: str | None = None
    text_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    seed: int = 7
    test_frac: float = 0.2
    split: Split = Split()
    host: str
    gpus: int = 0
    max_hours: float = 1.0
    network: Network = "none"
    secrets: tuple[str, ...] = ()
    sandbox: str = "none"
    auto_resume: bool = True
    on_nan: Literal["stop", "go_on"] = "stop"
    on_partition: Literal["fence", "keep"] = "fence"
    bundle_sha256: str
    estimate_s: float = 0.0
    note: str = ""
    cloned_from: str = ""
    engine: str = DEFAULT_ENGINE
    price_usd: Decimal | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.script is None) == (self.job in {JobKind.SCRIPT, JobKind.SERVING}):
            raise ValueError(f"a job of kind {self.job.value} has a script where it should not, or none")
        if (self.job is JobKind.SERVING) != (self.serving is not None):
            raise ValueError("a job of kind serving, and no other, says whose model it serves")
        if (self.model is not None) != (self.job in USES_MODEL):
            raise ValueError("an evaluation and a prediction, and no other, say with which model")
        if self.script is None and (self.task is None or self.dataset is None):
            raise ValueError(f"a job of kind {self.job.value} needs a task and data")
        return self

    @property
    def makes_model(self) -> bool:
        """Whether it leaves a model of its own."""
        return self.job in {JobKind.RECIPE, JobKind.SCRIPT}

    @property
    def subject(self) -> str:
        """What a run is called after: the column that it predicts, the model that it serves, or its program."""
        if self.serving:
            return f"model of {self.serving.run}"
        if self.model:
            return f"model of {self.model.run}"
        return self.target or (self.script.name if self.script else TASKS[str(self.task)].label)

    @property
    def title(self) -> str:
        """Its subject, and from which data."""
        between = "on" if self.model else "from"
        return f"{self.subject} {between} {self.data_words}" if self.data_words else self.subject

    @property
    def kind(self) -> str:
        """What it is, in words: a task type, a served model, or that it is somebody's own program."""
        if self.serving:
            return "served model"
        if self.model:
            return f"{self.job.value} with the model of {self.model.run}"
        return "own script" if self.task is None else TASKS[self.task].label

    @property
    def data_words(self) -> str:
        """The names of its data, empty where it has none."""
        if self.dataset is not None:
            return self.dataset.name
        if self.serving:
            return ""
        return ", ".join(file.name for file in self.script.data) if self.script else ""

    @property
    def test_words(self) -> str:
        """How its test part is taken, in a few words; empty for a program of somebody's own."""
        if self.task is None:
            return ""
        own = TASKS[self.task].own_split
        return own.format(frac=f"{self.test_frac:.0%}") if own else self.split.words(self.test_frac)

    @property
    def sealed_rows(self) -> tuple[str, ...]:
        """What decides which rows are sealed: runs that agree in it are measured on the same ones."""
        return (
            self.dataset.sha256 if self.dataset else "",
            self.target or "",
            str(self.seed),
            str(self.test_frac),
            self.split.words(0),
            str(self.settings.get("horizon", "")),  # of a series, whose last steps are sealed
        )

    @property
    def searches(self) -> bool:
        """Whether a search of settings goes before its training, of so many `trials` or `minutes`."""
        return self.task is not None and any(self.settings.get(name) for name in SEARCH_SETTINGS)

    @property
    def stages(self) -> tuple[str, ...]:
        """The steps that its approval card lists."""
        if self.model:
            return _MODEL_STAGES[self.job]
        stages = () if self.task is None else TASKS[self.task].stages
        return (*stages[:-2], SEARCH_STAGE, *stages[-2:]) if self.searches else stages

    @property
    def unit(self) -> str:
        """What a step of its training is."""
        if self.model:
            return "row"
        if self.searches:
            return "trial"
        return "step" if self.task is None else TASKS[self.task].unit

    @property
    def entry(self) -> str:
        """The program in its bundle."""
        return self.script.entry if self.script else "train.py"


class Score(Value):
    """One measured number on the sealed test part."""

    name: str
    value: float


class Scorecard(Value):
    """What the evaluator measured: the model against each baseline on the same sealed test rows.

    `metric` is the one that decides, `higher_is_better` its direction; `model` and `baselines` hold that metric,
    `all_metrics` every metric of the model. `not_kept` are candidates beyond the baselines that the training did not
    keep: they are shown and decide nothing. `interval` is where the model's metric lies on other rows like these, and
    `gain` how much better it is there than the best baseline, in 95 of 100 cases.
    """

    metric: str
    higher_is_better: bool
    model: Score
    baselines: tuple[Score, ...]
    all_metrics: dict[str, float]
    test_rows: int
    interval: tuple[float, float] | None = None
    gain: tuple[float, float] | None = None
    not_kept: tuple[Score, ...] = ()

    @property
    def within_chance(self) -> bool:
        """Whether the model and the best baseline cannot be told apart on these rows."""
        return self.gain is not None and self.gain[0] <= 0.0 <= self.gain[1]

    @property
    def best_baseline(self) -> Score:
        """The baseline that is hardest to beat; one whose score is no number only where there is no other."""
        known = [score for score in self.baselines if not math.isnan(score.value)] or self.baselines
        return (max if self.higher_is_better else min)(known, key=lambda score: score.value)

    @property
    def beats_baseline(self) -> bool:
        """Whether the model is strictly better than every baseline."""
        best = self.best_baseline.value
        return self.model.value > best if self.higher_is_better else self.model.value < best


class Artifact(Value):
    """The finished model as one tar file in the blob store; `files` are the names inside."""

    sha256: str
    size_bytes: int
    files: tuple[str, ...]


REFUSED_EXIT = 65  # of a step that leaves `error.json`


class Outcome(Value):
    """How an attempt ended. Written to `outcome.json` before it is sent.

    `reason` is a sentence for people; `traceback` is the tail of the log where it crashed, last line last. `results` is
    the sha256 in the blob store under which `agent.domain.results.Results` lie as JSON; they may be gone.
    """

    state: RunState
    exit_class: ExitClass | None = None
    exit_code: int | None = None
    reason: str = ""
    traceback: tuple[str, ...] = ()
    scorecard: Scorecard | None = None
    artifact: Artifact | None = None
    chosen: str = ""  # the name of the candidate that the recipe kept
    found: dict[str, float] = Field(default_factory=dict)  # the settings that a search chose
    notes: tuple[str, ...] = ()  # what happened in the training, as the recipe says it
    seconds: float = 0.0
    checkpoint_step: int | None = None  # of the newest whole checkpoint in the run's folder when it ended
    results: str = ""

    @property
    def refused(self) -> bool:
        """Whether a step said in a sentence of its own that data or settings cannot work: no crash."""
        return self.exit_code == REFUSED_EXIT and self.exit_class in {ExitClass.USER_ERROR, ExitClass.BAD_DATA}


class GpuUsage(Value):
    """One GPU as NVML saw it: `busy` is 0..1. `total_bytes` is what the card has, 0 where that is not known."""

    uuid: str
    busy: float
    memory_bytes: int
    total_bytes: int = 0


class Usage(Value):
    """What an attempt uses now: processors (1.0 is one whole core), bytes of memory and of disk, its GPUs."""

    cpus: float
    memory_bytes: int
    disk_bytes: int = 0
    gpus: tuple[GpuUsage, ...] = ()


class Attempt(Value):
    """One execution of a run on one host. `first_step` is the run's step when it began.

    `sent` launch hints went out, the last at `sent_at`; `stops` hints to end went out, the last of them `stop` at
    `stop_sent_at`. `accepted_at` and what its host says are that host's clock, all other times ours. An attempt is over
    when it has an outcome; its own word, unless the host went silent. Its events up to number `seen_to` are stored.
    """

    number: int
    host: str
    gpus: tuple[str, ...] = ()
    sent: int = 0
    sent_at: datetime
    heard_at: datetime | None = None
    boot_id: str = ""
    first_step: int = 0
    outcome: Outcome | None = None
    dispatched_at: datetime | None = None
    accepted_at: datetime | None = None
    stop: Literal["", "stop", "pause", "kill"] = ""
    stops: int = 0
    stop_sent_at: datetime | None = None
    seen_to: int = 0

    @property
    def heard_s(self) -> float:
        """For how long it is known to have trained, where it cannot tell itself: until it was last heard."""
        since = self.dispatched_at or self.sent_at
        return max(0.0, (self.heard_at - since).total_seconds()) if self.heard_at else 0.0


class Checkpoint(Value):
    """A checkpoint that a host holds."""

    attempt: int
    step: int
    size_bytes: int
    at: datetime


class RunPicture(Value):
    """The newest picture of one name that a run's training logged; `sha256` is its content in the blob store."""

    name: str
    form: PictureKind
    step: int
    sha256: str
    attempt: int
    at: datetime


class Run(Value):
    """One training job that somebody wanted, as the database has it.

    `note` says in a sentence why it waits or is tried again; `not_before` holds back its next attempt. `used_s` is the
    training time that its ended attempts spent. `queued_at` is when it began to wait the last time. `goes_on` says that
    it is queued again as soon as it has paused, `script` which version of its program it runs (1 is the first).
    """

    id: str
    session_id: str
    requester: str
    state: RunState
    spec: RunSpec
    attempt: int = 0
    step: int = 0
    total_steps: int | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    priority: int = 0
    not_before: datetime | None = None
    note: str = ""
    queued_at: datetime | None = None
    used_s: float = 0.0
    goes_on: bool = False
    script: int = 1
    usage: Usage | None = None
