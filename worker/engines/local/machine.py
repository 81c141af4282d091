"""This machine as a host: what it has, and the short processes that act on it.

Each order is carried out by `python -m worker.engines.local.act`, so that no training code is loaded by the bot. Knows
no attempts. Used by `worker.engines.local.engine`; it is the engine's host directory and data service.
"""

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from agent.domain.datasets import DataReport
from agent.domain.errors import AppError, Unavailable
from agent.domain.orders import Fetched, FetchOrder, HostInfo, InspectOrder, Predictions, PredictOrder
from agent.domain.value import Value
from agent.wire import encode
from worker.client.answers import opened
from worker.folders import HostFolder
from worker.host.disk import space

HOST = "local"
_ACT_S = 60.0  # for a launch, which may wait for an older attempt to end
_DESCRIBE_S = 60.0  # for the self-test of the sandbox
_INSPECT_S, _PREDICT_S, _FETCH_S = 75.0, 150.0, 630.0
_SAID_CHARS = 2000
_AGAIN_S = 30.0  # from a description that failed to the next one

V = TypeVar("V", bound=Value)
log = logging.getLogger(__name__)


class LocalMachine:
    """The one host of the engine `local`."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        """`environment` is a worker's; nothing is started before somebody asks."""
        self.folder = HostFolder.of(home, HOST)
        own = {"TRAINYARD_HOST_ID": HOST, "TRAINYARD_REPORT": "spool", "TRAINYARD_WARM": "off"}
        self._environment = {**environment, **own}
        self._info: HostInfo | None = None
        self._why = ""
        self._failed_at = float("-inf")
        self._describing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop looking; runs go on."""
        if self._describing is not None:
            self._describing.cancel()
            await asyncio.gather(self._describing, return_exceptions=True)

    async def hosts(self) -> Sequence[HostInfo]:
        """This machine, once its sandbox was tested."""
        if self._info is None:
            if not self.starting and time.monotonic() - self._failed_at > _AGAIN_S:
                self._describing = asyncio.create_task(self._describe())
            return ()
        free = await asyncio.to_thread(space, self.folder.path)
        return (self._info.model_copy(update={"disk_free_bytes": free.free, "at": datetime.now(UTC)}),)

    async def gone(self) -> Sequence[HostInfo]:
        """A machine is here while the bot is."""
        return ()

    @property
    def starting(self) -> bool:
        """Whether its sandbox is being tested."""
        return self._describing is not None and not self._describing.done()

    def nobody(self) -> str:
        """Why nothing can run here."""
        if self._why:
            return f"This machine cannot run anything: {self._why}"
        return "This machine is still being looked at. Try again in a moment."

    async def inspect(self, order: InspectOrder) -> DataReport:
        """Audit a data file. Raises `BadData`, `NotFound`, `Unavailable`."""
        return await self.act("inspect", order, DataReport, limit_s=_INSPECT_S)

    async def predict(self, order: PredictOrder) -> Predictions:
        """Predict with a finished model. Raises `BadData`, `NotFound`, `Unavailable`."""
        return await self.act("predict", order, Predictions, limit_s=_PREDICT_S)

    async def fetch_data(self, order: FetchOrder) -> Fetched:
        """Fetch data. Raises `BadData`, `NotAllowed`, `NotFound`, `Unavailable`."""
        return await self.act("fetch", order, Fetched, limit_s=_FETCH_S)

    async def act(self, what: str, order: Value | None, answer: type[V], *, limit_s: float = _ACT_S) -> V:
        """Carry out an order in a process of its own. Raises `Unavailable`, and what the order's answer says."""
        environment = self._environment
        if self._info is not None:
            environment = {**environment, "TRAINYARD_TIER": self._info.sandbox}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", "worker.engines.local.act", what),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            async with asyncio.timeout(limit_s):
                said, complaint = await process.communicate(encode(order) if order else b"")
        except TimeoutError:
            raise Unavailable(f"This machine did not {what} within {limit_s:g} s. Try again.") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        log.debug("acted", extra={"what": what, "said": complaint.decode(errors="replace")[-_SAID_CHARS:]})
        try:
            return opened(json.loads(said), answer)
        except ValueError:
            raise Unavailable(f"This machine could not {what}: its process ended with {process.returncode}.") from None

    async def _describe(self) -> None:
        try:
            self._info = await self.act("describe", None, HostInfo, limit_s=_DESCRIBE_S)
        except AppError as error:
            self._why, self._failed_at = error.text, time.monotonic()
            log.warning("this machine cannot run anything", extra={"cause": error.text})
