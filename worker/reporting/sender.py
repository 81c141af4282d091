"""Carries a spool to the host's event stream, at least once, however often Redis goes away.

Owns the position in the spool. Knows no run logic. One `Sender` per supervisor; the sweep makes one for a spool that
was left. An event is sent again when Redis restarted (its memory may be a second older than we think) and when the
stream lost it (`worker.reporting.delivery`): the reader tells doubles by (run, attempt, seq).
"""

import contextlib
import functools
import json
import logging
import threading
import time
from typing import Any

import redis

from worker.client.connect import connect
from worker.folders import RunFolder, read_plain, write_atomically
from worker.reporting.delivery import STREAM_PREFIX, acked_seq, is_lost
from worker.reporting.spool import Spool, lines_between, offset_after
from worker.settings import Settings

_MAX_ENTRIES = 100_000
_BATCH = 200
_PAUSE_MAX_S = 5.0
_LOOK_MAX_S = 600.0

log = logging.getLogger(__name__)


class Sender:
    """A thread that sends what the spool gets.

    `epoch` is the identity of the Redis process that has it, `entry` the id of the last entry there.
    """

    def __init__(self, spool: Spool, *, redis_url: str, flush_s: float = 0.25, alive_s: float = 10.0) -> None:
        """Nothing is opened before `start`. With nothing to send, Redis is asked every `alive_s` if it is there."""
        self._spool, self._url = spool, redis_url
        self._stream = STREAM_PREFIX + spool.host
        self._flush_s, self._alive_s = flush_s, alive_s
        self._answered_at = _boot_clock()
        self._sent_bytes = 0
        self.epoch = ""
        self.entry = ""
        self._seq = 0  # of that entry
        self._look_s, self._looked_at, self._resent_from = alive_s, _boot_clock(), -1
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sender", daemon=True)

    @functools.cached_property
    def _client(self) -> "redis.Redis":
        """Made by the thread that sends: an attempt that begins does not wait for it."""
        return connect(self._url)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def close(self, *, limit_s: float) -> bool:
        """Send the rest; True when Redis has everything within `limit_s` seconds."""
        self._closing.set()
        self._thread.join(limit_s)
        return not self._thread.is_alive() and self._sent_bytes >= self._spool.size_bytes

    def silent_s(self) -> float:
        """Seconds since Redis last answered, or since this was made. Time in which the machine slept counts."""
        return _boot_clock() - self._answered_at

    def _loop(self) -> None:
        pause_s = 0.0
        while True:
            closing = self._closing.wait(pause_s or self._flush_s)
            try:
                self.pump()
            except (redis.RedisError, OSError) as error:
                if not pause_s:
                    log.warning("redis_away run=%s why=%s", self._spool.run, error)
                pause_s = min(_PAUSE_MAX_S, pause_s * 2 or self._flush_s)
                if closing:
                    time.sleep(pause_s)
                continue
            pause_s = 0.0
            if closing and self._sent_bytes >= self._spool.size_bytes:
                return

    def pump(self) -> None:
        """Send everything that is durable now. Raises `redis.RedisError` while Redis is away."""
        end = self._spool.sync()
        asked = self.silent_s() < self._alive_s
        while self._sent_bytes < end or not asked:
            asked = True
            lines, after = lines_between(self._spool.path, self._sent_bytes, end, limit=_BATCH)
            epoch = self._send(lines)
            self._answered_at = _boot_clock()
            if self.epoch and epoch != self.epoch:
                log.info("redis_restarted run=%s", self._spool.run)
                after = offset_after(self._spool.path, acked_seq(self._client, self._spool.run, self._spool.attempt))
            self.epoch = epoch
            self._sent_bytes = after
        self._look_for_losses()

    def _look_for_losses(self) -> None:
        """Go back to what the bot has, if what was sent since is gone. What does not help is done less and less."""
        if _boot_clock() - self._looked_at < self._look_s:
            return
        self._looked_at = _boot_clock()
        run, attempt = self._spool.run, self._spool.attempt
        if not is_lost(self._client, self._stream, run, attempt, seq=self._seq, entry=self.entry):
            return
        acked = acked_seq(self._client, run, attempt)
        self._look_s = min(_LOOK_MAX_S, self._look_s * 2) if acked == self._resent_from else self._alive_s
        self._resent_from = acked
        self._sent_bytes = offset_after(self._spool.path, acked)
        log.warning("events_lost run=%s sending_again_from=%d", run, acked + 1)

    def _send(self, lines: list[bytes]) -> str:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.info("server")
        for line in lines:
            pipeline.xadd(self._stream, {"e": line}, maxlen=_MAX_ENTRIES, approximate=True)
        answers: list[Any] = pipeline.execute()
        if lines:
            self.entry, self._seq = answers[-1].decode(), int(json.loads(lines[-1])["seq"])
        return str(answers[0]["run_id"])


class Kept:
    """In place of a `Sender` where the bot reads the spool itself: nothing is sent, so nothing is ever missing."""

    epoch = entry = ""

    def __init__(self, spool: Spool) -> None:
        """`spool` is made durable at the end."""
        self._spool = spool

    def start(self) -> None:
        """Nothing to begin."""

    def close(self, *, limit_s: float) -> bool:
        """Make the spool durable."""
        del limit_s
        self._spool.sync()
        return True

    def silent_s(self) -> float:
        """There is nobody whose silence would count."""
        return 0.0


def sender_of(spool: Spool, settings: Settings) -> Sender | Kept:
    """What carries a spool on this host."""
    if settings.report == "spool":
        return Kept(spool)
    return Sender(spool, redis_url=settings.redis_url, flush_s=settings.flush_s, alive_s=settings.heartbeat_s)


def _boot_clock() -> float:
    """Runs on while the machine sleeps, and never back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def note_sent(folder: RunFolder, attempt: int, *, seq: int, epoch: str, entry: str = "", done: bool = False) -> None:
    """Remember that Redis (`epoch`) has the attempt's events up to `seq`, the last one as `entry`.

    `done` once the bot stored them too.
    """
    noted = sent_notes(folder)
    noted[str(attempt)] = {"seq": seq, "epoch": epoch, "entry": entry, "done": done}
    write_atomically(folder.sent, json.dumps(noted).encode())


def sent_notes(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """What `note_sent` remembered, by attempt."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        notes: dict[str, dict[str, Any]] = json.loads(read_plain(folder.sent))
        return notes
    return {}
