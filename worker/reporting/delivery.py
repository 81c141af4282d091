"""Whether events that Redis took will ever reach the bot: an evicted or trimmed stream loses them without a word.

Owns one question to Redis. Knows no spool. Asked now and then by `worker.reporting.sender`, and by the sweep for
attempts that are over. The bot acknowledges by number, without gaps, so a reader that is past our last entry while the
acknowledgement is behind our last number has never seen something; it must be sent again.
"""

from typing import Any

import redis

ACKED_KEY = "trainyard:acked"
STREAM_PREFIX = "trainyard:ev:"
GROUP = "bot"


def acked_seq(client: "redis.Redis", run: str, attempt: int) -> int:
    """The number up to which the bot has stored every event of the attempt."""
    value: Any = client.hget(ACKED_KEY, f"{run}:{attempt}")
    return int(value) if value else 0


def is_lost(client: "redis.Redis", stream: str, run: str, attempt: int, *, seq: int, entry: str) -> bool:
    """Whether something up to `seq`, which was put into the stream as `entry`, is there no more and was not stored.

    False while it may still be read. Raises `redis.RedisError` while Redis is away.
    """
    if not entry:
        return False
    pipeline = client.pipeline(transaction=False)
    pipeline.xinfo_stream(stream)
    pipeline.xinfo_groups(stream)
    pipeline.xpending(stream, GROUP)
    pipeline.hget(ACKED_KEY, f"{run}:{attempt}")  # the last question: what is acknowledged meanwhile is not lost
    about, groups, pending, acked = pipeline.execute(raise_on_error=False)
    for answer in (about, groups, pending, acked):
        if isinstance(answer, redis.RedisError) and not isinstance(answer, redis.ResponseError):
            raise answer
    if isinstance(acked, redis.ResponseError) or int(acked or 0) >= seq:
        return False
    if isinstance(about, redis.ResponseError):
        return "no such key" in str(about).lower()
    if _order(about["last-generated-id"]) < _order(entry):
        return True  # another stream by the same name, younger and still without entries
    read = next((group["last-delivered-id"] for group in _listed(groups) if _text(group["name"]) == GROUP), None)
    if read is None or isinstance(pending, redis.ResponseError) or _order(read) < _order(entry):
        return False
    return not pending["pending"] or _order(pending["min"]) > _order(entry)


def _listed(groups: Any) -> list[dict[str, Any]]:
    return [] if isinstance(groups, redis.ResponseError) else list(groups)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _order(entry: Any) -> tuple[int, int]:
    """An entry's id, comparable."""
    at, _, number = _text(entry).partition("-")
    return int(at), int(number or 0)
