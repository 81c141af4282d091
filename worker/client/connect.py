"""Opens Redis clients that end a call within seconds, whatever Redis or the network does.

Owns the socket settings of every client of ours; Celery's own stand in `worker.client.queue`. Knows no key. Used by bot
and hosts. A command on a dead connection waits for ever by default; here it ends after `SOCKET_S`, and the caller owns
the next try. A connection that Redis closed (it restarted) is opened once more at once, a timeout is never repeated.
"""

from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.client.redis_url import for_client, is_socket

SOCKET_S = 5.0
CONNECT_S = 3.0
_HEALTH_S = 5


def connect(redis_url: str, *, socket_s: float = SOCKET_S) -> "redis.Redis":
    """A blocking client. Opens nothing before the first command; `socket_s` is how long one answer may take."""
    retry = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
    return redis.Redis.from_url(for_client(redis_url), retry=retry, **_options(redis_url, socket_s))


def connect_async(redis_url: str) -> "redis.asyncio.Redis":
    """A client for the event loop."""
    retry = AsyncRetry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
    return redis.asyncio.Redis.from_url(for_client(redis_url), retry=retry, **_options(redis_url, SOCKET_S))


def _options(redis_url: str, socket_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": socket_s,
        "socket_connect_timeout": CONNECT_S,
        "health_check_interval": _HEALTH_S,
    }
    if not is_socket(redis_url):  # a unix socket has none
        options["socket_keepalive"] = True
    return options
