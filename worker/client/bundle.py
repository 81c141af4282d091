"""Packs what a run executes into one tar whose bytes depend on the content only.

Reads this installation's sources as files and imports none of them. Called by the bot before it asks for approval.
"""

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path

_TOP = Path(__file__).resolve().parents[2]
_RECIPES = _TOP / "worker" / "recipes"
SERVE_SCRIPT = b"from worker.serving.job import main\nmain()\n"
_PREDICTS = (
    "__init__.py",
    "predict.py",
    "annotations.py",
    "formats.py",
    "images.py",
    "margins.py",
    "numerals.py",
    "table.py",
    "token_files.py",
)
TRAIN_SCRIPT = b"from worker.recipes.entry import main\nmain()\n"


def pack(recipe: str) -> tuple[str, bytes]:
    """The sha256 and the bytes of the bundle for `recipe`; everything else about a run stands in its config.json."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", recipe):
        raise ValueError(f"not the name of a recipe: {recipe!r}")
    return pack_files(sources(recipe))


def pack_files(files: dict[str, bytes]) -> tuple[str, bytes]:
    """The sha256 and the bytes of a tar of `files`, the same for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    data = buffer.getvalue()
    return hashlib.sha256(data).hexdigest(), data


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of a bundle by name; what is no plain file is left out."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry)) is not None}


def runtime_files() -> dict[str, bytes]:
    """What any program may import of ours, by name."""
    return _named(
        [*(_TOP / "trainyard").glob("*.py"), *(_TOP / "worker" / name for name in ("__init__.py", "runtime.py"))]
    )


def server_files() -> dict[str, bytes]:
    """The program that serves the model of an artifact, by name; `data/model.tar` is laid beside it."""
    common = [_RECIPES / "__init__.py", *(_RECIPES / "common" / name for name in _PREDICTS)]
    serving = [_TOP / "worker" / "serving" / name for name in ("__init__.py", "app.py", "job.py")]
    return {"serve.py": SERVE_SCRIPT, **runtime_files(), **_named([*common, *serving])}


def sources(recipe: str) -> dict[str, bytes]:
    """The files of a bundle as this installation has them, by name: of the recipes only this one."""
    others = {path.parent for path in _RECIPES.glob("*/train.py") if path.parent.name != recipe}
    return {
        "train.py": TRAIN_SCRIPT,
        "requirements.txt": (_RECIPES / "requirements.txt").read_bytes(),
        **runtime_files(),
        **_named(path for path in _RECIPES.rglob("*.py") if others.isdisjoint(path.parents)),
    }


def _named(paths: Iterable[Path]) -> dict[str, bytes]:
    return {path.relative_to(_TOP).as_posix(): path.read_bytes() for path in paths}
