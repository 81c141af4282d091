"""Takes one file of data out of what it came packed in: gzip, or a zip archive that is not read as a whole."""

import gzip
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Protocol

from agent.domain.errors import BadData
from worker.recipes.common.annotations import part_of

_TABLES = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".txt", ".conll"})
_PAPERS = frozenset({"readme", "license", "licence", "copying", "citation", "requirements", "notice", "changelog"})
_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"})
_CHUNK_BYTES = 1024 * 1024


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def unpacked(path: Path, name: str, *, member: str, limit_bytes: int) -> str:
    """Replace `path` by what is packed in it, where something is; the name of that.

    `member` is which file of an archive is meant; without it the only table is. Raises `BadData`.
    """
    with path.open("rb") as file:
        head = file.read(4)
    try:
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:
                _replace(path, packed, name, limit_bytes)
            return name.removesuffix(".gz")
        if head.startswith(b"PK\x03\x04") and not name.lower().endswith(".xlsx"):
            with zipfile.ZipFile(path) as archive:
                part = _part(archive, name, member)
                if part is not None:
                    with archive.open(part) as packed:
                        _replace(path, packed, name, limit_bytes)
                    return PurePosixPath(part).name
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BadData(f"{name} cannot be unpacked: {error}.") from error
    if member:
        raise BadData(f"{name} is no zip archive, so there is no file `{member}` in it.")
    return name


def _part(archive: zipfile.ZipFile, name: str, member: str) -> str | None:
    """Which file of an archive is meant; None: all, of an archive of images or of the parts of a table, or of Excel."""
    names = [part.filename for part in archive.infolist() if not part.is_dir() and "__MACOSX" not in part.filename]
    if member:
        found = [entry for entry in names if entry == member] or [
            entry for entry in names if PurePosixPath(entry).name == PurePosixPath(member).name
        ]
        if len(found) != 1:
            raise BadData(f"{name} has no file `{member}`. It has {_listed(names)}.")
        return found[0]
    if "[Content_Types].xml" in names or any(PurePosixPath(entry).suffix.lower() in _IMAGES for entry in names):
        return None
    tables = [
        entry
        for entry in names
        if PurePosixPath(entry).suffix.lower() in _TABLES and PurePosixPath(entry).stem.lower() not in _PAPERS
    ]
    if len(tables) > 1 and all(map(part_of, tables)) and len(set(map(part_of, tables))) == len(tables):
        return None
    if len(tables) > 1:
        raise BadData(f"{name} has {len(tables)} files of data. Say which one: {_listed(tables)}.")
    return tables[0] if tables else None


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:10])
    return f"{shown} and {len(names) - 10:,} more" if len(names) > 10 else shown or "none"


def _replace(path: Path, packed: _Readable, name: str, limit_bytes: int) -> None:
    aside = path.with_name(f"{path.name}.unpacked")
    written = 0
    with aside.open("wb") as file:
        while chunk := packed.read(_CHUNK_BYTES):
            written += len(chunk)
            if written > limit_bytes:
                raise BadData(f"{name} unpacks to more than {limit_bytes / 1e6:,.0f} MB. Give a part of it.")
            file.write(chunk)
    aside.replace(path)
