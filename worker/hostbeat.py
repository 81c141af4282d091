"""Says every few seconds that this host is there, and what it has.

Owns the key `trainyard:host:<host>`. Knows no runs. A thread in the worker's main process, started by `worker.app`.
"""

import logging
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import redis

from agent.domain.orders import GpuInfo, HostInfo
from agent.wire import encode
from worker.gpus import gpus
from worker.processes import boot_id
from worker.sender import connect

TTL_S = 60
_GPUS_EVERY_S = 60.0

log = logging.getLogger(__name__)


class HostBeat:
    """One host's word about itself."""

    def __init__(self, host: str, *, home: Path, redis_url: str, tier: str) -> None:
        """`tier` is the sandbox that passed its self-test."""
        self._host, self._home, self._tier = host, home, tier
        self._client = connect(redis_url)
        self._gpus: tuple[GpuInfo, ...] = ()
        self._gpus_at = float("-inf")
        self._away = False

    def beat(self) -> None:
        """Renew the key; a Redis that is away is logged once."""
        if time.monotonic() - self._gpus_at > _GPUS_EVERY_S:
            self._gpus, self._gpus_at = gpus(), time.monotonic()
        try:
            self._client.set(f"trainyard:host:{self._host}", encode(self.info()), ex=TTL_S)
            self._away = False
        except (redis.RedisError, OSError) as error:
            if not self._away:
                log.warning("host_beat_failed why=%s", error)
            self._away = True

    def info(self) -> HostInfo:
        """What this host has now."""
        return HostInfo(
            host=self._host,
            cpus=os.cpu_count() or 1,
            memory_bytes=psutil.virtual_memory().total,
            disk_free_bytes=shutil.disk_usage(self._home).free,
            gpus=self._gpus,
            sandbox=self._tier,
            boot_id=boot_id(),
            at=datetime.now(UTC),
        )
