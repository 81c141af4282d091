"""Finds attempts whose supervisor died, ends what it left behind, and says so; sends what never reached Redis.

Owns recovery on a host. Trusts locks, never remembered process ids. Called by `worker.app` at start and every minute.
"""

import contextlib
import logging
from pathlib import Path

import redis

from agent.domain.events import Ended
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import Malformed, decode, encode
from worker.client.connect import connect
from worker.client.redis_url import shown
from worker.folders import HostFolder, RunFolder, locked, read_fence, write_atomically
from worker.processes import end_with_environment
from worker.sender import Sender, acked_seq, note_sent, sent_notes
from worker.spool import Spool, attempt_of, last_seq

_SEND_LIMIT_S = 10.0
_LOST = "Its supervisor on host {host} died, so the run was lost. What it saved in checkpoints is still there."

log = logging.getLogger(__name__)


class Sweep:
    """Goes through all runs of a host."""

    def __init__(self, home: HostFolder, *, host: str, redis_url: str) -> None:
        """Nothing is opened before `run`."""
        self._home, self._host, self._url = home, host, redis_url
        self._redis_away = False

    def run(self) -> int:
        """Once through all runs; how many were found lost."""
        lost = 0
        self._redis_away = False
        for folder in self._home.runs():
            try:
                lost += self._one(folder)
            except (OSError, ValueError, Malformed):
                log.exception("sweep_failed run=%s", folder.run)
        return lost

    def _one(self, folder: RunFolder) -> bool:
        attempt = read_fence(folder)
        if sent_notes(folder).get(str(attempt), {}).get("done"):
            return False
        with locked(folder.launch_lock) as free, locked(folder.lock) as dead:
            if not (free and dead) or read_fence(folder) != attempt:
                return False
            lost = self._bury(folder, attempt)
            if not self._redis_away:
                self._try_to_send(folder)
        return lost

    def _bury(self, folder: RunFolder, attempt: int) -> bool:
        """End the attempt if nobody did; True when it was lost."""
        if folder.old(folder.spool, attempt).exists():  # put aside for a newer attempt that never came
            return False
        if not folder.outcome.exists() and not folder.spool.exists():
            return False  # let in and never started: the launch will be repeated
        lost = not folder.outcome.exists()
        if lost:
            ended = end_with_environment(f"TRAINYARD_RUN_DIR={folder.path}")
            reason = _LOST.format(host=self._host)
            write_atomically(
                folder.outcome, encode(Outcome(state=RunState.LOST, exit_class=ExitClass.LOST, reason=reason))
            )
            log.warning("run_lost run=%s attempt=%d processes_ended=%d", folder.run, attempt, ended)
        spool = self._open(folder.spool, folder.run, attempt)
        if spool.last_kind != "ended":
            spool.append(Ended(outcome=decode(Outcome, folder.outcome.read_bytes())))
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
                self._send(folder, path, attempt, epoch=str(noted.get("epoch", "")), seq=int(noted.get("seq", 0)))

    def _send(self, folder: RunFolder, path: Path, attempt: int, *, epoch: str, seq: int) -> None:
        last = last_seq(path)
        with contextlib.closing(connect(self._url)) as client:
            now = str(client.info("server")["run_id"])
            stored = acked_seq(client, folder.run, attempt) >= last
        if stored:
            note_sent(folder, attempt, seq=last, epoch=now, done=True)
        elif epoch != now or seq < last:
            spool = self._open(path, folder.run, attempt)
            sender = Sender(spool, redis_url=self._url)
            sender.start()
            if sender.close(limit_s=_SEND_LIMIT_S):
                note_sent(folder, attempt, seq=last, epoch=sender.epoch, done=False)
                log.info("spool_sent run=%s attempt=%d events=%d", folder.run, attempt, last)
            spool.close()

    def _open(self, path: Path, run: str, attempt: int) -> Spool:
        return Spool(path, run=run, attempt=attempt, host=self._host)
