"""`trainyard serve r-abc123`: finds the artifact of a run, for `worker.serving` to serve."""

from pathlib import Path

from agent.domain.errors import NotFound
from agent.storage import sql_stores
from agent.storage.database import reading
from bot.settings import Settings
from worker.client.blobs import make_blobs


async def artifact_of(settings: Settings, run_id: str) -> Path:
    """The artifact of a run, as one tar. Raises `NotFound`: there is no such run, or it left no model."""
    async with reading(settings.database) as database:
        run = await sql_stores(database).runs.get(run_id)
    if run.outcome is None or run.outcome.artifact is None:
        raise NotFound(f"Run `{run_id}` is {run.state.value} and left no model to serve.")
    blobs = make_blobs(settings.blobs, home=settings.home, redis_url=settings.redis_url, cache=settings.home / "blobs")
    return await blobs.get(run.outcome.artifact.sha256)
