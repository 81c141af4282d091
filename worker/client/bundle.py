"""Packs what a run executes into one tar whose bytes depend on the content only.

Reads the worker's own sources as files and imports none of them. Called by the bot before it asks for approval.
"""

import hashlib
import io
import re
import tarfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_MODULES = ("__init__", "adapters", "images", "pictures", "runtime")  # and the recipes
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
    return {f"worker/{name}.py": (_PACKAGE / f"{name}.py").read_bytes() for name in _MODULES}


def sources(recipe: str) -> dict[str, bytes]:
    """The files of a bundle as this installation has them, by name: of the recipes only this one."""
    recipes = _PACKAGE / "recipes"
    others = {path.parent.name for path in recipes.glob("*/train.py")} - {recipe}
    files = {
        "train.py": TRAIN_SCRIPT,
        "requirements.txt": (recipes / "requirements.txt").read_bytes(),
        **runtime_files(),
    }
    for path in sorted(recipes.rglob("*.py")):
        name = path.relative_to(recipes)
        if name.parts[0] not in others:
            files[f"worker/recipes/{name}"] = path.read_bytes()
    return files
