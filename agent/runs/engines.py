"""The engines that this bot has, by name. The first is where a run goes when nobody said otherwise.

Beside that it is the directory of all their hosts, and the first one's data service. Built by the composition root;
used by the run service (to start, ask and end attempts) and by the tools that plan runs.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from agent.domain.datasets import DataReport
from agent.domain.errors import BadRequest, TransientError
from agent.domain.orders import (
    AttemptLabel,
    AttemptStatus,
    Fetched,
    FetchOrder,
    HostInfo,
    InspectOrder,
    LaunchOrder,
    LogPart,
    Predictions,
    PredictOrder,
    StopOrder,
)
from agent.domain.runs import RunSpec
from agent.ports import EngineParts


class Engines:
    """Engines by name."""

    def __init__(self, first: EngineParts, *others: EngineParts) -> None:
        """`first` is the usual one."""
        self.first = first
        self._parts = {parts.engine.name: parts for parts in (first, *others)}

    def named(self, name: str | None) -> EngineParts:
        """The engine of this name; the usual one for None. Raises `BadRequest`, which names those there are."""
        if name is None:
            return self.first
        if name not in self._parts:
            raise BadRequest(f"There is no engine `{name}` here. Engines: {', '.join(self._parts)}.")
        return self._parts[name]

    async def submit(self, order: LaunchOrder) -> None:
        """Start an attempt on its run's engine. Raises `BadRequest`, `Unavailable`."""
        await self.named(order.spec.engine).engine.submit(order)

    async def status(self, spec: RunSpec, label: AttemptLabel) -> AttemptStatus | None:
        """What an attempt's engine knows of it. Raises `BadRequest`, `Unavailable`."""
        return await self.named(spec.engine).engine.status(label)

    async def logs(self, spec: RunSpec, label: AttemptLabel, after: int) -> LogPart:
        """What the programs of an attempt's run printed behind a byte. Raises `BadRequest`, `Unavailable`."""
        return await self.named(spec.engine).engine.logs(label, after)

    async def cancel(self, spec: RunSpec, order: StopOrder, *, host: str) -> None:
        """Ask an attempt to end. Raises `BadRequest`, `Unavailable`."""
        await self.named(spec.engine).engine.cancel(order, host=host)

    async def hosts(self) -> Sequence[HostInfo]:
        """The hosts of all engines that answer. Raises `Unavailable` when none does."""
        return await _of_all(parts.hosts.hosts() for parts in self._parts.values())

    async def gone(self) -> Sequence[HostInfo]:
        """The hosts that were there within a day and are not now. Raises `Unavailable` when no engine answers."""
        return await _of_all(parts.hosts.gone() for parts in self._parts.values())

    @property
    def starting(self) -> bool:
        """Whether a host may still come."""
        return any(parts.hosts.starting for parts in self._parts.values())

    def nobody(self) -> str:
        """Why there is no host, in the words of the usual engine."""
        return self.first.hosts.nobody()

    async def inspect(self, order: InspectOrder) -> DataReport:
        """Audit a data file. Raises `BadData`, `Unavailable`."""
        return await self.first.data.inspect(order)

    async def fetch_data(self, order: FetchOrder) -> Fetched:
        """Store data that an address names. Raises `BadData`, `NotAllowed`, `NotFound`, `Unavailable`."""
        return await self.first.data.fetch_data(order)

    async def predict(self, order: PredictOrder) -> Predictions:
        """Predict with a finished model. Raises `BadData`, `Unavailable`."""
        return await self.first.data.predict(order)


async def _of_all(asked: Iterable[Coroutine[Any, Any, Sequence[HostInfo]]]) -> Sequence[HostInfo]:
    """The answers of all engines that answer; an engine that does not answer is left out."""
    found: list[HostInfo] = []
    away: list[TransientError] = []
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, TransientError):
            away.append(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found += answer
    if away and len(away) == len(answers):
        raise away[0]
    return found
