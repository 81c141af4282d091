"""Finds attempts whose supervisor died, ends what it left behind, and says so; sends what never reached Redis.

Owns recovery on a host. Trusts locks, never remembered process ids. Called by `worker.app` at start and every minute.
"""

import contextlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis

from agent.domain.events import Ended
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import Malformed, decode, encode
from worker.client.connect import connect
from worker.client.redis_url import shown
from worker.folders import (
    HostFolder,
    RunFolder,
    cgroup_name,
    locked,
    marks_of,
    read_fence,
    read_plain,
    remove,
    write_atomically,
)
from worker.host.cgroup import find_leaves
from worker.host.processes import boot_id, end_with_environment
from worker.reporting.delivery import STREAM_PREFIX, acked_seq, is_lost
from worker.reporting.sender import Sender, note_sent, sent_notes
from worker.reporting.spool import Spool, attempt_of, is_of, last_seq
from worker.supervisor.checkpoints import newest_step

_SEND_LIMIT_S = 10.0
_LOST = (
    "Its supervisor on host {host} was killed or crashed (often because the host ran out of memory), which ended it. "
    "What it saved in checkpoints is still there."
)
_REBOOTED = "Host {host} was restarted, so the run was lost. What it saved in checkpoints is still there."
_REFUSED_KEPT_S = 3600.0

log = logging.getLogger(__name__)


class Sweep:
    """Goes through all runs of a host."""

    def __init__(self, home: HostFolder, *, host: str, redis_url: str) -> None:
        """Nothing is opened before `run`. Without an address nothing is sent: the bot reads the spools itself."""
        self._home, self._host, self._url = home, host, redis_url
        self._redis_away = False

    def run(self) -> int:
        """Once through all runs; how many were found lost."""
        lost = 0
        self._redis_away = False
        for folder in self._home.runs():
            try:
                lost += self.look_at(folder)
            except (OSError, ValueError, KeyError, TypeError, Malformed):  # of files that a payload may have written
                log.exception("sweep_failed run=%s", folder.run)
        self._forget_refusals()
        return lost

    def _forget_refusals(self) -> None:
        """Remove what launches left behind that were killed while they refused an order."""
        for path in self._home.path.glob("refused-*.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _REFUSED_KEPT_S:
                    path.unlink()

    def look_at(self, folder: RunFolder) -> bool:
        """One run; whether it was found lost."""
        attempt = read_fence(folder)
        if sent_notes(folder).get(str(attempt), {}).get("done"):
            return False
        with locked(folder.launch_lock) as free, locked(folder.lock) as dead:
            if not (free and dead) or read_fence(folder) != attempt:
                return False
            lost = self._bury(folder, attempt)
            if self._url and not self._redis_away:
                self._try_to_send(folder)
        return lost

    def _bury(self, folder: RunFolder, attempt: int) -> bool:
        """End the attempt if nobody did; True when it was lost."""
        if (
            folder.old(folder.spool, attempt).exists() and not folder.spool.exists()
        ):  # put aside for a newer attempt that never came
            return False
        if not folder.outcome.exists() and not folder.spool.exists():
            return False  # let in and never started: the launch will be repeated
        lost = not folder.outcome.exists()
        if lost:
            remove(folder.ballast)
            rebooted = _boot_of(folder) not in ("", boot_id())
            ended = 0 if rebooted else _end_leftovers(folder)
            outcome = Outcome(
                state=RunState.LOST,
                exit_class=ExitClass.LOST,
                reason=(_REBOOTED if rebooted else _LOST).format(host=self._host),
                checkpoint_step=newest_step(folder.path),
            )
            write_atomically(folder.outcome, encode(outcome))
            log.warning("run_lost run=%s attempt=%d processes_ended=%d", folder.run, attempt, ended)
        spool = self._open(folder.spool, folder.run, attempt)
        if spool.last_kind != "ended":
            spool.append(Ended(outcome=decode(Outcome, read_plain(folder.outcome))))
            spool.sync()
        spool.close()
        return lost

    def _try_to_send(self, folder: RunFolder) -> None:
        try:
            self._catch_up(folder)
        except redis.RedisError as error:  # the others are still to be buried; sending them waits for the next sweep
            log.warning("sweep_later redis=%s why=%s", shown(self._url), error)
            self._redis_away = True

    def _catch_up(self, folder: RunFolder) -> None:
        """Send each spool that this Redis does not have; forget those that the bot has stored."""
        for path in folder.spools():
            attempt = attempt_of(path)
            noted = sent_notes(folder).get(str(attempt), {})
            if attempt and not noted.get("done"):
                self._send(folder, path, attempt, noted)

    def _send(self, folder: RunFolder, path: Path, attempt: int, noted: Mapping[str, Any]) -> None:
        """`noted` is what was sent of it, and when."""
        last, entry, stream = last_seq(path), str(noted.get("entry", "")), STREAM_PREFIX + self._host
        with contextlib.closing(connect(self._url)) as client:
            now = str(client.info("server")["run_id"])
            stored = acked_seq(client, folder.run, attempt) >= last
            lost = is_lost(client, stream, folder.run, attempt, seq=last, entry=entry)
        if stored:
            note_sent(folder, attempt, seq=last, epoch=now, entry=entry, done=True)
        elif not is_of(path, folder.run, attempt):
            log.error("spool_not_ours run=%s path=%s", folder.run, path.name)
        elif lost or noted.get("epoch") != now or int(noted.get("seq", 0)) < last:
            spool = self._open(path, folder.run, attempt)
            sender = Sender(spool, redis_url=self._url)
            sender.start()
            if sender.close(limit_s=_SEND_LIMIT_S):
                note_sent(folder, attempt, seq=last, epoch=sender.epoch, entry=sender.entry)
                log.info("spool_sent run=%s attempt=%d events=%d", folder.run, attempt, last)
            spool.close()

    def _open(self, path: Path, run: str, attempt: int) -> Spool:
        return Spool(path, run=run, attempt=attempt, host=self._host)


def _boot_of(folder: RunFolder) -> str:
    """The boot of the machine in which the attempt's supervisor began; empty when it did not come that far.

    From its trace, or, where a loss of power took that, from its first event.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
        return str(json.loads(read_plain(folder.supervisor))["boot_id"])
    with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError, IndexError):
        return str(json.loads(read_plain(folder.spool).splitlines()[0])["body"]["boot_id"])
    return ""


def _end_leftovers(folder: RunFolder) -> int:
    """End what a dead supervisor left; only in the boot in which it began: after that no process can be its own."""
    ended = end_with_environment(*marks_of(folder))
    for leaf in find_leaves(cgroup_name(folder)):
        leaf.remove()
    return ended
