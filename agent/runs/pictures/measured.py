"""Fetches the facts of a run's result from the store of files.

Owns reading and checking; where the store has no valid facts, there are no pictures. Called by the live cards
and the chart tool.
"""

import asyncio
import logging
from pathlib import Path

from agent.domain.errors import UserError
from agent.domain.results import LIMIT_BYTES, Results
from agent.domain.runs import Run
from agent.ports import Blobs
from agent.wire import Malformed, decode

log = logging.getLogger(__name__)


async def facts_of(run: Run, blobs: Blobs) -> Results | None:
    """The facts of a result, None where there are none. Raises `TransientError` while the store does not answer."""
    sha256 = run.outcome.results if run.outcome else ""
    if not sha256:
        return None
    try:
        return await asyncio.to_thread(_read, await blobs.get(sha256))
    except (Malformed, UserError, OSError) as error:
        log.warning("no facts of a result", extra={"run": run.id, "cause": str(error)})
        return None


def _read(path: Path) -> Results:
    with path.open("rb") as file:
        return decode(Results, file.read(LIMIT_BYTES + 1))
