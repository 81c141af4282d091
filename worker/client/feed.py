"""`agent.ports.EventFeed` over Redis streams: what hosts report, at least once and in order for each run.

Owns the consumer group `bot` and the hash of acknowledged numbers. Knows no database. Built by the bot's composition
root; one reader at a time. While Redis is away `read` returns nothing and `ack` keeps what it was told.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import redis

from agent.domain.events import WorkerEvent
from agent.wire import event_of
from worker.client.connect import connect_async
from worker.client.redis_url import PREFIX

_STREAMS = f"{PREFIX}ev:"
_ACKED = f"{PREFIX}acked"
_GROUP = "bot"
_COUNT = 200
_BLOCK_MS = 1000
_AWAY_S = 0.5  # until Redis is tried again
_DISCOVER_S = 1.0
# Up to the first gap only: a host sends again what lies behind it (`worker.reporting.delivery`).
_RAISE_WITHOUT_GAPS = """
local first = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local seq = first
for i = 2, #ARGV do
  local next = tonumber(ARGV[i])
  if next == seq + 1 then seq = next elseif next > seq then break end
end
if seq > first then redis.call('HSET', KEYS[1], ARGV[1], seq) end
"""

log = logging.getLogger(__name__)


class RedisFeed:
    """The event streams of all hosts."""

    def __init__(self, redis_url: str, *, consumer: str = "bot") -> None:
        """Nothing is opened before the first `read`."""
        self._redis = connect_async(redis_url)
        self._consumer = consumer
        self._streams: dict[str, str] = {}  # stream -> id to read from: ">" for new ones, else where pending ones begin
        self._discovered_at = float("-inf")
        self._out: dict[str, tuple[str, int]] = {}  # handed out and not yet acknowledged: id -> (run:attempt, seq)
        self._to_ack: set[str] = set()
        self._away = False

    @property
    def away(self) -> bool:
        """Whether the last read found no Redis: until it is back, nothing is known of any host."""
        return self._away

    async def close(self) -> None:
        """Close the connection."""
        await self._redis.aclose()

    async def read(self) -> Sequence[tuple[str, WorkerEvent]]:
        """The next events with their acknowledgement ids; waits up to a second, may be empty."""
        try:
            await self._discover()
            await self._flush_acks()
            events = await self._read_pending() or await self._read_new()
        except (redis.RedisError, OSError) as error:
            await self._lost(error)
            return ()
        if self._away:
            log.info("redis_back")
            self._away = False
        return events

    async def ack(self, ids: Sequence[str]) -> None:
        """The events are in the database. Never fails: what Redis cannot be told now is told at the next `read`."""
        self._to_ack.update(ids)
        try:
            await self._flush_acks()
        except (redis.RedisError, OSError) as error:
            log.warning("ack_later count=%d why=%s", len(self._to_ack), error)

    async def _discover(self) -> None:
        if time.monotonic() - self._discovered_at < _DISCOVER_S:
            return
        async for key in self._redis.scan_iter(match=f"{_STREAMS}*", count=1000):
            name = key.decode()
            if name not in self._streams:
                await self._make_group(name)
                self._streams[name] = "0"  # what an earlier bot process was given and did not acknowledge comes first
        self._discovered_at = time.monotonic()

    async def _make_group(self, stream: str) -> None:
        try:
            await self._redis.xgroup_create(stream, _GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def _read_pending(self) -> list[tuple[str, WorkerEvent]]:
        pending: dict[Any, Any] = {name: start for name, start in self._streams.items() if start != ">"}
        if not pending:
            return []
        answer: Any = await self._redis.xreadgroup(_GROUP, self._consumer, pending, count=_COUNT)
        found: list[tuple[str, WorkerEvent]] = []
        for stream, entries in _by_stream(answer):
            self._streams[stream] = entries[-1][0].decode() if entries else ">"
            found += self._decoded(stream, entries)
        for name in pending.keys() - {stream for stream, _ in _by_stream(answer)}:
            self._streams[name] = ">"
        return found

    async def _read_new(self) -> list[tuple[str, WorkerEvent]]:
        fresh: dict[Any, Any] = {name: start for name, start in self._streams.items() if start == ">"}
        if not fresh:
            await asyncio.sleep(_BLOCK_MS / 1000)
            return []
        answer: Any = await self._redis.xreadgroup(_GROUP, self._consumer, fresh, count=_COUNT, block=_BLOCK_MS)
        return [event for stream, entries in _by_stream(answer) for event in self._decoded(stream, entries)]

    def _decoded(self, stream: str, entries: list[Any]) -> list[tuple[str, WorkerEvent]]:
        found: list[tuple[str, WorkerEvent]] = []
        for entry_id, fields in entries:
            ack_id = f"{stream}|{entry_id.decode()}"
            if ack_id in self._out:
                continue
            at = datetime.fromtimestamp(int(entry_id.partition(b"-")[0]) / 1000, UTC)
            event = event_of((fields or {}).get(b"e", b""), host=stream.removeprefix(_STREAMS), at=at)
            if event is None:
                self._to_ack.add(ack_id)
                continue
            self._out[ack_id] = (f"{event.run}:{event.attempt}", event.seq)
            found.append((ack_id, event))
        return found

    async def _flush_acks(self) -> None:
        ids = sorted(self._to_ack)
        if not ids:
            return
        stored: dict[str, set[int]] = {}
        entries: dict[str, list[str]] = {}
        for ack_id in ids:
            stream, _, entry_id = ack_id.rpartition("|")
            entries.setdefault(stream, []).append(entry_id)
            if ack_id in self._out:
                attempt, seq = self._out[ack_id]
                stored.setdefault(attempt, set()).add(seq)
        pipeline = self._redis.pipeline(transaction=False)
        for stream, entry_ids in entries.items():
            pipeline.xack(stream, _GROUP, *entry_ids)
        for attempt, numbers in stored.items():
            pipeline.eval(_RAISE_WITHOUT_GAPS, 1, _ACKED, attempt, *sorted(numbers))
        await pipeline.execute()
        for ack_id in ids:
            self._out.pop(ack_id, None)
            self._to_ack.discard(ack_id)

    async def _lost(self, error: Exception) -> None:
        """Begin anew at the next read: groups may be gone, and an answer that got lost left its entries pending."""
        if not self._away:
            log.warning("redis_away why=%s", error)
        self._away = True
        self._streams.clear()
        self._discovered_at = float("-inf")
        await asyncio.sleep(_AWAY_S)


def _by_stream(answer: Any) -> list[tuple[str, list[Any]]]:
    """The answer of XREADGROUP, which is a list in RESP2 and a mapping in RESP3, as one shape."""
    if not answer:
        return []
    pairs = answer.items() if isinstance(answer, dict) else answer
    found: list[tuple[str, list[Any]]] = []
    for stream, entries in pairs:
        if isinstance(answer, dict) and len(entries) == 1 and isinstance(entries[0], list):
            entries = entries[0]
        found.append((stream.decode(), list(entries)))
    return found
