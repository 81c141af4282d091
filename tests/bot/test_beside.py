"""Commands on the machine that read what a bot has stored, while it runs."""

import asyncio
import io
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agent.domain.errors import AppError, NotFound
from agent.domain.events import Ended
from agent.domain.runs import Artifact, Outcome, RunState
from agent.ports import ModelReply
from bot.console.replay import listed, recorded
from bot.serve import artifact_of
from bot.settings import Settings
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.fakes import THREAD, ScriptedModel, said
from worker.client.blobs import FolderBlobs


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def address(harness: Harness) -> str:
    return f"sqlite:///{harness.folder / 'test.db'}"


async def trainyard(harness: Harness, *words: str) -> tuple[str, str]:
    """What a command prints, and what it says to standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from bot.start import main; main()", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "COLUMNS": "90", "TRAINYARD_DATABASE_URL": address(harness)},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return out.decode(), err.decode()


async def trainyard_here(harness: Harness, *session: str) -> str:
    """What `replay` does within this process, which is quicker: what it prints, or the sentence that it ends with."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_DATABASE_URL", address(harness))
        try:
            await (recorded(*session) if session else listed(Console(file=printed, width=90)))
        except AppError as error:
            return error.text
    return printed.getvalue()


async def test_the_model_of_a_run_is_found_by_the_runs_id(harness: Harness, tmp_path: Path) -> None:
    tar = tmp_path / "artifact.tar"
    tar.write_bytes(b"a model")
    settings = Settings(home=harness.folder, database_url=address(harness))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        done, live = await stage.running(), await stage.running()
        kept = await FolderBlobs(harness.folder / "blobs").put(tar, name="artifact.tar")
        artifact = Artifact(sha256=kept.sha256, size_bytes=kept.size_bytes, files=("model.txt",))
        await stage.says(done, Ended(outcome=Outcome(state=RunState.SUCCEEDED, artifact=artifact)))
        found = await artifact_of(settings, done.id)
        with pytest.raises(NotFound, match="and left no model to serve"):
            await artifact_of(settings, live.id)
    assert found.read_bytes() == b"a model"


async def test_sessions_are_listed_and_replayed(harness: Harness) -> None:
    assert (await trainyard_here(harness)).startswith("There is no database ")
    harness.model = ScriptedModel(ModelReply("Hello, **alice**.", (), "m"))
    async with harness.open() as brain:
        assert (await trainyard_here(harness)).startswith("Nothing was said yet.")
        await brain.router.accept(said("hello there"))
        await harness.until(lambda: "Hello, **alice**." in harness.adapter.texts())
        await brain.router.idle()
        session_id = str(await brain.stores.conversations.session_of(THREAD, create=False))
        assert (await trainyard_here(harness)).startswith(session_id)
        shown, _ = await trainyard(harness, "replay", session_id)
        assert "› alice" in shown
        assert "Hello, alice." in shown
        _, err = await trainyard(harness, "replay", "s-other")
        assert err.startswith("trainyard: There is no file and no session `s-other`.")
