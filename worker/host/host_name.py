"""One worker for a host's name: two would take each other's orders.

A lock on the host's folder keeps a second worker of this machine out; a key in Redis, renewed while the worker lives,
one of another machine. Used by `worker.app`.
"""

import fcntl
import logging
import os
import socket
import time
from pathlib import Path

import redis

from agent.domain.errors import Conflict
from worker.client.connect import connect
from worker.host.processes import boot_id

TTL_S = 60  # after which the name of a worker that was killed is free for another machine
_LOCK_S = 10.0  # pool processes of a worker that was killed end within this

log = logging.getLogger(__name__)


class HostName:
    """The name of this host while its worker lives."""

    def __init__(self, host: str, folder: Path, redis_url: str) -> None:
        """`folder` is the host's own; it is made."""
        folder.mkdir(parents=True, exist_ok=True)
        found = folder.stat()
        self._host, self._folder = host, folder
        self._key = f"trainyard:host-owner:{host}"
        self._machine = f"{boot_id()}:{found.st_dev}:{found.st_ino}"
        self._value = f"{self._machine} {socket.gethostname()}"
        self._client = connect(redis_url)
        self._lock = os.open(folder / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> None:
        """Take the name, also from an earlier worker of this folder.

        Raises:
            Conflict: another worker has it.
        """
        if not self._locked():
            raise Conflict(
                f"Another worker serves as host “{self._host}” from {self._folder}. Stop it first, or give this one "
                "another name with TRAINYARD_HOST_ID."
            )
        if self._client.set(self._key, self._value, nx=True, ex=TTL_S):
            return
        found = self._client.get(self._key)
        text = found.decode(errors="replace") if isinstance(found, bytes) else found or ""
        machine, _, name = text.partition(" ")
        if machine not in {"", self._machine}:
            raise Conflict(
                f"Another worker serves as host “{self._host}” on the machine {name}. Give this one another name with "
                f"TRAINYARD_HOST_ID; if that one was just killed, its name is free in {TTL_S} s."
            )
        self.renew()

    def renew(self) -> None:
        """Keep the name. A Redis that is away is noted by the host's beat."""
        try:
            self._client.set(self._key, self._value, ex=TTL_S)
        except (redis.RedisError, OSError) as error:
            log.debug("host_name_not_renewed why=%s", error)

    def release(self) -> None:
        """Leave the name to others."""
        try:
            self._client.delete(self._key)
        except (redis.RedisError, OSError) as error:
            log.debug("host_name_not_released why=%s", error)

    def _locked(self) -> bool:
        end = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                time.sleep(0.1)
            else:
                return True
