"""Our GPU hosts over Celery, as an engine, their directory and a data service: sends orders, waits for short answers.

Owns signing and waiting for answers. Knows no database and no training code. A launch is a hint: the host finds the
attempt by its fence before it starts one, so a repetition is harmless. Built by `worker.engines.hosts.parts`.
Tasks are sent by `publisher`; answers are read with an asyncio client of its own.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import redis

from agent.domain.datasets import DataReport
from agent.domain.errors import Unavailable
from agent.domain.orders import (
    AttemptLabel,
    AttemptStatus,
    Fetched,
    FetchOrder,
    HostInfo,
    InspectOrder,
    LaunchOrder,
    LogPart,
    Looked,
    LookOrder,
    Predictions,
    PredictOrder,
    StopOrder,
)
from agent.domain.prices import Prices
from agent.domain.runs import DEFAULT_ENGINE
from agent.domain.sources import PathSource
from agent.domain.value import Value
from agent.ports import Blobs, Capabilities
from agent.wire import decode, encode
from worker.client.answers import failed, opened
from worker.client.connect import connect_async
from worker.client.keys import Order, load_or_create, sign
from worker.client.redis_url import PREFIX, shown
from worker.engines.hosts.publisher import EXPIRES_S, Publisher
from worker.engines.own import OwnMachines

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HOST_KEY, SEEN_KEY = f"{PREFIX}host:", f"{PREFIX}seen:"
_POLL_S = (0.02, 0.25)
_FETCH_S = 630.0  # a download, and making one file of it
_LOOK_S = 5.0  # a host's word about an attempt

V = TypeVar("V", bound=Value)


class CeleryFleet(OwnMachines):
    """Our GPU hosts, reached through Redis."""

    name = DEFAULT_ENGINE
    capabilities = Capabilities()

    def __init__(  # noqa: PLR0913 - what the settings say of the fleet
        self,
        redis_url: str,
        keys: Path,
        blobs: Blobs,
        *,
        no_host_s: float = 5.0,
        inspect_s: float = 75.0,
        predict_s: float = 150.0,
        own_worker_s: float = 0.0,
        prices: Prices | None = None,
    ) -> None:
        """`keys` is the folder of the launch key, made at the first launch; `blobs` has what attempts left.

        The limits are seconds to wait for an answer, `no_host_s` for the first sign of any host; `own_worker_s` is how
        long from now the worker that this bot has started may take until it is one.
        """
        super().__init__(blobs, prices or Prices())
        self._own_until = time.monotonic() + own_worker_s
        self._url = redis_url
        self._keys = keys
        self._key: Ed25519PrivateKey | None = None
        self._no_host_s, self._inspect_s, self._predict_s = no_host_s, inspect_s, predict_s
        self._publisher = Publisher(redis_url)
        self._redis = connect_async(redis_url)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
        await self._publisher.close()

    async def submit(self, order: LaunchOrder) -> None:
        """Sign and send a hint to start an attempt; harmless when repeated. Raises `Unavailable`."""
        await self._publish("trainyard.launch", await self._signed(order), host=order.host)

    async def cancel(self, order: StopOrder, *, host: str) -> None:
        """Sign and send a hint to end an attempt; harmless when repeated. Raises `Unavailable`."""
        await self._publish("trainyard.stop", await self._signed(order), host=host)

    async def status(self, label: AttemptLabel) -> AttemptStatus | None:
        """What the attempt's host knows of it. Raises `Unavailable`."""
        return (await self._look(label)).status

    async def logs(self, label: AttemptLabel, after: int = 0) -> LogPart:
        """What the run's programs printed on its host behind byte `after`. Raises `Unavailable`."""
        return (await self._look(label, after)).log

    async def _look(self, label: AttemptLabel, log_after: int = 0) -> Looked:
        order = LookOrder(label=label, log_after=log_after)
        return await self._ask("trainyard.look", order, Looked, limit_s=_LOOK_S, host=label.host)

    async def hosts(self) -> Sequence[HostInfo]:
        """Hosts whose last word is under 60 s old, by name. Raises `Unavailable`."""
        return await self._words(HOST_KEY)

    async def _words(self, prefix: str) -> Sequence[HostInfo]:
        try:
            keys = [key async for key in self._redis.scan_iter(match=f"{prefix}*", count=1000)]
            words: Any = await self._redis.mget(keys) if keys else []
        except (redis.RedisError, OSError) as error:
            raise self._unreachable() from error
        found = (decode(HostInfo, word, extra="ignore") for word in words if word)
        return sorted(found, key=lambda info: info.host)

    async def gone(self) -> Sequence[HostInfo]:
        """The last word of hosts that were there within a day and are not now, by name. Raises `Unavailable`."""
        here = {info.host for info in await self.hosts()}
        return [info for info in await self._words(SEEN_KEY) if info.host not in here]

    @property
    def starting(self) -> bool:
        """Whether a worker that was started with the bot may still come."""
        return time.monotonic() < self._own_until

    def nobody(self) -> str:
        """Why no host is there, and what to do."""
        if self.starting:
            return "The worker of this machine is still starting. Try again in a moment."
        return "No GPU host is connected, so nothing can be trained. Start one with `trainyard worker`."

    async def inspect(self, order: InspectOrder) -> DataReport:
        """Audit a data file on any host. Raises `BadData`, `Unavailable`."""
        await self._wait_for_a_host()
        return await self._ask("trainyard.inspect", order, DataReport, limit_s=self._inspect_s)

    async def predict(self, order: PredictOrder) -> Predictions:
        """Predict on the host that keeps the model up, else on any. Raises `BadData`, `Unavailable`."""
        await self._wait_for_a_host()
        return await self._ask("trainyard.predict", order, Predictions, limit_s=self._predict_s, host=order.host)

    async def fetch_data(self, order: FetchOrder) -> Fetched:
        """Fetch data on any host, or on the one whose disk is meant. Raises as the host says, and `Unavailable`."""
        await self._wait_for_a_host()
        host = order.source.host if isinstance(order.source, PathSource) else ""
        if host and host not in {info.host for info in await self.hosts()}:
            raise Unavailable(f"There is no host `{host}` now. `cluster info` lists them.")
        return await self._ask("trainyard.fetch", order, Fetched, limit_s=_FETCH_S, host=host)

    async def _signed(self, order: Order) -> Order:
        if self._key is None:
            self._key = await asyncio.to_thread(load_or_create, self._keys)
        return sign(order, self._key)

    async def _ask(self, task: str, order: Order, answer: type[V], *, limit_s: float, host: str = "") -> V:
        key = await self._publish(task, await self._signed(order), host=host, answered=True, expires_s=limit_s)
        return opened(await self._wait(key, limit_s), answer)

    async def _wait_for_a_host(self) -> None:
        """Fail soon when nobody is there, instead of waiting for the whole limit; one of our own is waited for."""
        end = max(time.monotonic() + self._no_host_s, self._own_until)
        while not await self.hosts():
            if time.monotonic() >= end:
                raise _nobody(self._no_host_s)
            await asyncio.sleep(_POLL_S[1])

    async def _publish(
        self, task: str, order: Value, *, host: str, answered: bool = False, expires_s: float = EXPIRES_S
    ) -> str:
        body = encode(order).decode()
        try:
            return await self._publisher.send(task, body, host=host, answered=answered, expires_s=expires_s)
        except (redis.RedisError, OSError, TimeoutError) as error:
            raise self._unreachable() from error

    async def _wait(self, key: str, limit_s: float) -> dict[str, Any]:
        end = time.monotonic() + limit_s
        pause_s = _POLL_S[0]
        while time.monotonic() < end:
            try:
                stored: Any = await self._redis.get(key)
            except (redis.RedisError, OSError) as error:
                raise self._unreachable() from error
            if stored is not None:
                return _reply(json.loads(stored))
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_S[1], pause_s * 1.3)
        raise _nobody(limit_s)

    def _unreachable(self) -> Unavailable:
        return Unavailable(f"Redis at {shown(self._url)} does not answer. Start it, then try again.")


def _reply(stored: dict[str, Any]) -> dict[str, Any]:
    result = stored.get("result")
    if stored.get("status") == "SUCCESS" and isinstance(result, dict):
        return result
    return failed("Unavailable", "The GPU host could not finish this in time. Try a smaller file.")


def _nobody(limit_s: float) -> Unavailable:
    return Unavailable(f"No GPU host answered within {limit_s:g} s. Start one with `trainyard worker`.")
