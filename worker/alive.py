"""`python -m worker.alive`: exit 0 when this host's word about itself in Redis is fresh, else 1 and a sentence.

The health check of the container. Owns nothing; reads the key that `worker.host.hostbeat` renews. Does not notice a
worker that beats and takes no orders.
"""

import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import redis

from agent.domain.orders import HostInfo
from agent.wire import Malformed, decode
from worker.client.connect import connect
from worker.client.redis_url import shown
from worker.settings import Settings

MISSED_BEATS = 3  # the key itself outlives the worker by a minute


def main() -> None:
    """Never returns."""
    settings = Settings()
    limit_s = MISSED_BEATS * settings.host_beat_s
    sys.exit(_why_not(settings.host_id, settings.redis_url, limit_s=limit_s) or 0)


def _why_not(host: str, redis_url: str, *, limit_s: float) -> str:
    """Empty when all is well."""
    with closing(connect(redis_url)) as client:
        try:
            word: Any = client.get(f"trainyard:host:{host}")
        except (redis.RedisError, OSError) as error:
            return f"Redis at {shown(redis_url)} does not answer ({type(error).__name__})."
    if word is None:
        return f"Host {host} has not been heard of in Redis at {shown(redis_url)}."
    try:
        age_s = (datetime.now(UTC) - decode(HostInfo, word).at).total_seconds()
    except Malformed:
        return f"What host {host} says about itself is of another version."
    return f"Host {host} was last heard of {age_s:.0f} s ago." if age_s > limit_s else ""


if __name__ == "__main__":
    main()
