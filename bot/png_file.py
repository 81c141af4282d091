"""A picture on the disk, written whole or not at all. Called by the commands that draw files."""

import os
from pathlib import Path

from agent.domain.errors import BadRequest


def write_png(path: Path, png: bytes) -> None:
    """Put it in the place of what was there. Raises `BadRequest` where the path cannot be written."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(png)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise BadRequest(f"The picture cannot be written to {path}: {error.strerror or error}.") from error
