"""Lays images beside the parts of a split, and small pictures of the test part with the sealed answers."""

from __future__ import annotations

import io
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common.annotations import FORM, IMAGE
from worker.recipes.common.images import contents, opened, unpack
from worker.recipes.common.job import write_json
from worker.recipes.common.table import BadData, Table

THUMBNAIL_PX = 160
THUMBNAILS = "thumbnails"
SIZES = "sizes.json"  # of the images of the test part, in pixels
FOLDER = "data/images"


def problems(table: Table) -> list[str]:
    """Sentences that stop a training on images."""
    if IMAGE in table.columns and table.form == FORM:
        return []
    named = (
        "names files, but they are not in it" if any(cell.endswith((".png", ".jpg")) for cell in _first(table)) else ""
    )
    why = f"The table {named}" if named else "There are no images in this file"
    return [f"{why}. Send a zip archive: a folder of images for each class, or the images and a csv with their names."]


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """Nothing beside the images is learned from, so nothing gives the target away."""
    return []


def _first(table: Table) -> list[str]:
    return [table.columns[name][0].lower() for name in table.names if table.rows]


def lay(source: Path, table: Table, run_dir: Path, sealed_dir: Path, test: list[int]) -> Table:
    """Unpack every image under a number that tells nothing, and keep small ones of the test part. Raises: BadData."""
    folder = run_dir / FOLDER
    numbers = np.random.default_rng(len(table.lines)).permutation(table.rows).tolist()
    try:
        paths = unpack(source, table.columns[IMAGE], folder, numbers=numbers)
    except (OSError, KeyError, RuntimeError) as error:
        raise BadData(f"The images cannot be unpacked: {error}.") from error
    (sealed_dir / THUMBNAILS).mkdir(exist_ok=True)
    for number, row in enumerate(test):
        (sealed_dir / THUMBNAILS / f"{number}.jpg").write_bytes(thumbnail(Path(paths[row])))
    write_json(sealed_dir / SIZES, [opened(Path(paths[row])).size for row in test])
    places = [str(Path(path).relative_to(run_dir)) for path in paths]
    columns = {**table.columns, IMAGE: places}
    return Table(table.names, columns, table.lines, table.encoding, table.delimiter, table.warnings, table.form)


def equal_images(source: Path, table: Table, _text: str = "") -> list[Hashable]:
    """Exact copies of an image stay together, whatever they are called."""
    same = contents(source)
    return [same.get(name, name) for name in table.columns[IMAGE]]


def thumbnail(path: Path) -> bytes:
    """The image as a JPEG of at most 160 pixels a side; small ones are enlarged without blur."""
    from PIL import Image

    image = opened(path)
    scale = THUMBNAIL_PX / max(image.size)
    kind = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    out = io.BytesIO()
    image.resize(size, kind).save(out, "JPEG", quality=85)
    return out.getvalue()
