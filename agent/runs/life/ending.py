"""What becomes of a run whose attempt is over. Pure: the caller gives the time and a random number.

What people asked for comes first, then the hours that are left, then `agent.domain.restarts`. Carried out inside the
transaction that stores the end, so that a crash loses nothing. Called by the run service, through the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.domain.restarts import GiveUp, RestartPolicy, decide
from agent.domain.runs import Attempt, ExitClass, Outcome, Run, RunState
from agent.run_store import Verdict

WHAT = {
    ExitClass.LOST: "Its host was lost",
    ExitClass.PREEMPTED: "It was preempted",
    ExitClass.HANG: "It hung",
    ExitClass.NCCL: "Its processes lost each other (NCCL)",
    ExitClass.CUDA_FAULT: "A GPU failed",
}
_LEFT_S = 1.0  # less than this is no time to train


@dataclass(frozen=True, slots=True)
class Settling:
    """What a verdict needs beside the run: now, a number 0..1, and the timings."""

    at: datetime
    dice: float
    policy: RestartPolicy


def hours_left_s(run: Run) -> float:
    """The training time, in seconds, that the run's approval still covers."""
    return run.spec.max_hours * 3600 - run.used_s


def seconds(value: float) -> str:
    """A waiting time for people: `40 s`, `3 min`."""
    return f"{value:.0f} s" if value < 100 else f"{value / 60:.0f} min"


def settle(run: Run, earlier: Sequence[Attempt], attempt: Attempt, outcome: Outcome, by: Settling) -> Verdict:
    """Its state after this attempt. `earlier` are the attempts before it whose failures count."""
    if outcome.state is RunState.SUCCEEDED:
        return Verdict(RunState.SUCCEEDED, outcome)
    soft = outcome.state in (RunState.PAUSED, RunState.STOPPED) or outcome.exit_class in (
        ExitClass.PREEMPTED,
        ExitClass.KILLED,
    )
    if attempt.stop in ("stop", "kill"):
        # A host that fell silent may still train; anything else of its own making is the end that was asked for.
        if not soft:
            return _over(outcome)
        return Verdict(RunState.STOPPED, _as(outcome, RunState.STOPPED, reason=run.note or outcome.reason))
    if attempt.stop == "pause":
        return _paused(run, outcome, by) if soft else _failed_while_pausing(run, outcome, by)
    if outcome.state is RunState.PAUSED:
        return Verdict(RunState.PAUSED, outcome, note=outcome.reason or "Its host paused it.")
    if outcome.state is RunState.STOPPED:
        return Verdict(RunState.STOPPED, outcome)
    return _failed(run, earlier, outcome, by)


def _failed(run: Run, earlier: Sequence[Attempt], outcome: Outcome, by: Settling) -> Verdict:
    lost_but_kept = outcome.exit_class is ExitClass.LOST and run.spec.on_partition == "keep"  # it may still train
    if not run.spec.auto_resume or lost_but_kept:
        return _over(outcome)
    following = decide(earlier, outcome, dice=by.dice, policy=by.policy)
    if isinstance(following, GiveUp):
        return _over(outcome, following.reason)
    if hours_left_s(run) - outcome.seconds < _LEFT_S:
        return _over(outcome, f"Its {run.spec.max_hours:g} hours are used up, so it is not tried again.")
    what = WHAT.get(outcome.exit_class, "It failed") if outcome.exit_class else "It failed"
    why = outcome.reason.rstrip(".") or what
    note = f"{why}; restart {following.number} of {following.of} comes in {seconds(following.delay_s)}."
    return Verdict(RunState.QUEUED, outcome, by.at + timedelta(seconds=following.delay_s), note)


def _paused(run: Run, outcome: Outcome, by: Settling) -> Verdict:
    if run.goes_on and hours_left_s(run) - outcome.seconds >= _LEFT_S:
        return Verdict(RunState.QUEUED, outcome, by.at, "It paused, and goes on as soon as there is room.")
    step = outcome.checkpoint_step
    where = "It saved no checkpoint, so it begins anew when it is resumed."
    where = where if step is None else f"Its checkpoint is at step {step:,}."
    return Verdict(RunState.PAUSED, outcome, note=f"{run.note} {where}".strip())


def _failed_while_pausing(run: Run, outcome: Outcome, by: Settling) -> Verdict:
    """The verdict on a run that failed while it paused: it goes on where it was to go on with a new program."""
    if run.goes_on and outcome.exit_class is not ExitClass.LOST and hours_left_s(run) - outcome.seconds >= _LEFT_S:
        return Verdict(
            RunState.QUEUED, outcome, by.at, f"It failed while it paused, and is started again. {outcome.reason}"
        )
    return _over(outcome)


def _over(outcome: Outcome, more: str = "") -> Verdict:
    state = RunState.LOST if outcome.exit_class is ExitClass.LOST else RunState.FAILED
    reason = " ".join(part for part in (outcome.reason, more) if part)
    return Verdict(state, outcome.model_copy(update={"state": state, "reason": reason}))


def _as(outcome: Outcome, state: RunState, *, reason: str) -> Outcome:
    return outcome.model_copy(update={"state": state, "reason": reason})
