"""Files by content: in a folder that bot and hosts share, or in Redis.

Owns storing and checking. Knows nothing of what the files are. Used by the bot (async face) and by hosts
(`put_file`, `put_bytes`, `get_file`). Every read is checked against its sha256.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import redis

from agent.domain.datasets import DatasetRef
from agent.domain.errors import NotFound, Unavailable
from worker.client.connect import connect
from worker.client.redis_url import shown

_CHUNK_BYTES = 4 * 1024 * 1024


class BlobStore(Protocol):
    """Both faces of a store."""

    def put_file(self, path: Path, *, name: str) -> DatasetRef:
        """Store a copy of a file."""

    def put_bytes(self, data: bytes, *, name: str) -> DatasetRef:
        """Store bytes."""

    def get_file(self, sha256: str) -> Path:
        """A readable local copy that has this content. Raises `NotFound`."""

    async def put(self, path: Path, *, name: str) -> DatasetRef:
        """`put_file`, off the event loop."""

    async def get(self, sha256: str) -> Path:
        """`get_file`, off the event loop."""


class _AsyncFace(ABC):
    @abstractmethod
    def put_file(self, path: Path, *, name: str) -> DatasetRef: ...

    @abstractmethod
    def get_file(self, sha256: str) -> Path: ...

    def put_bytes(self, data: bytes, *, name: str) -> DatasetRef:
        """Store bytes."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return self.put_file(Path(file.name), name=name)

    async def put(self, path: Path, *, name: str) -> DatasetRef:
        """Store a copy of a file."""
        return await asyncio.to_thread(self.put_file, path, name=name)

    async def get(self, sha256: str) -> Path:
        """A readable local copy. Raises `NotFound`."""
        return await asyncio.to_thread(self.get_file, sha256)


class FolderBlobs(_AsyncFace):
    """One file per content, named by its sha256."""

    def __init__(self, folder: Path) -> None:
        """`folder` is created at the first `put`."""
        self._folder = folder

    def put_file(self, path: Path, *, name: str) -> DatasetRef:
        """Store a copy of a file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with _aside(self._folder) as aside:
            shutil.copyfile(path, aside)
            sha256 = file_sha256(aside)
            size = aside.stat().st_size
            _keep(aside, self._folder / sha256)
        return DatasetRef(sha256=sha256, name=name, size_bytes=size)

    def get_file(self, sha256: str) -> Path:
        """The stored file itself; it must not be written to. Raises `NotFound`."""
        path = self._folder / _checked(sha256)
        if not path.is_file():
            raise NotFound(f"The file {sha256[:12]}… is not in the store {self._folder}.")
        if file_sha256(path) != sha256:
            raise NotFound(f"The stored file {path} is damaged: its content does not match its name. Send it again.")
        return path


class RedisBlobs(_AsyncFace):
    """Files in chunks in Redis, with a local copy; for hosts that share no folder with the bot."""

    def __init__(self, redis_url: str, cache: Path) -> None:
        """`cache` is the folder of local copies."""
        self._url = redis_url
        self._cache = FolderBlobs(cache)
        self._folder = cache
        self._client = connect(redis_url, socket_s=15.0)  # a chunk is large

    def put_file(self, path: Path, *, name: str) -> DatasetRef:
        """Store a copy of a file. Raises `Unavailable`."""
        ref = self._cache.put_file(path, name=name)
        with self._reachable():
            if self._client.exists(_key(ref.sha256)):
                return ref
            chunks = 0
            with (self._folder / ref.sha256).open("rb") as file:
                while data := file.read(_CHUNK_BYTES):
                    self._client.set(f"{_key(ref.sha256)}:{chunks}", data)
                    chunks += 1
            self._client.set(_key(ref.sha256), chunks)  # last, so that a half-stored file does not exist
        return ref

    def get_file(self, sha256: str) -> Path:
        """A local copy. Raises `NotFound`, `Unavailable`."""
        with contextlib.suppress(NotFound):
            return self._cache.get_file(sha256)
        with self._reachable(), _aside(self._folder) as aside:
            self._download(_checked(sha256), aside)
            if file_sha256(aside) != sha256:
                raise NotFound(f"The file {sha256[:12]}… in Redis is damaged. Send it again.")
            _keep(aside, self._folder / sha256)
        return self._folder / sha256

    def _download(self, sha256: str, into: Path) -> None:
        chunks: Any = self._client.get(_key(sha256))
        if chunks is None:
            raise NotFound(f"The file {sha256[:12]}… is not in Redis at {shown(self._url)}.")
        with into.open("wb") as file:
            for number in range(int(chunks)):
                data: Any = self._client.get(f"{_key(sha256)}:{number}")
                file.write(data or b"")

    @contextlib.contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except redis.RedisError as error:
            raise Unavailable(
                f"Redis at {shown(self._url)} does not answer: {error}. Start it and try again."
            ) from error


def make_blobs(kind: str, *, home: Path, redis_url: str, cache: Path) -> BlobStore:
    """The store that `TRAINYARD_BLOBS` names."""
    return RedisBlobs(redis_url, cache) if kind == "redis" else FolderBlobs(home / "blobs")


def file_sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(sha256: str) -> str:
    return f"trainyard:blob:{sha256}"


def _checked(sha256: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise NotFound(f"{sha256[:80]!r} is not the sha256 of a file.")
    return sha256


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=".aside-", dir=folder)
    os.close(fd)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _keep(aside: Path, final: Path) -> None:
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.chmod(0o444)
    aside.rename(final)
