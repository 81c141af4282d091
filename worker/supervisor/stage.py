"""Runs one step and watches it: output, metrics, heartbeats, guards, reasons to end, exit.

Owns the loop of the supervisor's main thread (children die with the thread that started them). Knows no order of steps.
Called by `worker.supervisor.attempt`.
"""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent.domain.events import Beat, Noted
from agent.domain.orders import LaunchOrder, Limits
from agent.domain.runs import Outcome
from worker.egress.gate import EgressProxy
from worker.folders import HostFolder, RunFolder
from worker.host.cgroup import Leaf
from worker.host.processes import descendants_of, moved_bytes
from worker.host.usage import Sampler
from worker.reporting.sender import Kept, Sender
from worker.serving.way_in import WayIn
from worker.settings import Settings
from worker.supervisor import outputs
from worker.supervisor.child import Child
from worker.supervisor.escalation import Escalation
from worker.supervisor.exits import BAD_DATA_EXIT, Death, classify, failed, preempted, real_code, traceback_tail
from worker.supervisor.guards import DiskGuard, ProcessGuard, too_many_files
from worker.supervisor.payload import Payload
from worker.supervisor.records import Records
from worker.supervisor.silence import Silence
from worker.supervisor.steps import Granted, Step, command_for, place_of
from worker.supervisor.stop_reasons import DIVERGED_AFTER, StopReasons, Why
from worker.warm.sets import WarmStart, sets_of, warm_start

_LOOK_S, _FIRST_LOOK_S = 0.1, 0.001
_DRAIN_S = 2.0

log = logging.getLogger(__name__)


class StepFailed(Exception):
    """A step did not succeed; `outcome` says how the attempt ends."""

    def __init__(self, outcome: Outcome) -> None:
        """`outcome` is final but for its duration."""
        super().__init__(outcome.reason)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What an attempt hands to its stage.

    `leaf` is the control group of its steps, `limits` what they may take; `granted` is for the training.
    """

    folder: RunFolder
    order: LaunchOrder
    settings: Settings
    records: Records
    stop_reasons: StopReasons
    sender: Sender | Kept
    leaf: Leaf | None
    limits: Limits
    granted: Granted


class Stage:
    """Everything that outlasts a step: the records, the guards, the clocks."""

    def __init__(self, context: AttemptContext) -> None:
        """Nothing runs yet."""
        self._folder, self._order, self._settings = context.folder, context.order, context.settings
        self._records, self._stop_reasons, self._sender, self._leaf = (
            context.records,
            context.stop_reasons,
            context.sender,
            context.leaf,
        )
        self._granted, self._limits = context.granted, context.limits
        self._warm_folder = HostFolder.of(context.settings.home, context.settings.host_id).warm
        self._disk = DiskGuard(context.folder.path, context.limits, context.settings)
        self._beat_at = time.monotonic()
        self._flush_at = 0.0
        self._nan_noted = False

    def run(self, step: Step, *, tier: str) -> None:
        """Raises `StepFailed` unless the step exits with 0 and nobody wanted the attempt to end."""
        with self._way_out(step) as egress, self._way_in(step) as way_in:
            granted = replace(self._granted, egress=egress, serving=way_in.environment if way_in else {})
            command, env = command_for(step, self._folder, self._order, tier=tier, granted=granted)
            at, files = place_of(step, self._folder), (way_in.fd,) if way_in else ()
            child = Child(command, cwd=at, env=env, warm=self._warm_start(step), inherits=files)
            try:
                if self._leaf is not None:
                    self._leaf.add(_processes(child))
                watch = _Watch(self, step, child)
                code = watch.run()
                self._records.capture.drain(child.output, limit_s=_DRAIN_S)
            finally:
                child.close()
        self._records.step_ended()
        self._judge(step, code, watch.processes)

    @contextlib.contextmanager
    def _way_out(self, step: Step) -> Iterator[Path | None]:
        """The proxy to the model hubs while the training runs, for a run that may reach those and nothing else."""
        if not step.trains or self._order.spec.network != "hub":
            yield None
            return
        proxy = EgressProxy(log=self._refused_host)
        try:
            proxy.start()
            yield proxy.socket_path
        finally:
            proxy.stop()

    @contextlib.contextmanager
    def _way_in(self, step: Step) -> Iterator[WayIn | None]:
        """The socket on which a model that is kept up answers, and its address for people."""
        serving = self._order.spec.serving
        if not step.serves or serving is None:
            yield None
            return
        address, left_s = self._settings.serve_address, self._stop_reasons.left_s
        with contextlib.closing(
            WayIn(self._folder, address, serving.token_sha256, run=serving.run, left_s=left_s)
        ) as way_in:
            self.note(f"It answers at {way_in.url} on host {self._order.host}.")
            yield way_in

    def _refused_host(self, said: Mapping[str, object]) -> None:
        """From the proxy's thread: only the log of the host, which people read when a download fails."""
        level = logging.INFO if said.get("allowed", True) else logging.WARNING
        log.log(level, "egress run=%s host=%s allowed=%s", self._folder.run, said.get("host"), said.get("allowed"))

    def _warm_start(self, step: Step) -> WarmStart | None:
        if step.serves or not sets_of(self._settings.warm):
            return None
        return warm_start(self._warm_folder, self._order.spec.recipe, step.argv, trains=step.trains)

    def flush_when_due(self) -> bool:
        """Hand on what is new every `flush_s`; whether it was time."""
        now = time.monotonic()
        if now - self._flush_at < self._settings.flush_s:
            return False
        self._flush_at = now
        if self._records.flush():
            self._stop_reasons.no_space(
                "The host's disk is full: not even its events can be written. Free some space there."
            )
        return True

    def beat_when_due(self, sampler: Sampler) -> None:
        """Say that we live, and what the step uses."""
        now = time.monotonic()
        if now - self._beat_at >= self._settings.heartbeat_s:
            self._beat_at = now
            self._records.put(Beat(usage=sampler.sample()))

    def note(self, text: str) -> None:
        """Tell people, in the log and beside the run."""
        log.info("noted run=%s text=%s", self._folder.run, text)
        self._records.capture.say(text)
        self._records.put(Noted(text=text))

    def look(self, silence: Silence, processes: ProcessGuard) -> Why | None:
        """Ask everybody for a reason to end."""
        self._stop_reasons.look()
        if self._order.spec.on_partition != "keep" and self._sender.silent_s() > self._settings.fence_s:
            self._stop_reasons.fenced(self._sender.silent_s())
        if self._records.bad_losses >= DIVERGED_AFTER:
            self._diverged()
        quiet_s = silence.look(*self._records.signs())
        if quiet_s > silence.limit_s:
            self._stop_reasons.hang(quiet_s)
        disk = self._disk.look()
        if disk.note:
            self.note(disk.note)
        if disk.end:
            self._stop_reasons.no_space(disk.end)
        word = processes.look()
        if word.memory:
            self._stop_reasons.no_memory(word.memory)
        if word.processes:
            self._stop_reasons.too_many(word.processes)
        return self._stop_reasons.ending

    @property
    def at_once(self) -> bool:
        """Whether the end may not wait for a checkpoint."""
        return self._stop_reasons.at_once

    def escalation_for(self, child: Child, step: Step) -> Escalation:
        """The way down for one step."""

        def also_kill() -> None:
            if self._leaf is not None:
                self._leaf.kill()

        return Escalation(
            Payload(child, ranks=step.ranks, also_kill=also_kill),
            grace_s=self._settings.checkpoint_grace_s,
            second_s=self._settings.second_term_s,
            dump_s=self._settings.stack_dump_s,
            say=self.note,
        )

    def processes_for(self, child: Child) -> ProcessGuard:
        """The guard of one step's memory and processes."""
        return ProcessGuard(child.roots, self._leaf, self._limits, self._settings)

    def silence_for(self, child: Child, step: Step) -> Silence:
        """The clock of one step's silence; the rows of a training teach it what is usual."""
        silence = Silence(
            quiet_s=self._settings.quiet_s,
            first_quiet_s=self._settings.first_step_quiet_s,
            median_steps=self._settings.quiet_median_steps,
            moved=lambda: moved_bytes(_processes(child)),
        )
        self._records.on_rows = silence.rows if step.trains else None
        return silence

    def sampler_for(self, child: Child) -> Sampler:
        """What measures one step's usage."""
        return Sampler(child.roots, self._folder.path, gpus=self._order.gpu_uuids)

    @property
    def records(self) -> Records:
        """What is being written."""
        return self._records

    def _diverged(self) -> None:
        if self._order.spec.on_nan == "stop":
            self._stop_reasons.diverged()
        elif not self._nan_noted:
            self._nan_noted = True
            self.note(f"Its loss was no number {DIVERGED_AFTER} times running. It goes on, as this run was told to.")

    def _judge(self, step: Step, code: int, processes: ProcessGuard) -> None:
        tail = self._records.capture.tail
        if step.trains and code == 0 and self._done():
            self._stop_reasons.trained()
        if self._stop_reasons.ending is not None:
            raise StepFailed(self._stop_reasons.outcome(code=code, traceback=traceback_tail(tail)))
        if code == 0:
            if step.trains and self._records.status() == "stopped":
                raise StepFailed(preempted(step.name))
            return
        if BAD_DATA_EXIT in (code, real_code(code, tail)):
            exit_class, reason = outputs.read_error(place_of(step, self._folder))
            raise StepFailed(failed(exit_class, reason, code=BAD_DATA_EXIT))
        death = Death(
            step=step.name,
            code=code,
            tail=tail,
            oom=processes.killed_anywhere,
            own_oom=processes.killed_here,
            too_large=processes.too_large(),
            crowded=processes.crowded() if processes.refused_here else "",
            files=too_many_files(self._limits, self._settings),
        )
        raise StepFailed(classify(death))

    def _done(self) -> bool:
        """Whether the training came to its own end: all outputs are there, and it does not say that it was stopped."""
        return self._records.status() != "stopped" and not outputs.check_training(self._folder.path)


def _processes(child: Child) -> list[int]:
    """All processes of a step."""
    return [pid for root in child.roots for pid in (root, *descendants_of(root))]


class _Watch:
    """One step from its start to its exit."""

    def __init__(self, stage: Stage, step: Step, child: Child) -> None:
        self._stage, self._child = stage, child
        self.processes = stage.processes_for(child)
        self._escalation = stage.escalation_for(child, step)
        self._silence = stage.silence_for(child, step)
        self._sampler = stage.sampler_for(child)

    def run(self) -> int:
        """The exit code."""
        capture, open_ended, pause_s = self._stage.records.capture, True, _FIRST_LOOK_S
        while (code := self._child.poll()) is None:
            if open_ended:
                open_ended = capture.pump(self._child.output, wait_s=_LOOK_S)
            else:  # its end comes right after that of its output, as a rule
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LOOK_S)
            if self._stage.flush_when_due():
                self._stage.beat_when_due(self._sampler)
                self._escalation.look()
                self._end(self._stage.look(self._silence, self.processes))
        return code

    def _end(self, why: Why | None) -> None:
        if why is None:
            return
        if not self._escalation.phase:
            self._stage.records.capture.say(f"ending: {why.value}")
            if why is Why.HANG:
                self._escalation.dump()
        self._escalation.begin(kill=self._stage.at_once, by_host=why is Why.HOST)
        self._escalation.tick()
