"""Attached files: too large, gone, or with the name of another."""

from pathlib import Path

from agent.domain.inbound import Attachment
from tests.agent.conftest import Harness
from tests.fakes import said


async def test_a_2_gb_file_is_refused_with_its_size_and_the_limit(harness: Harness) -> None:
    huge = Attachment(id="F1", name="huge.csv", size_bytes=2_000_000_000, locator="/nowhere")
    async with harness.open() as brain:
        await brain.router.accept(said("train a model that predicts y", files=(huge,)))
        await harness.until(lambda: any("2.0 GB" in text and "up to 1 GB" in text for text in harness.adapter.texts()))


async def test_a_file_that_cannot_be_fetched_is_said(harness: Harness) -> None:
    gone = Attachment(id="F1", name="gone.csv", size_bytes=10)
    async with harness.open() as brain:
        await brain.router.accept(said("train a model that predicts y", files=(gone,)))
        await harness.until(lambda: any("`gone.csv` cannot be fetched" in text for text in harness.adapter.texts()))


async def test_the_newest_file_of_a_name_counts(harness: Harness, tmp_path: Path) -> None:
    async with harness.open() as brain:
        for content in ("a\n1\n", "a\n2\n"):
            path = tmp_path / "data.csv"
            path.write_text(content)
            file = Attachment(id="F", name="data.csv", size_bytes=4, locator=str(path))
            await brain.router.accept(said("look at this", files=(file,)))
            await brain.router.idle()
        session = await brain.stores.conversations.session_of(said("x").thread, create=False)
        assert session is not None
        (only,) = await brain.stores.conversations.files(session)
        assert (tmp_path / "blobs" / only.sha256).read_text() == "a\n2\n"
