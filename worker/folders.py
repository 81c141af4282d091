"""Where things lie on a host, and how they are written so that a crash leaves either the old or the new.

Owns the names inside a run's folder, the fence and the locks. Standard library only: a supervisor loads it before it
says READY. Used by everything that runs on a host.
"""

import errno
import fcntl
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder, and the sealed one beside it that the training process may not see."""

    path: Path
    sealed: Path

    @property
    def run(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def workspace(self) -> Path:
        """Where steps that see the sealed labels run, out of the training's reach."""
        return self.sealed / "workspace"

    @property
    def order(self) -> Path:
        """The launch order of the newest attempt."""
        return self.path / "order.json"

    @property
    def fence(self) -> Path:
        """The highest attempt that was ever let in."""
        return self.path / "fence"

    @property
    def lock(self) -> Path:
        """Held by the living supervisor; its text is that process's id."""
        return self.path / "lock"

    @property
    def launch_lock(self) -> Path:
        """Held by whoever decides about this folder: a launch, a stop, the sweep."""
        return self.path / "launch.lock"

    @property
    def stop(self) -> Path:
        """A stop order that the supervisor has to obey."""
        return self.path / "stop.json"

    @property
    def log(self) -> Path:
        """What the steps printed."""
        return self.path / "output.log"

    @property
    def spool(self) -> Path:
        """Every event of the newest attempt, one a line."""
        return self.path / "spool.jsonl"

    @property
    def outcome(self) -> Path:
        """How the newest attempt ended."""
        return self.path / "outcome.json"

    @property
    def supervisor(self) -> Path:
        """Which process supervises the newest attempt, and in which boot of the machine."""
        return self.path / "supervisor.json"

    @property
    def ballast(self) -> Path:
        """Space held back so that the outcome fits on a full disk."""
        return self.path / ".ballast"

    @property
    def sent(self) -> Path:
        """Which spools Redis has, by attempt."""
        return self.path / "sent.json"

    def old(self, path: Path, attempt: int) -> Path:
        """The name under which `attempt`'s spool or outcome is kept once a newer attempt began."""
        return path.with_name(f"{path.stem}-{attempt}{path.suffix}")

    def spools(self) -> Iterator[Path]:
        """The spools of all attempts; a pipe, a link or a number of no earlier attempt that a payload laid out is none.

        Those of earlier attempts lie beside the newest one, or in its place: a launch puts that aside, then lets in.
        """
        newest = read_fence(self)
        for path in sorted(self.path.glob("spool*.jsonl")):
            named = re.fullmatch(r"spool(?:-([1-9]\d{0,8}))?\.jsonl", path.name)
            if named is None or not path.is_file() or path.is_symlink():
                continue
            number = int(named[1] or 0)  # 0: the newest one
            if not number or number < newest or (number == newest and not self.spool.exists()):
                yield path


@dataclass(frozen=True, slots=True)
class HostFolder:
    """`<home>/hosts/<host>`."""

    path: Path

    @classmethod
    def of(cls, home: Path, host: str) -> "HostFolder":
        """The folder of one host."""
        return cls(home / "hosts" / host)

    def run(self, run: str) -> RunFolder:
        """One run's folder; it need not exist.

        Raises:
            ValueError: `run` is not a name that can be a folder.
        """
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", run):
            raise ValueError(f"not a run id: {run!r}")
        return RunFolder(self.path / "runs" / run, self.path / "sealed" / run)

    def runs(self) -> Iterator[RunFolder]:
        """All runs that were ever let in."""
        for fence in sorted((self.path / "runs").glob("*/fence")):
            yield self.run(fence.parent.name)

    @property
    def models(self) -> Path:
        """Unpacked artifacts, by content."""
        return self.path / "models"

    @property
    def warm(self) -> Path:
        """Where processes with loaded libraries are found."""
        return self.path / "warm"

    @property
    def blobs(self) -> Path:
        """Local copies of files that came through Redis."""
        return self.path / "blobs"


def read_plain(path: Path, *, most: int = 4 * 1024**2) -> bytes:
    """At most `most` bytes of a plain file. A payload may write here too: no link is followed, no pipe waited for.

    Raises `OSError`, also for what is no plain file.
    """
    with open_plain(path) as file:
        return file.read(most)


def open_plain(path: Path) -> BinaryIO:
    """A plain file for reading, in the same way. Raises `OSError`."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no plain file", str(path))
    return file


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Make `path` hold `data`; after a crash it holds either that or what it held before. A folder there goes.

    Where it is not `durable` that holds for processes that crash; after a loss of power it may be empty or gone.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    remove(aside)  # a payload may write here too: never follow a link that it laid out
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        rename_over(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def rename_over(source: Path, target: Path) -> None:
    """Rename, also to where a payload laid out a folder."""
    try:
        source.rename(target)
    except IsADirectoryError:
        remove(target)
        source.rename(target)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder of any depth; nothing when it is not there."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except (RecursionError, OSError) as error:
        if not is_too_deep(error):
            raise
        done = subprocess.run(["/bin/rm", "-rf", "--", str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(errno.ENOTEMPTY, done.stderr.strip()[-200:], str(path)) from error


def is_too_deep(error: Exception) -> bool:
    """Whether a walk through folders failed by their depth: it may recurse, or hold a file open for each level."""
    return isinstance(error, RecursionError) or getattr(error, "errno", 0) in {errno.EMFILE, errno.ENAMETOOLONG}


def sync_folder(path: Path) -> None:
    """Make renames inside `path` survive a power loss."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_fence(folder: RunFolder) -> int:
    """The highest attempt that was let in, 0 for none."""
    try:
        return int(folder.fence.read_text())
    except FileNotFoundError:
        return 0


def marks_of(folder: RunFolder) -> tuple[str, str]:
    """What stands in the environment of every step of a run's attempts, and in no other process's."""
    return f"TRAINYARD_RUN_DIR={folder.path}", "TRAINYARD_SUPERVISED=2"


def cgroup_name(folder: RunFolder) -> str:
    """The control group of a run's attempts: one name for one folder, also beside another home on the same machine."""
    return f"trainyard-{folder.run}-{folder.path.stat().st_ino:x}"


def take_lock(path: Path, *, wait: bool = False) -> int | None:
    """An open file that holds the lock, or None when another process holds it. Closing it gives the lock back."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this block holds the lock."""
    fd = take_lock(path, wait=wait)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def connect_to(connection: socket.socket, path: Path) -> None:
    """Connect to a unix socket at a path of any length; the kernel takes 107 bytes. Raises `OSError`."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def is_alive(folder: RunFolder) -> bool:
    """Whether a supervisor holds the folder."""
    if not folder.lock.exists():
        return False
    with locked(folder.lock) as free:
        return not free
