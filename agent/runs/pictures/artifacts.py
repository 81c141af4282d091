"""Files on the bot's disk that messages carry: charts and documents, named by their content.

Owns their folder and deletes old ones: a message that was delivered needs no file any more, so the newest few of each
kind are kept for those that are not delivered yet. Called by the live cards and the tools.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
import shutil
import time
from pathlib import Path

from agent.domain.charts import ChartSpec
from agent.domain.content import Document, Picture
from agent.domain.errors import AppError
from agent.domain.pictures import PictureSpec
from agent.domain.redaction import without_secrets
from agent.ports import Charts

log = logging.getLogger(__name__)
KEPT = 3
_ABANDONED_S = 86_400.0


class ArtifactWriter:
    """Charts under `pictures`, documents in the folder `files` beside it."""

    def __init__(self, charts: Charts, pictures: Path) -> None:
        """`charts` draws off the event loop."""
        self._charts = charts
        self._pictures = pictures
        self._documents = pictures.parent / "files"

    async def draw(self, spec: ChartSpec | PictureSpec, *, about: str, once: str = "") -> Picture | None:
        """The picture of a chart, None (and a line in the log) where it cannot be drawn. `about` names its folder.

        With a name for `once` it is what never changes: the file of that name is drawn once, also over restarts.
        """
        path = self._pictures / about / f"{once}.png"
        try:
            png = await asyncio.to_thread(_read, path) if once else None
            png = png or await self._charts.render(spec)
            digest = hashlib.sha256(png).hexdigest()
            path = path if once else path.with_name(f"{digest[:16]}.png")
            await asyncio.to_thread(_store, path, png)
            return Picture(path=str(path), alt=await self._charts.describe(spec), sha256=digest)
        except AppError as error:
            log.warning("no chart", extra={"about": about, "cause": str(error)})
        except Exception:  # a full disk, a value that no painter expected: it costs the picture, never its card
            log.exception("no chart", extra={"about": about})
        return None

    async def has(self, picture: Picture) -> bool:
        """Whether its file is still there."""
        return await asyncio.to_thread(Path(picture.path).exists)

    async def scratch(self) -> Path:
        """A path for a file that is being written; `keep` takes it. What a crash left of earlier ones goes."""
        return await asyncio.to_thread(_scratch, self._documents / "part")

    async def keep(self, path: Path, *, name: str, about: str) -> Document:
        """A file that was written at `scratch()`, handed over under `name`."""
        folder = self._documents / about / name.partition(".")[0]
        return await asyncio.to_thread(_keep, path, folder, name)

    async def document(self, text: str, *, name: str, about: str) -> Document:
        """Text without secrets as a file that is handed over under `name`."""
        data = (await asyncio.to_thread(without_secrets, text))[0].encode()
        digest = hashlib.sha256(data).hexdigest()
        stem, dot, ending = name.rpartition(".")
        path = self._documents / about / (stem or name) / f"{digest[:16]}{dot}{ending if stem else ''}"
        await asyncio.to_thread(_store, path, data)
        return Document(path=str(path), name=name, sha256=digest, size_bytes=len(data))

    async def delete(self, *, about: str) -> None:
        """Delete all documents about this; a message that is not delivered yet will say that its file is gone."""
        await asyncio.to_thread(_delete, self._documents / about)


def _delete(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _scratch(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another one has just been finished
            if time.time() - old.stat().st_mtime > _ABANDONED_S:
                old.unlink()
    return folder / secrets.token_hex(8)


def _keep(path: Path, folder: Path, name: str) -> Document:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size_bytes = path.stat().st_size
    target = folder / f"{digest[:16]}.{name.partition('.')[2]}"
    folder.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    _forget(target)
    return Document(path=str(target), name=name, sha256=digest, size_bytes=size_bytes)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _store(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        # A crash must not leave half a file under its name, and two may draw the same at once.
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        aside.write_bytes(data)
        aside.replace(path)
    _forget(path)


def _forget(path: Path) -> None:
    """Delete the files of its kind in its folder, except the newest."""
    kept = sorted(path.parent.glob(f"*{path.suffix}"), key=lambda file: file.stat().st_mtime)
    for old in kept[:-KEPT]:
        if old != path:
            old.unlink(missing_ok=True)
