"""Puts the engine `hosts` together. Found by `worker.engines`."""

from agent.ports import EngineParts
from worker.client.feed import RedisFeed
from worker.engines import Given
from worker.engines.hosts.fleet import CeleryFleet

NEEDS_REDIS = True


def parts(given: Given) -> EngineParts:
    """The fleet is the engine, the directory and the data service."""
    fleet = CeleryFleet(
        given.redis_url, given.home / "keys", given.blobs, own_worker_s=given.own_worker_s, prices=given.prices
    )
    feed = RedisFeed(given.redis_url)

    async def close() -> None:
        await fleet.close()
        await feed.close()

    return EngineParts(fleet, fleet, fleet, feed, close)
