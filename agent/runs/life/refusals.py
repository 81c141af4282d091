"""Why a request cannot be carried out in the state that a run is in, and what can be done instead. Pure."""

from agent.domain.errors import Conflict
from agent.domain.runs import Run, RunState
from agent.runs.life.ending import hours_left_s

_S = RunState
MAY_PAUSE = frozenset({_S.STARTING, _S.RUNNING, _S.UNREACHABLE})
MAY_RETRY = frozenset({_S.STOPPED, _S.FAILED, _S.LOST})
_STANDS = {
    _S.QUEUED: "is in the queue already; it starts as soon as there is room.",
    _S.STARTING: "is starting; wait for its first step, or stop it.",
    _S.RUNNING: "is running; pause or stop it first.",
    _S.PAUSING: "is pausing; wait until it has saved its checkpoint.",
    _S.PAUSED: "is paused; resume it.",
    _S.STOPPING: "is stopping; wait until it has ended, then retry it.",
    _S.STOPPED: "was stopped; retry starts it again from its last checkpoint.",
    _S.SUCCEEDED: "has succeeded; clone it to train again with changes.",
    _S.FAILED: "has failed; retry starts it again, and clone starts it with changes.",
    _S.UNREACHABLE: "is on a host that does not answer now; wait for it, or stop it.",
    _S.LOST: "is lost with its host; retry starts it again.",
}


def refused(run: Run, what: str) -> Conflict:
    """The error for a request that this state does not allow; `what` is a participle: "paused", "resumed"."""
    if (run.state, what) in {(_S.PAUSED, "paused"), (_S.QUEUED, "tried again")}:
        already = "paused already; resume it to go on" if what == "paused" else "in the queue already"
        return Conflict(f"Run `{run.id}` is {already}.")
    return Conflict(f"Run `{run.id}` cannot be {what}: it {_STANDS[run.state]}")


def cannot_pause(run: Run) -> Conflict:
    """The error for a run whose engine cannot save a checkpoint and end an attempt."""
    return Conflict(f"Run `{run.id}` is on the engine {run.spec.engine}, which cannot pause a run. Stop it, or wait.")


def serves(run: Run) -> Conflict:
    """The error for a pause of a model that answers, which has nothing to save and go on from."""
    return Conflict(
        f"Run `{run.id}` serves a model, which cannot pause. `stop {run.id}` ends it; `serve` starts another."
    )


def with_new_program(run: Run) -> RunState:
    """The state that another program takes a run to. Raises `Conflict` where it can have none."""
    if run.state in (_S.SUCCEEDED, _S.STOPPING):
        raise refused(run, "given another program")
    to = _S.PAUSING if run.state in MAY_PAUSE else _S.QUEUED if run.state in MAY_RETRY else run.state
    if to is not run.state and hours_left_s(run) <= 0:
        raise no_hours_left(run)
    return to


def overtaken(run: Run) -> Conflict:
    """The error for a change of a program that has been replaced meanwhile."""
    return Conflict(
        f"The script of run `{run.id}` has changed since this card was made, so nothing was done. Ask again."
    )


def no_hours_left(run: Run) -> Conflict:
    """The error for a run that has used all its approved hours."""
    hours = f"{run.spec.max_hours:g} {'hour' if run.spec.max_hours == 1 else 'hours'}"
    return Conflict(
        f"Run `{run.id}` has used the {hours} that were approved, so it cannot go on. Clone it with more hours."
    )
