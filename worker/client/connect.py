"""Opens Redis clients that end a call within seconds, whatever Redis or the network does.

Owns the socket settings of every client of ours; Celery's own stand in `worker.client.queue`. Knows no key. Used by bot
and hosts. A command on a dead connection waits for ever by default; here it ends after `SOCKET_S`, and the caller owns
the next try. A connection that Redis closed (it restarted) is opened once more at once, a timeout is never repeated.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.client.redis_url import for_client, is_socket

SOCKET_S = 5.0
CONNECT_S = 3.0
_HEALTH_S = 5
_AT_ONCE_S = 1.0

T = TypeVar("T")


def connect(redis_url: str, *, socket_s: float = SOCKET_S) -> "redis.Redis":
    """A blocking client. Opens nothing before the first command; `socket_s` is how long one answer may take."""
    retry = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
    return redis.Redis.from_url(for_client(redis_url), retry=retry, **_options(redis_url, socket_s))


def connect_async(redis_url: str) -> "redis.asyncio.Redis":
    """A client for the event loop."""
    retry = _AtOnce(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
    return redis.asyncio.Redis.from_url(for_client(redis_url), retry=retry, **_options(redis_url, SOCKET_S))


class _AtOnce(AsyncRetry):
    """Repeats what failed at once, never what took its time: the greeting of a new connection times out under the same
    name as a connection that was closed."""

    async def call_with_retry(
        self, do: Callable[[], Awaitable[T]], fail: Callable[..., Awaitable[Any]], *args: Any, **more: Any
    ) -> T:
        """As the parent does."""
        began = time.monotonic()

        async def give_up_when_late(error: Exception, *count: int) -> None:
            await fail(error, *count)
            if time.monotonic() - began > _AT_ONCE_S:
                raise error

        return await super().call_with_retry(do, give_up_when_late, *args, **more)


def _options(redis_url: str, socket_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": socket_s,
        "socket_connect_timeout": CONNECT_S,
        "health_check_interval": _HEALTH_S,
    }
    if not is_socket(redis_url):  # a unix socket has none
        options["socket_keepalive"] = True
    return options
