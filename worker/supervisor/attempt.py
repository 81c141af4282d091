"""Carries one attempt from Accepted to Ended.

Owns the order of things and the outcome. Knows no Celery. Entered by `worker.supervisor.__main__` with the lock held.
The outcome is on disk before it is sent, and this process stays until Redis has it, or leaves that to the sweep.
"""

import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from agent.domain.errors import AppError, TransientError
from agent.domain.events import Accepted, Beat, Ended
from agent.domain.orders import GpuInfo, LaunchOrder, Limits
from agent.domain.runs import Artifact, ExitClass, Outcome, RunState
from agent.wire import decode, encode
from worker.client.blobs import BlobStore, make_blobs
from worker.folders import HostFolder, RunFolder, cgroup_name, remove, write_atomically
from worker.host import cgroup, secrets
from worker.host.disk import FULL
from worker.host.gpus import gpus
from worker.host.limits import limit_open_files, limits_of
from worker.host.processes import adopt_orphans, boot_id
from worker.reporting.sender import Kept, Sender, note_sent, sender_of
from worker.reporting.spool import Spool
from worker.sandbox import tier_for
from worker.settings import Settings
from worker.supervisor import outputs, workspace
from worker.supervisor.checkpoints import newest_step
from worker.supervisor.exits import failed
from worker.supervisor.layout import Layout
from worker.supervisor.records import Records
from worker.supervisor.stage import AttemptContext, Stage, StepFailed
from worker.supervisor.steps import Granted, device_numbers, gpu_count, steps_for
from worker.supervisor.stop_reasons import StopReasons, Why

_AGAIN_S = 5.0
_BALLAST_BYTES = 256 * 1024
T = TypeVar("T")
_FULL_DISK = "The host's disk is full. Free some space, then start again."

log = logging.getLogger(__name__)


def supervise(folder: RunFolder, attempt: int, *, asked: Sequence[int], lock: int) -> int:
    """Run the attempt to its end; the process's exit code. `asked` holds the SIGTERMs that came before we listen."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    adopt_orphans()
    settings = Settings()
    order = decode(LaunchOrder, folder.order.read_bytes())
    max_s = order.spec.max_hours * 3600 if order.budget_s is None else order.budget_s
    stop_reasons = StopReasons(folder, attempt, max_s=max_s, lock=lock)
    signal.signal(signal.SIGTERM, stop_reasons.on_term)
    if asked:
        stop_reasons.on_term()
    stop_reasons.look()
    _say_who(folder, attempt)
    spool = Spool(folder.spool, run=order.run, attempt=attempt, host=settings.host_id)
    spool.path = Path(f"/proc/self/fd/{os.open(folder.spool, os.O_RDONLY)}")  # it can be sent from a removed folder too
    sender = sender_of(spool, settings)
    spool.append(Accepted(boot_id=boot_id()))
    sender.start()
    limit_open_files(settings.open_files)
    there = gpus() if gpu_count(order) else ()
    limits = limits_of(settings, gpus=gpu_count(order), of_gpus=len(there))
    leaf = None
    if settings.memory_by == "auto":
        leaf = cgroup.make_leaf(cgroup_name(folder), limit_bytes=limits.memory_bytes, processes=limits.processes)
    try:
        outcome = _Attempt(folder, order, settings, stop_reasons, there).run(spool, sender, leaf, limits)
    finally:
        if leaf is not None:
            leaf.remove()
    _finish(folder, spool, outcome, stop_reasons, limit_s=settings.send_limit_s)
    sent = sender.close(limit_s=settings.send_limit_s)
    if sent and not stop_reasons.removed:
        note_sent(folder, attempt, seq=spool.seq, epoch=sender.epoch, entry=sender.entry)
    elif not sent:
        log.warning("unsent_left_to_sweep run=%s", order.run)
    os.close(lock)
    return 0


def _say_who(folder: RunFolder, attempt: int) -> None:
    """Leave a trace of this process for the sweep, and hold back space for the outcome."""
    who = {"pid": os.getpid(), "boot_id": boot_id(), "attempt": attempt}
    write_atomically(folder.supervisor, json.dumps(who).encode(), durable=False)  # the spool has its boot too
    remove(folder.ballast)
    with folder.ballast.open("xb") as file:
        os.posix_fallocate(file.fileno(), 0, _BALLAST_BYTES)


def _finish(folder: RunFolder, spool: Spool, outcome: Outcome, stop_reasons: StopReasons, *, limit_s: float) -> None:
    """Write the outcome, then spool it. On a full disk what was held back goes first, then the data of the run.

    Where the run's folder was removed it is only spooled: what lies there now is somebody else's.

    Raises `OSError` when there is no room for it within `limit_s`; the sweep then reports the attempt as lost.
    """
    end = time.monotonic() + limit_s
    while True:
        try:
            if not stop_reasons.removed:
                write_atomically(folder.outcome, encode(outcome))
            if spool.last_kind != "ended":
                spool.append(Ended(outcome=outcome))
            break
        except OSError:
            log.exception("outcome_unwritten run=%s", folder.run)
            if time.monotonic() > end:
                raise
            if folder.ballast.exists():
                remove(folder.ballast)
                continue
            with contextlib.suppress(OSError):
                remove(folder.path / "data")
            time.sleep(_AGAIN_S)
    remove(folder.ballast)
    log.info("attempt_ended run=%s attempt=%d state=%s", folder.run, spool.attempt, outcome.state.value)


class _Attempt:
    """One attempt's work. Every way out of `run` is an `Outcome`."""

    def __init__(
        self,
        folder: RunFolder,
        order: LaunchOrder,
        settings: Settings,
        stop_reasons: StopReasons,
        there: Sequence[GpuInfo],
    ) -> None:
        """`there` are the host's GPUs, where the order is for some."""
        self._folder, self._order, self._settings = folder, order, settings
        self._stop_reasons, self._gpus = stop_reasons, there
        self._began = time.monotonic()
        self._records: Records | None = None
        self._blobs: BlobStore = make_blobs(
            settings.blobs,
            home=settings.home,
            redis_url=settings.redis_url,
            cache=HostFolder.of(settings.home, settings.host_id).blobs,
        )
        self._layout = Layout(folder, order, self._blobs)

    def run(self, spool: Spool, sender: Sender | Kept, leaf: cgroup.Leaf | None, limits: Limits) -> Outcome:
        """Do all steps; never raises."""
        try:
            outcome = self._work(spool, sender, leaf, limits)
        except StepFailed as error:
            outcome = error.outcome
        except TransientError as error:  # nothing is wrong with the run itself
            outcome = failed(ExitClass.PREEMPTED, error.text)
        except AppError as error:
            outcome = failed(ExitClass.BAD_DATA, error.text)
        except outputs.BadOutput as error:
            outcome = failed(ExitClass.USER_ERROR, str(error))
        except OSError as error:
            log.exception("attempt_broke run=%s", self._order.run)
            outcome = from_os_error(error)
        except Exception:
            log.exception("attempt_broke run=%s", self._order.run)
            outcome = failed(
                ExitClass.USER_ERROR,
                f"The supervisor on {self._order.host} broke. Its log is {self._folder.path}/supervisor.log.",
            )
        if self._stop_reasons.removed and outcome.state is not RunState.SUCCEEDED:  # whatever else failed by that
            self._stop_reasons.look()
            outcome = self._stop_reasons.outcome()
        return self._finished(outcome)

    def _finished(self, outcome: Outcome) -> Outcome:
        """With what every outcome has, and without the secrets that the program may have put into its last words."""
        with contextlib.suppress(OSError):
            remove(self._folder.workspace)  # of a step that failed
        outcome = outcome.model_copy(
            update={
                "seconds": round(time.monotonic() - self._began, 3),
                "checkpoint_step": newest_step(self._folder.path),
            }
        )
        if self._records is None:
            return outcome
        clean = self._records.capture.redacted
        outcome = outcome.model_copy(
            update={
                "reason": clean(outcome.reason),
                "traceback": tuple(clean(line) for line in outcome.traceback),
                "chosen": clean(outcome.chosen),
            }
        )
        with contextlib.suppress(OSError):
            remove(self._folder.ballast)  # the last events may need it; `_finish` has other means
        self._records.close()
        return outcome

    def _work(self, spool: Spool, sender: Sender | Kept, leaf: cgroup.Leaf | None, limits: Limits) -> Outcome:
        granted = secrets.granted(self._settings.home, self._order.spec.secrets)
        self._records = records = Records(self._folder, spool, secrets=tuple(granted.values()))
        if self._stop_reasons.ending:
            return self._stop_reasons.outcome()
        given = Granted(
            secrets=granted, minors=device_numbers(self._order, self._gpus), index=self._settings.package_index
        )
        own = (self._folder, self._order, self._settings, records, self._stop_reasons, sender, leaf, limits)
        return self._steps(records, Stage(AttemptContext(*own, given)))

    def _steps(self, records: Records, stage: Stage) -> Outcome:
        records.catch_up()
        if self._order.attempt > 1:
            records.capture.say(f"attempt {self._order.attempt} begins")
        if note := self._with_retry(records, self._layout.lay_out):
            records.capture.say(note)
        # The worker tested it, and the launch compared it with what was approved; where it broke since, no step starts.
        tier = self._settings.tier or tier_for(self._settings.sandbox, self._order.spec.sandbox)
        steps = steps_for(self._folder, self._order, prepared=self._layout.prepared)
        if steps.first and steps.first.sealed:
            self._with_retry(records, self._layout.bring_source)
            stage.run(steps.first, tier=tier)
            self._beating(records, lambda: workspace.take_split(self._folder, self._order.spec))
        elif steps.first:
            stage.run(steps.first, tier=tier)
        stage.run(steps.train, tier=tier)
        if why := outputs.check_training(self._folder.path):
            return failed(ExitClass.USER_ERROR, why, code=0)
        scorecard = results = None
        if steps.evaluate and outputs.has_predictions(self._folder.path):
            self._with_retry(records, self._layout.bring_predictions, despite=(Why.TIME,))
            stage.run(steps.evaluate, tier=tier)
            scorecard = outputs.read_scorecard(self._folder.workspace)
            results = outputs.read_results(self._folder.workspace, clean=records.capture.redacted)
            workspace.take_results(self._folder)
        name = f"{self._order.run}.tar"
        # All is done: neither its hours nor a store that is away for a while may cost the result.
        artifact = self._with_retry(records, lambda: self._packed(name), despite=(Why.TIME,))
        kept = self._with_retry(
            records,
            lambda: outputs.keep_results(results, self._blobs, run=self._order.run),
            despite=(Why.TIME,),
        )
        return Outcome(
            state=RunState.SUCCEEDED,
            exit_code=0,
            scorecard=scorecard,
            artifact=artifact,
            chosen=outputs.read_chosen(self._folder.path),
            found=outputs.read_found(self._folder.path) if self._order.spec.searches else {},
            notes=tuple(map(records.capture.redacted, outputs.read_notes(self._folder.path))),
            results=kept,
        )

    def _packed(self, name: str) -> Artifact | None:
        beside = self._layout.left_beside()
        return outputs.pack_artifact(self._folder.path, self._blobs, name=name, beside=beside)

    def _with_retry(self, records: Records, act: Callable[[], T], *, despite: Collection[Why] = ()) -> T:
        """What `act` does with the store of files. A store that does not answer is asked again for `send_limit_s`.

        Raises `StepFailed` when the attempt is to end meanwhile, for another reason than those in `despite`.
        """
        end = time.monotonic() + self._settings.send_limit_s
        while True:
            try:
                return self._beating(records, act)
            except TransientError as error:
                if time.monotonic() > end:
                    raise
                log.warning("store_away run=%s why=%s", self._order.run, error)
            self._beating(records, lambda: time.sleep(_AGAIN_S))
            self._stop_reasons.look()
            if self._stop_reasons.at_once or self._stop_reasons.ending not in (None, *despite):
                raise StepFailed(self._stop_reasons.outcome())

    def _beating(self, records: Records, act: Callable[[], T]) -> T:
        """Do something that may take many minutes, and say all the while that we live."""
        with ThreadPoolExecutor(1) as pool:
            doing = pool.submit(act)
            while not wait([doing], timeout=self._settings.heartbeat_s).done:
                records.put(Beat())
            return doing.result()


def from_os_error(error: OSError) -> Outcome:
    """What an error of the host's own files means for the attempt."""
    if error.errno in FULL:
        return failed(ExitClass.DISK_FULL, _FULL_DISK)
    return failed(ExitClass.USER_ERROR, f"The host could not start this run: {error}")
