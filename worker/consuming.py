"""Whether this host's pool takes orders: the main process sends itself a `trainyard.noop` and looks if it comes out.

Owns two files of the host's folder, `noop.at` (the pool consumed one) and `noop.missed` (none came out for long), and
the verdict. Knows no Celery. `note` is called by the task, `Watch.tick` by a thread of `worker.app`, `is_consuming` by
the host beat. A worker whose main process lives and consumes nothing looks well from outside; this is how it is found.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from worker.folders import HostFolder

PERIODS = 3

log = logging.getLogger(__name__)


def note(home: HostFolder) -> None:
    """A noop came out of the queue."""
    home.path.mkdir(parents=True, exist_ok=True)
    _consumed(home).touch()


def is_consuming(home: HostFolder) -> bool:
    """What the last look found; true before the first."""
    return not _missed(home).exists()


class Watch:
    """Sends, and judges. One for each worker's main process."""

    def __init__(
        self,
        home: HostFolder,
        send: Callable[[], None],
        *,
        period_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`send` puts one noop into the host's own queue and raises `OSError` when Redis is away."""
        self._home, self._send, self._clock = home, send, clock
        self._period_s = period_s
        self._waiting_since: float | None = None  # the first noop that was sent and not consumed
        self._stamp = _stamp(home)
        _missed(home).unlink(missing_ok=True)

    def tick(self) -> bool:
        """Once a period: judge what was sent, send the next; whether the pool consumes.

        Time in which nothing could be sent does not count: a Redis that is away says nothing about the pool.
        """
        stamp = _stamp(self._home)
        if stamp != self._stamp:
            self._stamp, self._waiting_since = stamp, None
            if _missed(self._home).exists():
                log.info("pool_consumes_again")
                _missed(self._home).unlink(missing_ok=True)
        try:
            self._send()
        except OSError as error:
            log.warning("noop_unsent why=%s", error)
            self._waiting_since = None
            return is_consuming(self._home)
        now = self._clock()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if now - self._waiting_since >= PERIODS * self._period_s and is_consuming(self._home):
            log.error("pool_does_not_consume for_s=%.0f", now - self._waiting_since)
            _missed(self._home).touch()
        return is_consuming(self._home)


def _consumed(home: HostFolder) -> Path:
    return home.path / "noop.at"


def _missed(home: HostFolder) -> Path:
    return home.path / "noop.missed"


def _stamp(home: HostFolder) -> int:
    try:
        return _consumed(home).stat().st_mtime_ns
    except FileNotFoundError:
        return 0
