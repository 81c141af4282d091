"""Whether an attempt that ended badly is tried again by itself, and when. Pure: clock and dice are the caller's.

Only where trying the same again can help: a host that was lost, a preemption, a hang, NCCL and faults of a GPU. What is
wrong with the program, its data or its size goes to people with a proposal, never into a blind repetition.
Source of the numbers: the project's reliability notes (30 s doubling to 30 min, 3 restarts, 1 h of progress forgives).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.domain.runs import Attempt, ExitClass, Outcome

HELPED = frozenset({ExitClass.LOST, ExitClass.PREEMPTED, ExitClass.HANG, ExitClass.NCCL, ExitClass.CUDA_FAULT})


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How patient we are. Seconds; `jitter` is the share by which a delay varies to both sides."""

    first_delay_s: float = 30.0
    longest_delay_s: float = 1800.0
    jitter: float = 0.2
    restarts: int = 3
    forgiven_after_s: float = 3600.0
    without_progress: int = 2


@dataclass(frozen=True, slots=True)
class Restart:
    """Try again after `delay_s`, as restart number `number` of `of`."""

    delay_s: float
    number: int
    of: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave it to people; `reason` is a sentence, or empty when this class is never tried again."""

    reason: str = ""


def decide(earlier: Sequence[Attempt], outcome: Outcome, *, dice: float, policy: RestartPolicy) -> Restart | GiveUp:
    """What follows an attempt that ended with `outcome`.

    `earlier` are the run's attempts before it, oldest first, with their outcomes; `dice` is 0..1.
    An attempt that trained for an hour forgives what was before it. Two in a row that ended at the same checkpoint
    (or at none) are a sign that a third would too.
    """
    if outcome.exit_class not in HELPED:
        return GiveUp()
    if outcome.seconds >= policy.forgiven_after_s:
        earlier = ()
    failures: list[Outcome] = []
    for attempt in reversed(earlier):
        ended = attempt.outcome
        if ended is None or ended.exit_class not in HELPED or ended.seconds >= policy.forgiven_after_s:
            break
        failures.append(ended)
    if len(failures) >= policy.restarts:
        return GiveUp(f"It was restarted {_times(len(failures))} and still failed, so it is left to you.")
    stuck = [ended for ended in failures[: policy.without_progress] if ended.checkpoint_step == outcome.checkpoint_step]
    if len(stuck) >= policy.without_progress:
        return GiveUp(f"It was restarted {_times(len(stuck))} without reaching a new checkpoint, so it is left to you.")
    delay_s = min(policy.longest_delay_s, policy.first_delay_s * 2 ** len(failures))
    return Restart(delay_s * (1 + policy.jitter * (2 * dice - 1)), len(failures) + 1, policy.restarts)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
