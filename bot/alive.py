"""`python -m bot.alive`: exits with 0 when a bot runs on this home and Redis answers, else with 1 and a sentence.

The health check of the container. Reads the lock that `bot.app` holds without taking it, so that a bot that
starts at this moment is not refused. Does not notice a bot that runs but hangs.
"""

import os
import sys
from contextlib import closing, suppress
from pathlib import Path

import redis

from bot.settings import Settings
from worker.client.redis_server import EmbeddedRedis
from worker.client.redis_url import for_client, shown

LIMIT_S = 5
LOCKS = Path("/proc/locks")


def main() -> None:
    """Never returns."""
    settings = Settings()
    why = _why_not(settings.home, settings.redis_url or EmbeddedRedis(settings.home).url)
    sys.exit(why or 0)


def _why_not(home: Path, redis_url: str) -> str:
    """Empty when all is well."""
    if holder(home / "bot.lock") is None:
        return f"No bot runs with the home {home}."
    client = redis.Redis.from_url(for_client(redis_url), socket_timeout=LIMIT_S, socket_connect_timeout=LIMIT_S)
    with closing(client):
        try:
            client.ping()
        except (redis.RedisError, OSError) as error:
            return f"Redis at {shown(redis_url)} does not answer ({type(error).__name__})."
    return ""


def holder(lock: Path) -> int | None:
    """The living process that holds the flock on `lock`, as the kernel lists it."""
    with suppress(FileNotFoundError):
        wanted = lock.stat()
        for line in LOCKS.read_text().splitlines():
            _, kind, _, _, pid, where, *_ = line.split()
            if kind == "FLOCK" and where.endswith(f":{wanted.st_ino}") and _has_open(int(pid), wanted):
                return int(pid)
    return None


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Whether `pid` lives and has `file` open: inode numbers repeat between file systems, and a pid may be reused."""
    with suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(fd.stat(), file):
                    return True
    return False


if __name__ == "__main__":
    main()
