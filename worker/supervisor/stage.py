"""Runs one step and watches it: output, metrics, heartbeats, reasons to end, exit.

Owns the loop of the supervisor's main thread (children die with the thread that started them). Knows no order of steps.
Called by `worker.supervisor.attempt`.
"""

import time

from agent.domain.events import Beat
from agent.domain.orders import LaunchOrder
from agent.domain.runs import Outcome
from worker.folders import RunFolder
from worker.processes import oom_kills
from worker.settings import Settings
from worker.spool import Spool
from worker.supervisor import outputs
from worker.supervisor.capture import Capture
from worker.supervisor.child import Child, Ladder
from worker.supervisor.exits import BAD_DATA_EXIT, Death, classify, failed, traceback_tail
from worker.supervisor.follow import MetaWatch, MetricsTail
from worker.supervisor.steps import Step, command_for
from worker.supervisor.wishes import Why, Wishes

_LOOK_S = 0.1
_DRAIN_S = 2.0


class StepFailed(Exception):
    """A step did not succeed; `outcome` says how the attempt ends."""

    def __init__(self, outcome: Outcome) -> None:
        """`outcome` is final but for its duration."""
        super().__init__(outcome.reason)
        self.outcome = outcome


class Stage:
    """Everything that outlasts a step: the log, the followers, the clocks."""

    def __init__(self, folder: RunFolder, order: LaunchOrder, settings: Settings, spool: Spool, wishes: Wishes) -> None:
        """Opens the log."""
        self._folder, self._order, self._settings = folder, order, settings
        self._spool, self._wishes = spool, wishes
        self._capture = Capture(folder.log)
        self._metrics = MetricsTail(folder.path / "metrics.jsonl")
        self._meta = MetaWatch(folder.path / "meta.json")
        self._beat_at = time.monotonic()
        self._flush_at = 0.0
        self._moved: tuple[object, ...] = ()
        self._moved_at = time.monotonic()

    def run(self, step: Step, *, tier: str) -> None:
        """Raises `StepFailed` unless the step exits with 0 and nobody wanted the attempt to end."""
        oom_before = oom_kills()
        command, env = command_for(step, self._folder, self._order, tier=tier)
        child = Child(command, cwd=self._folder.path, env=env)
        ladder = Ladder(child, grace_s=self._settings.checkpoint_grace_s, second_s=self._settings.second_term_s)
        self._moved_at = time.monotonic()
        try:
            code = self._watch(child, ladder)
            self._capture.drain(child.output, limit_s=_DRAIN_S)
        finally:
            child.close()
        self._flush()
        self._judge(step, code, oom=oom_kills() > oom_before)

    def close(self) -> None:
        """Hand on what is left, close the log."""
        self._flush()
        self._capture.close()

    def _watch(self, child: Child, ladder: Ladder) -> int:
        open_ended = True
        while (code := child.poll()) is None:
            if open_ended:
                open_ended = self._capture.pump(child.output, wait_s=_LOOK_S)
            else:
                time.sleep(_LOOK_S)
            now = time.monotonic()
            if now - self._flush_at >= self._settings.flush_s:
                self._flush_at = now
                self._flush()
                self._look(ladder)
        return code

    def _look(self, ladder: Ladder) -> None:
        """Beat, and end the child if there is a reason to."""
        now = time.monotonic()
        if now - self._beat_at >= self._settings.heartbeat_s:
            self._beat_at = now
            self._spool.append(Beat())
        self._wishes.look()
        rows = self._metrics.rows_seen
        limit_s = self._settings.quiet_s if rows else self._settings.first_step_quiet_s
        self._wishes.judge(bad_losses=self._metrics.bad_losses, quiet_s=self._quiet_s(now), limit_s=limit_s)
        if self._wishes.ending is None:
            return
        if not ladder.rung:
            self._capture.say(f"ending: {self._wishes.ending.value}")
            if self._wishes.ending is Why.HANG:
                ladder.abort()
        ladder.begin(kill=self._wishes.at_once)
        ladder.tick()

    def _quiet_s(self, now: float) -> float:
        """Seconds since the last sign of work: a metric, a line, a checkpoint."""
        checkpoints = self._folder.path / "checkpoints"
        stamp = checkpoints.stat().st_mtime_ns if checkpoints.exists() else 0
        moved = (self._metrics.rows_seen, self._capture.lines_seen, stamp)
        if moved != self._moved:
            self._moved, self._moved_at = moved, now
        return now - self._moved_at

    def _flush(self) -> None:
        """Turn what is new into events; Started comes before the first metric."""
        started = self._meta.take()
        if started is not None:
            self._spool.append(started)
        while (measured := self._metrics.take()) is not None:
            self._spool.append(measured)
        logged = self._capture.take()
        if logged is not None:
            self._spool.append(logged)

    def _judge(self, step: Step, code: int, *, oom: bool) -> None:
        tail = self._capture.tail
        if self._wishes.ending is not None:
            raise StepFailed(self._wishes.outcome(code=code, traceback=traceback_tail(tail)))
        if code == 0:
            return
        if code == BAD_DATA_EXIT:
            exit_class, reason = outputs.read_error(self._folder.path)
            raise StepFailed(failed(exit_class, reason, code=code))
        raise StepFailed(classify(Death(step=step.name, code=code, tail=tail, oom=oom)))
