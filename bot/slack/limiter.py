"""Keeps our calls under Slack's rates: a bucket of tokens for every (method, channel).

A bucket is closed for as long as Slack asks to wait. Knows nothing about priorities: who calls first goes first. One
event loop, one process.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` calls at once, then `per_minute`; `by_channel` if every channel has its own bucket."""

    per_minute: float
    burst: int
    by_channel: bool = False


# Source: docs.slack.dev/apis/web-api/rate-limits (November 2026); a little below each tier, since it is shared.
RATES: Mapping[str, Rate] = {
    "chat.postMessage": Rate(60, 4, by_channel=True),
    "chat.postEphemeral": Rate(100, 10),
    "chat.update": Rate(45, 6),
    "chat.delete": Rate(45, 6),
    "chat.startStream": Rate(20, 6),
    "chat.appendStream": Rate(95, 6),
    "chat.stopStream": Rate(20, 6),
    "reactions.add": Rate(45, 6),
    "reactions.remove": Rate(20, 6),
    "conversations.replies": Rate(45, 6),
    "files.getUploadURLExternal": Rate(95, 6),
    "files.completeUploadExternal": Rate(95, 6),
    "files.info": Rate(95, 12),
    "users.info": Rate(95, 12),
}
DEFAULT_RATE = Rate(45, 6)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float
    not_before_s: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Limiter:
    """Asked before every call. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float], *, rates: Mapping[str, Rate] = RATES) -> None:
        self._now = now
        self._rates = rates
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    async def wait(self, method: str, channel: str = "") -> None:
        """Return when the call may be made; calls of one bucket go in order."""
        bucket = self._bucket(method, channel)
        async with bucket.turn:
            while (delay_s := self.delay_s(method, channel)) > 0:  # noqa: ASYNC110 - only time refills a bucket
                await asyncio.sleep(delay_s)
            bucket.tokens -= 1

    def delay_s(self, method: str, channel: str = "") -> float:
        """How long a call made now would have to wait."""
        bucket, rate = self._bucket(method, channel), self._rate(method)
        now_s = self._now()
        bucket.tokens = min(float(rate.burst), bucket.tokens + (now_s - bucket.at_s) * rate.per_minute / 60)
        bucket.at_s = now_s
        refill_s = max(0.0, (1 - bucket.tokens) * 60 / rate.per_minute)
        return max(refill_s, bucket.not_before_s - now_s)

    def hold(self, method: str, channel: str, seconds: float) -> None:
        """Slack asked us to wait: nobody uses this bucket before `seconds` have passed."""
        bucket = self._bucket(method, channel)
        bucket.not_before_s = max(bucket.not_before_s, self._now() + seconds)

    def _rate(self, method: str) -> Rate:
        return self._rates.get(method, DEFAULT_RATE)

    def _bucket(self, method: str, channel: str) -> _Bucket:
        rate = self._rate(method)
        key = (method, channel if rate.by_channel else "")
        if key not in self._buckets:
            self._buckets[key] = _Bucket(tokens=float(rate.burst), at_s=self._now())
        return self._buckets[key]
