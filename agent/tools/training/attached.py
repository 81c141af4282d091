"""What people attach beside a program of their own: the data that it reads, and what it requires."""

from collections.abc import Sequence

from agent.domain.datasets import DatasetRef
from agent.ports import Blobs
from agent.tools.data import DataFiles
from agent.tools.training.programs import requirements_in


async def data_named(files: DataFiles, session_id: str, names: Sequence[str]) -> tuple[DatasetRef, ...]:
    """The attached files of these names; a `.py` file is not data. Raises `NotFound`."""
    found = [await files.find(session_id, name) for name in dict.fromkeys(names)]
    return tuple(file for file in found if not file.is_program or file.name.lower().endswith(".zip"))


async def requirements_named(files: DataFiles, blobs: Blobs, session_id: str, name: str) -> tuple[str, ...]:
    """The packages that an attached requirements file names. Raises `BadRequest`, `NotFound`."""
    ref = await files.find(session_id, name)
    text = (await blobs.get(ref.sha256)).read_text(encoding="utf-8-sig", errors="replace")
    return requirements_in(text, ref.name)
