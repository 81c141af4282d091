"""What an attempt left, out of the store of files that engines share with the bot."""

import asyncio
import shutil
from pathlib import Path

from agent.domain.errors import NotFound
from agent.domain.orders import AttemptLabel, AttemptStatus
from agent.ports import Blobs


async def copy_artifact(label: AttemptLabel, status: AttemptStatus | None, blobs: Blobs, into: Path) -> Path:
    """Copy the tar of an attempt into a folder; its path. Raises `NotFound` where it left nothing."""
    artifact = status.outcome.artifact if status and status.outcome else None
    if artifact is None:
        raise NotFound(f"Attempt {label.attempt} of run `{label.run}` left no files.")
    path = into / f"{label.run}.tar"
    await asyncio.to_thread(shutil.copyfile, await blobs.get(artifact.sha256), path)
    return path
