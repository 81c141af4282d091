"""Pictures of single images of the test part: those that the model got most wrong, and beside them some it got right.

The small pictures were laid beside the sealed answers when the data were split, so no training can have changed them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worker.recipes.common.scoring import short
from worker.recipes.images.laying import THUMBNAILS

MOST = 12
_CAPTION_CHARS = 40


def grid(sealed_dir: Path, title: str, shown: Sequence[tuple[str, str, bool | None]]) -> dict[str, Any] | None:
    """The images with what was said of them: row, caption, whether it is right; None where none is left."""
    tiles = []
    for row_id, caption, right in shown[:MOST]:
        path = sealed_dir / THUMBNAILS / f"{int(row_id)}.jpg"
        if path.is_file():
            image = base64.b64encode(path.read_bytes()).decode()
            tiles.append({"image": image, "caption": short(caption, _CAPTION_CHARS), "right": right})
    return {"kind": "images", "title": title, "tiles": tiles} if tiles else None
