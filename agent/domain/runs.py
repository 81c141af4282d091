"""A run and its attempts: specification, states, legal transitions, results."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field, JsonValue

from agent.domain.datasets import DatasetRef, TaskType
from agent.domain.value import Value


class RunState(StrEnum):
    """Where a run stands. `unreachable` and `lost` say that its host does not answer."""

    AWAITING_APPROVAL = "awaiting_approval"
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
    HOST_OOM = "host_oom"
    DIVERGED = "diverged"
    HANG = "hang"
    DISK_FULL = "disk_full"
    NCCL = "nccl"
    PREEMPTED = "preempted"
    KILLED = "killed"
    LOST = "lost"


_S = RunState
TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    _S.AWAITING_APPROVAL: frozenset({_S.QUEUED, _S.STOPPED}),
    _S.QUEUED: frozenset({_S.STARTING, _S.STOPPED, _S.FAILED}),
    _S.STARTING: frozenset(
        {_S.RUNNING, _S.QUEUED, _S.STOPPING, _S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.UNREACHABLE, _S.LOST}
    ),
    _S.RUNNING: frozenset({_S.PAUSING, _S.STOPPING, _S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.UNREACHABLE, _S.LOST}),
    _S.PAUSING: frozenset({_S.PAUSED, _S.STOPPING, _S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.UNREACHABLE, _S.LOST}),
    _S.PAUSED: frozenset({_S.QUEUED, _S.STOPPED}),
    _S.STOPPING: frozenset({_S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.UNREACHABLE, _S.LOST}),
    _S.UNREACHABLE: frozenset({_S.STARTING, _S.RUNNING, _S.STOPPING, _S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.LOST}),
    _S.LOST: frozenset({_S.QUEUED, _S.STOPPED, _S.SUCCEEDED, _S.FAILED}),  # its host may come back with the truth
    _S.STOPPED: frozenset({_S.QUEUED}),
    _S.FAILED: frozenset({_S.QUEUED}),
    _S.SUCCEEDED: frozenset(),
}
LIVE = frozenset({_S.STARTING, _S.RUNNING, _S.PAUSING, _S.STOPPING, _S.UNREACHABLE})
ENDED = frozenset({_S.STOPPED, _S.SUCCEEDED, _S.FAILED, _S.LOST})


def may_become(state: RunState, following: RunState) -> bool:
    """Whether the one table of transitions allows this step."""
    return following in TRANSITIONS[state]


class RunSpec(Value):
    """Everything that decides what a run does. It is shown on the approval card and hashed into its digest.

    `settings` are the recipe's hyperparameters; None means that nobody said, and the recipe's default holds.
    `sandbox` is the tier that the host published; `network` is what the training process may reach.
    """

    task: TaskType
    recipe: str
    dataset: DatasetRef
    target: str
    text_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    seed: int = 7
    test_frac: float = 0.2
    host: str
    gpus: int = 0
    max_hours: float = 1.0
    network: str = "none"
    sandbox: str = "none"
    bundle_sha256: str
    estimate_s: float = 0.0
    note: str = ""


class Score(Value):
    """One measured number on the sealed test part."""

    name: str
    value: float


class Scorecard(Value):
    """What the evaluator measured: the model against each baseline on the same sealed test rows.

    `metric` is the one that decides, `higher_is_better` its direction; `model` and `baselines` hold that metric,
    `all_metrics` every metric of the model.
    """

    metric: str
    higher_is_better: bool
    model: Score
    baselines: tuple[Score, ...]
    all_metrics: dict[str, float]
    test_rows: int

    @property
    def best_baseline(self) -> Score:
        """The baseline that is hardest to beat."""
        return (max if self.higher_is_better else min)(self.baselines, key=lambda score: score.value)

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


class Outcome(Value):
    """How an attempt ended. Written to `outcome.json` before it is sent.

    `reason` is a sentence for people; `traceback` is the tail of the log where it crashed, last line last.
    """

    state: RunState
    exit_class: ExitClass | None = None
    exit_code: int | None = None
    reason: str = ""
    traceback: tuple[str, ...] = ()
    scorecard: Scorecard | None = None
    artifact: Artifact | None = None
    chosen: str = ""  # the name of the candidate that the recipe kept
    seconds: float = 0.0


class Run(Value):
    """One training job that somebody wanted, as the database has it."""

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
