"""Fetches what an address names into the blob store, so that from then on it is like an attached file.

Owns the choice by kind of address and the exact revision that is written down. Called by `worker.tasks`.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.domain.errors import BadData, NotAllowed, NotFound
from agent.domain.orders import Fetched, FetchOrder
from agent.domain.sources import HubSource, KaggleSource, PathSource, Source, WebSource
from worker.client.blobs import BlobStore
from worker.fetching.packed import unpacked
from worker.fetching.web import Web
from worker.settings import Settings

MakeRows = Callable[[Path, HubSource, Path], Mapping[str, Any]]


class Fetcher:
    """Fetches onto this host."""

    def __init__(self, blobs: BlobStore, settings: Settings, *, rows: MakeRows, home: Path) -> None:
        """`rows` makes one file of a data set's folder, in the sandbox; `home` has space for downloads."""
        self._blobs, self._settings, self._rows, self._home = blobs, settings, rows, home
        self._web = Web([network.strip() for network in settings.fetch_inside.split(",") if network.strip()])

    def fetch(self, order: FetchOrder) -> Fetched:
        """Fetch a file. Raises `BadData`, `NotAllowed`, `NotFound`, `Unavailable`."""
        self._home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=self._home) as name:
            folder = Path(name)
            match order.source:
                case WebSource() as source:
                    return self._of_web(source, folder, order.limit_bytes)
                case HubSource() as source:
                    return self._of_hub(source, folder, order.limit_bytes)
                case KaggleSource() as source:
                    return self._of_kaggle(source, folder, order.limit_bytes)
                case PathSource() as source:
                    return self._of_path(source, folder, order.limit_bytes)

    def _of_web(self, source: WebSource, folder: Path, limit_bytes: int) -> Fetched:
        path = folder / "file"
        name = self._web.download(source.url, path, limit_bytes=limit_bytes)
        return self._kept(path, name, source, member=source.member, limit_bytes=limit_bytes)

    def _of_kaggle(self, source: KaggleSource, folder: Path, limit_bytes: int) -> Fetched:
        """By the address that Kaggle's own pages give for curl; a login is needed for what is not public."""
        path = folder / "file"
        url = f"{self._settings.kaggle}/api/v1/datasets/download/{source.name}"
        url += f"?datasetVersionNumber={source.version}" if source.version else ""
        token = self._settings.kaggle_token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._web.download(url, path, limit_bytes=limit_bytes, headers=headers)
        name = f"{source.name.rpartition('/')[2]}.zip"
        fetched = self._kept(path, name, source, member=source.member, limit_bytes=limit_bytes)
        return fetched if source.version else fetched.model_copy(update={"notes": ("The newest version was taken.",)})

    def _of_hub(self, source: HubSource, folder: Path, limit_bytes: int) -> Fetched:
        from worker.fetching import hub  # noqa: PLC0415 - no other source and no start pays for the Hub's library

        data = folder / "data"
        revision = hub.download(source, data, limit_bytes=limit_bytes, endpoint=self._settings.hub)
        work = folder / "work"
        work.mkdir()
        found = self._rows(data, source, work)
        exact = source.model_copy(update={"revision": revision, "split": found["split"]})
        path = work / found["file"]
        name = "-".join(part for part in (source.name.rpartition("/")[2], source.config, found["split"]) if part)
        fetched = self._kept(path, f"{name}{path.suffix}", exact, member="", limit_bytes=limit_bytes, packed=False)
        return fetched.model_copy(update={"notes": tuple(found["said"])})

    def _of_path(self, source: PathSource, folder: Path, limit_bytes: int) -> Fetched:
        """A symbolic link counts as what it leads to. A folder is taken as an archive of its files."""
        path = Path(os.path.realpath(source.path))
        folders = [folder for folder in self._settings.data_folders.split(":") if folder]
        if not any(path.is_relative_to(os.path.realpath(allowed)) for allowed in folders):
            named = ", ".join(f"`{allowed}`" for allowed in folders)
            raise NotAllowed(
                f"`{source.path}` is in no folder that this host gives data from"
                + (f": {named}." if named else ". Its owner names such folders in TRAINYARD_DATA_FOLDERS.")
            )
        if not path.exists():
            raise NotFound(f"There is no file `{source.path}` on this host.")
        files = _files_in(path)
        size = sum(file.stat().st_size for file in files)
        if size > limit_bytes:
            raise BadData(f"`{source.path}` has {size / 1e6:,.0f} MB; up to {limit_bytes / 1e6:,.0f} MB are taken.")
        copy = folder / "file"
        if path.is_file():
            shutil.copyfile(path, copy)
            return self._kept(copy, path.name, source, member="", limit_bytes=limit_bytes)
        if not files:
            raise BadData(f"The folder `{source.path}` is empty.")
        with zipfile.ZipFile(copy, "w") as archive:  # not made smaller: images are packed already
            for file in files:
                archive.write(file, str(file.relative_to(path)))
        return self._kept(copy, f"{path.name}.zip", source, member="", limit_bytes=limit_bytes)

    def _kept(
        self, path: Path, name: str, origin: Source, *, member: str, limit_bytes: int, packed: bool = True
    ) -> Fetched:
        if packed:
            name = unpacked(path, name, member=member, limit_bytes=limit_bytes)
        if path.stat().st_size == 0:
            raise BadData(f"{origin.shown} is empty.")
        dataset = self._blobs.put_file(path, name=name)
        return Fetched(dataset=dataset.model_copy(update={"origin": origin}))


def _files_in(path: Path) -> list[Path]:
    """The file itself, or those of a folder: not what is hidden, nor what links lead to."""
    if path.is_file():
        return [path]
    names = sorted(path.rglob("*"))
    return [
        name
        for name in names
        if name.is_file()
        and os.path.realpath(name) == str(name)
        and not any(piece.startswith(".") for piece in name.relative_to(path).parts)
    ]
