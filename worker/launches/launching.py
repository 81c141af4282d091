"""Lets an attempt in, or not: signature, expiry, host, fence, sandbox, bundle; then starts its supervisor.

Owns the order of the checks and what a refusal leaves behind. Knows no Celery. Called by `worker.tasks`.
A launch that comes twice is harmless: the fence knows the attempt, and the lock knows the supervisor.
"""

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agent.domain.errors import AppError
from agent.domain.events import Ended
from agent.domain.orders import GpuInfo, LaunchOrder, StopOrder
from agent.domain.runs import ExitClass, Outcome
from agent.wire import encode
from worker.client.blobs import BlobStore
from worker.folders import HostFolder, RunFolder, is_alive, locked, marks_of, read_fence, rename_over, write_atomically
from worker.host.gpus import gpus
from worker.host.processes import end_with_environment
from worker.launches.signatures import Refused, require_signature
from worker.launches.spawning import spawn, supervisor_environment
from worker.reporting.sender import sender_of
from worker.reporting.spool import Spool, has_ended
from worker.sandbox import at_least, networks_of
from worker.settings import Settings
from worker.supervisor.checkpoints import newest_step
from worker.supervisor.exits import failed
from worker.supervisor.stop_reasons import read_stop

_OLD_SUPERVISOR_S = 15.0

log = logging.getLogger(__name__)


class Launcher:
    """Starts and stops supervisors on this host."""

    def __init__(
        self,
        settings: Settings,
        blobs: BlobStore,
        *,
        tier: str,
        ask_gpus: Callable[[], Sequence[GpuInfo]] = gpus,
    ) -> None:
        """`tier` is what passed the self-test; `ask_gpus` tells this host's GPUs within seconds."""
        self._settings, self._blobs, self._tier, self._ask_gpus = settings, blobs, tier, ask_gpus
        self._home = HostFolder.of(settings.home, settings.host_id)

    def launch(self, order: LaunchOrder) -> str:
        """Start the attempt unless there is a reason not to; one word for the log. Never raises `Refused`."""
        if order.host != self._settings.host_id:
            return self._refuse(order, f"this host is {self._settings.host_id}")
        try:
            folder = self._home.run(order.run)
            require_signature(order, self._settings.public_key_path, host=order.host, home=self._home)
        except ValueError as error:
            return self._refuse(order, str(error))
        except Refused as refusal:
            self._report_unsigned(order, refusal.text)
            return self._refuse(order, refusal.text)
        folder.path.mkdir(parents=True, exist_ok=True)
        with locked(folder.launch_lock, wait=True):
            return self._decide(folder, order)

    def stop(self, order: StopOrder) -> str:
        """Tell the attempt's supervisor to end it; kept for a supervisor that is only just being started.

        An order never weakens an earlier one for the same attempt: a kill stays a kill. Raises `ValueError` for a run
        that cannot exist.
        """
        folder = self._home.run(order.run)
        try:
            require_signature(order, self._settings.public_key_path, host=self._settings.host_id, home=self._home)
        except Refused as refusal:
            log.warning("stop_refused run=%s attempt=%d why=%s", order.run, order.attempt, refusal.text)
            return "refused"
        folder.path.mkdir(parents=True, exist_ok=True)
        with locked(folder.launch_lock, wait=True):
            if order.attempt < read_fence(folder):
                return "stale"
            if not _is_weaker(order, read_stop(folder)):
                write_atomically(folder.stop, encode(order))
            return "told" if _signal_supervisor(folder) else "kept"

    def _decide(self, folder: RunFolder, order: LaunchOrder) -> str:
        fence = read_fence(folder)
        if order.attempt < fence:
            return self._refuse(order, f"attempt {fence} is newer")
        if order.attempt == fence and (is_alive(folder) or folder.outcome.exists() or folder.spool.exists()):
            log.info("launch_repeated run=%s attempt=%d", order.run, order.attempt)
            return "repeated"
        try:
            self._check(order)
            if order.attempt > fence:
                self._make_room(folder, fence)
        except Refused as refusal:
            if refusal.final:
                self._report_final(folder, order, failed(refusal.exit_class, refusal.text), fence=fence)
            return self._refuse(order, refusal.text)
        write_atomically(folder.order, encode(order), durable=False)  # for the supervisor that is started now
        write_atomically(folder.fence, str(order.attempt).encode())
        return self._spawn(folder, order)

    def _check(self, order: LaunchOrder) -> None:
        if order.expires_at <= datetime.now(UTC):
            raise Refused(
                f"Host {order.host} got the order to start this too late: it was valid until "
                f"{order.expires_at:%H:%M:%S} UTC. If that repeats, compare the clocks of host and bot.",
                final=True,
            )
        if not at_least(self._tier, order.spec.sandbox):
            raise Refused(
                f"Host {order.host} has the sandbox {self._tier} and this run was approved with {order.spec.sandbox}.",
                final=True,
            )
        if order.spec.network not in networks_of(self._tier):
            raise Refused(
                f"Host {order.host} cannot keep the network policy {order.spec.network}, because its sandbox is "
                f"{self._tier}. Choose none or open, or a host with a sandbox.",
                final=True,
            )
        self._check_gpus(order)
        try:
            self._blobs.get_file(order.spec.bundle_sha256)
        except AppError as error:
            raise Refused(
                f"Host {order.host} cannot start this, because the run's program is missing. {error.text}", final=True
            ) from error

    def _check_gpus(self, order: LaunchOrder) -> None:
        """The GPUs of the order must be there, well, and free of others. PREEMPTED: it may go well elsewhere, or later.

        A driver that does not answer in time looks like a host without GPUs.
        """
        if not order.gpu_uuids:
            return
        here = {gpu.uuid: gpu for gpu in self._ask_gpus()}
        for uuid in order.gpu_uuids:
            why = _why_not(here.get(uuid), limit_bytes=self._settings.gpu_foreign_bytes)
            if why:
                text = f"Host {order.host} cannot use GPU {uuid} now: {why}."
                raise Refused(text, final=True, exit_class=ExitClass.PREEMPTED)

    def _make_room(self, folder: RunFolder, fence: int) -> None:
        """End an older attempt that still runs here, and put its records aside."""
        if is_alive(folder):
            write_atomically(folder.stop, encode(StopOrder(run=folder.run, attempt=fence, how="kill")))
            _signal_supervisor(folder)
            end = time.monotonic() + _OLD_SUPERVISOR_S
            while is_alive(folder):
                if time.monotonic() > end:
                    raise Refused(f"attempt {fence} still runs here and does not end")
                time.sleep(0.1)
            folder.stop.unlink(missing_ok=True)
        elif fence and not has_ended(folder.spool):
            end_with_environment(*marks_of(folder))  # its supervisor died, and the sweep was not here yet
        for path in (folder.spool, folder.outcome):
            if path.exists():
                rename_over(path, folder.old(path, fence))

    def _spawn(self, folder: RunFolder, order: LaunchOrder) -> str:
        env = supervisor_environment(self._settings, tier=self._tier)
        limit_s = self._settings.ready_s
        word = spawn(folder, order.attempt, warm=self._home.warm, env=env, limit_s=limit_s)
        log.info("launch_%s run=%s attempt=%d", word, order.run, order.attempt)
        if word == "died":
            text = f"The supervisor on host {order.host} did not start; its log is {folder.path}/supervisor.log."
            self._report_final(folder, order, failed(ExitClass.USER_ERROR, text), fence=order.attempt)
        return word

    def _refuse(self, order: LaunchOrder, why: str) -> str:
        log.warning("launch_refused run=%s attempt=%d why=%s", order.run, order.attempt, why)
        return "refused"

    def _report_unsigned(self, order: LaunchOrder, text: str) -> None:
        """Say it in the thread, and write nothing: a sender who proved nothing must not fence off the real order."""
        folder = self._home.run(order.run)
        if folder.path.exists() and read_fence(folder) >= order.attempt:
            return
        aside = self._home.path / f"refused-{order.run}-{os.getpid()}.jsonl"
        self._home.path.mkdir(parents=True, exist_ok=True)
        try:
            spool = Spool(aside, run=order.run, attempt=order.attempt, host=order.host)
            self._send(spool, failed(ExitClass.USER_ERROR, text))
        finally:
            aside.unlink(missing_ok=True)

    def _report_final(self, folder: RunFolder, order: LaunchOrder, outcome: Outcome, *, fence: int) -> None:
        """End the attempt before it began: fenced, with an outcome, so that no later copy of the order starts it."""
        if order.attempt > fence:
            with contextlib.suppress(Refused):
                self._make_room(folder, fence)
        write_atomically(folder.fence, str(order.attempt).encode())
        outcome = outcome.model_copy(update={"checkpoint_step": newest_step(folder.path)})
        write_atomically(folder.outcome, encode(outcome))
        self._send(Spool(folder.spool, run=order.run, attempt=order.attempt, host=order.host), outcome)

    def _send(self, spool: Spool, outcome: Outcome) -> None:
        spool.append(Ended(outcome=outcome))
        sender = sender_of(spool, self._settings)
        with contextlib.suppress(OSError):
            sender.start()
            if not sender.close(limit_s=5.0):
                log.warning("refusal_unsent run=%s", spool.run)
        spool.close()


def _why_not(gpu: GpuInfo | None, *, limit_bytes: int) -> str:
    """Empty when the GPU can be used."""
    if gpu is None:
        return "it is not there, or its driver does not answer"
    if gpu.sick:
        return gpu.sick
    if gpu.foreign_bytes > limit_bytes:
        return f"processes of others hold {gpu.foreign_bytes / 1024**2:.0f} MiB of it"
    return ""


def _is_weaker(order: StopOrder, earlier: StopOrder | None) -> bool:
    if earlier is None or earlier.attempt != order.attempt:
        return False
    strength = ("pause", "stop", "kill")
    return strength.index(order.how) < strength.index(earlier.how)


def _signal_supervisor(folder: RunFolder) -> bool:
    """SIGTERM to the process that holds the lock; False when nobody does."""
    if not is_alive(folder):
        return False
    pid = int(folder.lock.read_text() or 0)
    try:
        if _has_open(pid, folder.lock):
            os.kill(pid, signal.SIGTERM)
            return True
    except OSError:
        pass
    return False


def _has_open(pid: int, path: Path) -> bool:
    """Whether a process holds a file open. Raises `OSError` when it is gone."""
    wanted = path.stat()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.path.samestat(link.stat(), wanted):
                return True
    return False
