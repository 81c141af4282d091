"""The Redis that the bot starts for itself, where nobody names one."""

from bot.settings import Settings
from worker.client.redis_server import EmbeddedRedis
from worker.engines import need_redis


def wants_redis(settings: Settings) -> bool:
    """Whether anything needs a Redis. Raises `BadRequest` for an engine that there is not."""
    return settings.blobs == "redis" or need_redis(settings.engine_names)


def embedded_redis(settings: Settings) -> EmbeddedRedis | None:
    """A server that is not started yet; None where an address is set or nothing needs one. Raises `BadRequest`."""
    return EmbeddedRedis(settings.home) if not settings.redis_url and wants_redis(settings) else None
