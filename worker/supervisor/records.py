"""Everything that an attempt tells: log, metrics, checkpoints, pictures and events, in order, into its spool.

Owns what waits to be spooled: while the disk is full events stay in memory, and go out once there is room. Knows no
process. Used by `worker.supervisor.stage` and `attempt`.
"""

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from agent.domain.events import Beat, EventBody, MetricRow
from agent.domain.redaction import Redactor
from trainyard.pictures import FOLDER
from worker.folders import RunFolder, read_plain
from worker.reporting.spool import Spool
from worker.supervisor.capture import Capture
from worker.supervisor.checkpoints import CheckpointWatch
from worker.supervisor.follow import MetaWatch, MetricsTail, rows_in
from worker.supervisor.reported import Found, PictureWatch, reported_in, store_of_host

_CHECKPOINTS_EVERY_S = 1.0
_ROWS_S = 0.5  # for rows, of one look: a script can write them faster than anybody reads
_CATCH_UP_S, _BEAT_S = 60.0, 10.0
_WAITING = 10_000  # events; with more the oldest beats and log lines would have to go, and a full disk ends it before
_META_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class Records:
    """One attempt's records. `on_rows` gets new metric rows as they are found."""

    def __init__(self, folder: RunFolder, spool: Spool, *, secrets: Sequence[str]) -> None:
        """Opens the log. What lies in the folder already belongs to earlier attempts."""
        self._folder, self._spool = folder, spool
        self.capture = Capture(folder.log, secrets=secrets)
        clean = Redactor(secrets).text
        handed_out = rows_in(folder.spools())
        self._metrics = MetricsTail(folder.path / "metrics.jsonl", clean=clean, handed_out=handed_out)
        self._meta = MetaWatch(folder.path / "meta.json", clean=clean)
        self._old_meta = self._meta_stamp()
        self._checkpoints = CheckpointWatch(folder.path)
        self._checkpoints_at = time.monotonic()
        self._saved = 0
        reported = reported_in(folder.spools()) if (folder.path / FOLDER).exists() else {}
        self._pictures = PictureWatch(folder.path, store=store_of_host, secrets=secrets, reported=reported)
        self._waiting: deque[EventBody] = deque(maxlen=_WAITING)
        self.on_rows: Callable[[Sequence[MetricRow]], None] | None = None

    @property
    def bad_losses(self) -> int:
        """Losses in a row that are no number."""
        return self._metrics.bad_losses

    def signs(self) -> tuple[object, ...]:
        """What changes when the step does something: rows, output, checkpoints."""
        return self._metrics.rows_seen, self.capture.bytes_seen, self._saved

    def status(self) -> str:
        """What meta.json says of this attempt, empty when the attempt has not written it."""
        path = self._folder.path / "meta.json"
        if self._meta_stamp() in (None, self._old_meta) or path.is_symlink():
            return ""
        try:
            if path.stat().st_size > _META_BYTES:
                return ""
            found: Any = json.loads(read_plain(path))
        except (OSError, ValueError, RecursionError):  # of nesting without end
            return ""
        return str(found.get("status", "")) if isinstance(found, dict) else ""

    def catch_up(self) -> None:
        """Hand on the rows that an earlier attempt's supervisor died with. They say nothing about this attempt."""
        self._flush_all()
        self._metrics.bad_losses = 0

    def step_ended(self) -> None:
        """No process of the step is left: what it wrote last is whole now."""
        self._flush_all()

    def put(self, body: EventBody) -> None:
        """One event; kept in memory while the disk takes nothing."""
        self._waiting.append(body)
        self._drain()

    def flush(self) -> bool:
        """Turn what is new into events; Started comes before the first metric. True when the disk takes nothing."""
        started = self._meta.take()
        if started is not None:
            self._waiting.append(started)
        self._take_rows()
        self._look_for_checkpoints()
        self._show(self._pictures.take())
        logged = self.capture.take()
        if logged is not None:
            self._waiting.append(logged)
        return not self._drain()

    def close(self) -> None:
        """Hand on what is left, close the log."""
        self._checkpoints_at = float("-inf")
        self._show(self._pictures.finish())
        self.flush()
        self.capture.close()

    def _take_rows(self) -> None:
        """Not longer than `_ROWS_S`, so that whoever writes on and on is still watched."""
        end = time.monotonic() + _ROWS_S
        while (measured := self._metrics.take()) is not None:
            self._waiting.append(measured)
            if self.on_rows is not None:
                self.on_rows(measured.rows)
            if time.monotonic() > end:
                break

    def _flush_all(self) -> None:
        """All rows of a file that nobody writes to, and that we live; given up where long nothing of it is a row."""
        seen, seen_at, beat_at = -1, 0.0, time.monotonic()
        while True:
            self.flush()
            if not self._metrics.behind:
                return
            now = time.monotonic()
            if self._metrics.rows_seen != seen:
                seen, seen_at = self._metrics.rows_seen, now
            elif now - seen_at > _CATCH_UP_S:
                self.capture.say("the rest of metrics.jsonl is not read: for too long nothing of it is a row")
                return
            if now - beat_at > _BEAT_S:
                beat_at = now
                self.put(Beat())

    def _look_for_checkpoints(self) -> None:
        if time.monotonic() - self._checkpoints_at >= _CHECKPOINTS_EVERY_S:
            self._checkpoints_at = time.monotonic()
            saved = self._checkpoints.take()
            self._saved += len(saved)
            self._waiting.extend(saved)

    def _show(self, found: Found) -> None:
        self._saved += len(found.reported)
        self._waiting.extend(found.reported)
        for text in found.said:
            self.capture.say(text)

    def _drain(self) -> bool:
        """Spool what waits; whether all of it went."""
        while self._waiting:
            try:
                self._spool.append(self._waiting[0])
            except OSError as error:
                log.warning("event_waits count=%d why=%s", len(self._waiting), error)
                return False
            self._waiting.popleft()
        return True

    def _meta_stamp(self) -> tuple[int, int] | None:
        try:
            found = (self._folder.path / "meta.json").stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns
