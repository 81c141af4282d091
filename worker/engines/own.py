"""What the engines of our own machines have in common: their price, and what an attempt left in the store of files."""

import asyncio
import shutil
from abc import ABC, abstractmethod
from decimal import Decimal
from pathlib import Path

from agent.domain.errors import NotFound
from agent.domain.orders import AttemptLabel, AttemptStatus
from agent.domain.prices import Prices
from agent.domain.runs import RunSpec
from agent.ports import Blobs


class OwnMachines(ABC):
    """The part of an engine that is the same for hosts and for this machine."""

    def __init__(self, blobs: Blobs, prices: Prices) -> None:
        """`blobs` has what attempts left, `prices` are those of the settings."""
        self._blobs = blobs
        self._prices = prices

    @abstractmethod
    async def status(self, label: AttemptLabel) -> AttemptStatus | None:
        """What is known of an attempt. Raises `Unavailable`."""

    def price(self, spec: RunSpec) -> Decimal | None:
        """What the settings say of an hour; None where they say nothing, as nobody is charged."""
        return self._prices.hourly(gpus=spec.gpus, host=spec.host)

    async def fetch(self, label: AttemptLabel, into: Path) -> Path:
        """Copy what an attempt left into a folder, as one tar; its path. Raises `NotFound`, `Unavailable`."""
        status = await self.status(label)
        artifact = status.outcome.artifact if status and status.outcome else None
        if artifact is None:
            raise NotFound(f"Attempt {label.attempt} of run `{label.run}` left no files.")
        path = into / f"{label.run}.tar"
        await asyncio.to_thread(shutil.copyfile, await self._blobs.get(artifact.sha256), path)
        return path
