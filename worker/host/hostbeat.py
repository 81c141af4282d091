"""Says every few seconds that this host is there, and what it has.

Owns the key `trainyard:host:<host>`. Knows no runs. A thread in the worker's main process, started by `worker.app`.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil
import redis

from agent.domain.orders import GpuInfo, HostInfo, Limits
from agent.domain.runs import Network
from agent.wire import encode
from worker.client.connect import connect
from worker.host.gpus import GpuWatch, Look, look
from worker.host.processes import boot_id

TTL_S = 60
SEEN_S = 24 * 3600  # for how long a host that is gone is still named
GPUS_EVERY_S, NO_GPUS_EVERY_S = 20.0, 300.0  # a look takes a new process; a host without GPUs rarely gets one
_FIRST_LOOK_S = 8.0  # the driver's limit and a little: so that the first word is not of a host without GPUs

log = logging.getLogger(__name__)


class HostBeat:
    """One host's word about itself."""

    def __init__(  # noqa: PLR0913 - one argument for each thing that a host says
        self,
        host: str,
        *,
        home: Path,
        redis_url: str,
        tier: str,
        slots: int = 2,
        networks: Sequence[Network] = ("none", "open"),
        disk_low: Callable[[], bool] = lambda: False,
        consuming: Callable[[], bool] = lambda: True,
        warm: Callable[[], Sequence[str]] = tuple,
        alert: Callable[[], str] = str,
        secrets: Callable[[], Sequence[str]] = tuple,
        limits: Callable[[int, int], Limits] = lambda _gpus, _of_gpus: Limits(),
        ask_gpus: Callable[[], Look] = look,
    ) -> None:
        """`tier` is the sandbox that passed its self-test, `networks` what it can enforce.

        The rest is asked with each beat: whether the disk is low, whether the pool takes orders, which sets of
        libraries stand ready, what people must hear of, the names of its secrets, what a run may take that has so
        many of so many GPUs, what the driver says.
        """
        self._host, self._home, self._tier = host, home, tier
        self._slots, self._networks = slots, tuple(networks)
        self._disk_low, self._consuming, self._warm, self._alert = disk_low, consuming, warm, alert
        self._secrets, self._limits = secrets, limits
        self._ask_gpus = ask_gpus
        self._client = connect(redis_url)
        self._watch = GpuWatch()
        self._gpus: tuple[GpuInfo, ...] = ()
        self._gpus_due = float("-inf")
        self._looked = threading.Event()
        self._looking = False
        self._away = False

    def beat(self) -> None:
        """Renew the key; a Redis that is away is logged once."""
        self.look()
        try:
            word = encode(self.info())
            self._client.set(f"trainyard:host:{self._host}", word, ex=TTL_S)
            self._client.set(f"trainyard:seen:{self._host}", word, ex=SEEN_S)
            self._away = False
        except (redis.RedisError, OSError) as error:
            if not self._away:
                log.warning("host_beat_failed why=%s", error)
            self._away = True

    def look(self) -> None:
        """Ask for the GPUs, if that is due. A driver that hangs delays the first look only."""
        first = not self._looked.is_set()
        if not self._looking and time.monotonic() > self._gpus_due:
            self._looking = True
            threading.Thread(target=self._look, name="gpus", daemon=True).start()
        if first:
            self._looked.wait(_FIRST_LOOK_S)

    def info(self) -> HostInfo:
        """What this host has now. Raises `OSError` when the disk of its home cannot be asked."""
        return HostInfo(
            host=self._host,
            cpus=os.cpu_count() or 1,
            memory_bytes=psutil.virtual_memory().total,
            disk_free_bytes=shutil.disk_usage(self._home).free,
            gpus=self._gpus,
            sandbox=self._tier,
            networks=self._networks,
            slots=self._slots,
            boot_id=boot_id(),
            warm=tuple(self._warm()),
            consuming=self._consuming(),
            disk_low=self._disk_low(),
            alert=self._alert(),
            secrets=tuple(self._secrets()),
            limits=tuple(self._limits(number, len(self._gpus)) for number in range(len(self._gpus) + 1)),
            at=datetime.now(UTC),
        )

    def _look(self) -> None:
        every_s = GPUS_EVERY_S
        try:
            seen = self._ask_gpus()
            found = self._watch.judge(seen)
            if seen.answered and not found:
                every_s = NO_GPUS_EVERY_S
            for gpu in found:
                self._tell(gpu)
            self._gpus = found
        except Exception:
            log.exception("gpus_not_read")
        finally:
            self._gpus_due = time.monotonic() + every_s
            self._looking = False
            self._looked.set()

    def _tell(self, gpu: GpuInfo) -> None:
        """Log what became of a GPU, once."""
        before = next((old.sick for old in self._gpus if old.uuid == gpu.uuid), "")
        if gpu.sick and gpu.sick != before:
            log.warning("gpu_sick index=%d uuid=%s why=%s", gpu.index, gpu.uuid, gpu.sick)
        elif before and not gpu.sick:
            log.info("gpu_well index=%d uuid=%s", gpu.index, gpu.uuid)
