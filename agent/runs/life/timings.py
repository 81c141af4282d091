"""The waiting times of the run service, in one value. docs/wire.md says what happens at each."""

from dataclasses import dataclass, field

from agent.domain.restarts import RestartPolicy
from agent.runs.queue.fair import Limits


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a host may be silent, in seconds; when a run is tried again; how many runs a user may have.

    An order lives `order_lives_s` from the hint that carries it, and another host is asked only after that: two hosts
    never take the same run. A host that took none of `hints` hints is left out for `avoid_s`.
    """

    resend_after_s: float = 20.0
    hints: int = 3
    unreachable_after_s: float = 60.0
    lost_after_s: float = 900.0
    order_lives_s: float = 60.0
    avoid_s: float = 120.0
    fair_window_s: float = 86_400.0
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    limits: Limits = field(default_factory=Limits)
