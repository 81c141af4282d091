"""What a run left, as a file for people: its artifact, or of a prediction the rows with their answers."""

import asyncio
import shutil
import tarfile
from pathlib import Path

from agent.domain.content import Document
from agent.domain.errors import NotFound
from agent.domain.runs import Run
from agent.ports import Blobs
from agent.runs.pictures.artifacts import ArtifactWriter

PREDICTIONS = "predictions.csv"


async def handed_over(run: Run, blobs: Blobs, files: ArtifactWriter) -> Document:
    """The file of a run, ready to be sent. Raises: NotFound, TransientError."""
    artifact = run.outcome.artifact if run.outcome else None
    if artifact is None:
        raise NotFound(f"Run `{run.id}` has left no files: its `artifacts/` were empty, or it has not ended.")
    tar = await blobs.get(artifact.sha256)
    aside = await files.scratch()
    if run.spec.model is None or PREDICTIONS not in artifact.files:
        await asyncio.to_thread(shutil.copyfile, tar, aside)
        return await files.keep(aside, name=f"{run.id}.tar", about=f"download/{run.id}")
    await asyncio.to_thread(_taken_out, tar, aside)
    return await files.keep(aside, name=f"predictions-{run.id}.csv", about=f"download/{run.id}")


def _taken_out(tar: Path, aside: Path) -> None:
    with tarfile.open(tar) as packed:
        file = packed.extractfile(PREDICTIONS)
        if file is None:
            raise NotFound(f"The artifact has no {PREDICTIONS}.")
        with file, aside.open("wb") as out:
            shutil.copyfileobj(file, out)
