"""The engine `local`: attempts are supervisors on this machine, and their events are read from the spools.

Owns the way from a label to files of a run's folder. A launch and a stop are those of a host (`worker.launches`), so
fence, lock and stop order hold here too. Built by `worker.engines.local.parts`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from agent.domain.events import WorkerEvent
from agent.domain.orders import AttemptLabel, AttemptStatus, LaunchOrder, LogPart, StopOrder
from agent.domain.prices import Prices
from agent.ports import Blobs, Capabilities
from agent.wire import event_of
from worker.client.answers import Done
from worker.client.keys import load_or_create, sign
from worker.engines.local.machine import LocalMachine
from worker.engines.own import OwnMachines
from worker.folders import RunFolder, is_alive, open_plain, read_fence
from worker.launches.looking import log_of, status_of

_MOST = 500  # events at a time
_LINE_BYTES = 4 * 1024**2  # more than an event may have
_SWEEP_S = 5.0  # between two looks after a supervisor that died

log = logging.getLogger(__name__)


class LocalEngine(OwnMachines):
    """Attempts on this machine."""

    name = "local"
    capabilities = Capabilities()

    def __init__(self, machine: LocalMachine, home: Path, blobs: Blobs, prices: Prices) -> None:
        """`home` has the key that orders are signed with."""
        super().__init__(blobs, prices)
        self._machine, self._keys = machine, home / "keys"
        self._places: dict[AttemptLabel, tuple[int, int]] = {}  # the number of an event, and the byte behind it
        self._swept: dict[AttemptLabel, float] = {}

    async def submit(self, order: LaunchOrder) -> None:
        """Start a supervisor, unless the fence knows the attempt. Raises `Unavailable`."""
        key = await asyncio.to_thread(load_or_create, self._keys)
        await self._machine.act("launch", sign(order, key), Done)

    async def cancel(self, order: StopOrder, *, host: str) -> None:
        """Leave a stop order in the run's folder, and wake its supervisor. Raises `Unavailable`."""
        del host  # there is one
        key = await asyncio.to_thread(load_or_create, self._keys)
        await self._machine.act("cancel", sign(order, key), Done)

    async def status(self, label: AttemptLabel) -> AttemptStatus | None:
        """What the run's folder says of an attempt."""
        return await asyncio.to_thread(status_of, self._folder(label), label.attempt)

    async def logs(self, label: AttemptLabel, after: int = 0) -> LogPart:
        """What the run's programs printed behind byte `after`."""
        return await asyncio.to_thread(log_of, self._folder(label), after)

    async def events(self, label: AttemptLabel, after: int) -> Sequence[WorkerEvent]:
        """The events behind number `after`. Where a supervisor died without an end, that is written first."""
        found = await asyncio.to_thread(self._read, label, after)
        if not found and await self._died(label):
            self._swept[label] = time.monotonic()
            await self._machine.act("sweep", label, Done)
            found = await asyncio.to_thread(self._read, label, after)
        return found

    async def _died(self, label: AttemptLabel) -> bool:
        """Whether nobody supervises an attempt that was begun; asked while its end was not read."""
        if time.monotonic() - self._swept.get(label, float("-inf")) < _SWEEP_S:
            return False
        folder = self._folder(label)
        begun = read_fence(folder) == label.attempt and folder.spool.exists()  # else its lock has to stay free
        return begun and not await asyncio.to_thread(is_alive, folder)

    def _folder(self, label: AttemptLabel) -> RunFolder:
        return self._machine.folder.run(label.run)

    def _read(self, label: AttemptLabel, after: int) -> Sequence[WorkerEvent]:
        """Whole lines only, and of this attempt only: a training may have written where no sandbox is."""
        folder = self._folder(label)
        path = folder.spool if read_fence(folder) <= label.attempt else folder.old(folder.spool, label.attempt)
        seq, place = self._places.get(label, (0, 0))
        if seq > after:
            seq, place = 0, 0
        found: list[WorkerEvent] = []
        with contextlib.suppress(OSError), open_plain(path) as file:
            file.seek(place)
            while len(found) < _MOST and (line := file.readline(_LINE_BYTES)).endswith(b"\n"):
                event = event_of(line, host=label.host)
                if event is None or (event.run, event.attempt, event.seq) != (label.run, label.attempt, seq + 1):
                    log.warning("spool broken", extra={"run": label.run, "behind": seq})
                    break
                seq, place = event.seq, place + len(line)
                if seq > after:
                    found.append(event)
        self._places[label] = (seq, place)
        return found
