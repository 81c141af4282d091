"""Why a wish cannot be carried out in the state that a run is in, and what can be done instead. Pure."""

from agent.domain.errors import Conflict
from agent.domain.runs import Run, RunState

_S = RunState
_STANDS = {
    _S.AWAITING_APPROVAL: "waits for approval; approve or reject it first.",
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
    """`what` is a participle: "paused", "resumed"."""
    if (run.state, what) in {(_S.PAUSED, "paused"), (_S.QUEUED, "tried again")}:
        already = "paused already; resume it to go on" if what == "paused" else "in the queue already"
        return Conflict(f"Run `{run.id}` is {already}.")
    return Conflict(f"Run `{run.id}` cannot be {what}: it {_STANDS[run.state]}")


def no_hours_left(run: Run) -> Conflict:
    """Its approval is used up."""
    hours = f"{run.spec.max_hours:g} {'hour' if run.spec.max_hours == 1 else 'hours'}"
    return Conflict(
        f"Run `{run.id}` has used the {hours} that were approved, so it cannot go on. Clone it with more hours."
    )
