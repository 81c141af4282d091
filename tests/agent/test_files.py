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


async def test_data_at_an_address_are_fetched_looked_at_and_trained_on(harness: Harness) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("train a model that predicts visited_doctor on https://x.org/a/visits.csv."))
        await harness.until(lambda: any(c.card and c.card.kind == "approval" for c in harness.adapter.shown))
        assert any("I fetch the data first." in text for text in harness.adapter.texts())
        (data,) = (c.card for c in harness.adapter.shown if c.card and c.card.kind == "data")
        assert ("From", "https://x.org/a/visits.csv") in [(fact.name, fact.value) for fact in data.facts]
        assert len([c for c in harness.adapter.shown if c.card and c.card.kind == "approval"]) == 1


async def test_an_address_that_cannot_be_read_is_said(harness: Harness) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("predict price, the data are in /home/me/houses.csv"))
        await harness.until(lambda: any("is in no folder" in text for text in harness.adapter.texts()))
        assert not [c for c in harness.adapter.shown if c.card]


async def test_an_address_alone_is_fetched_and_looked_at(harness: Harness) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("fetch hf:scikit-learn/iris please"))
        await harness.until(lambda: any(c.card and c.card.kind == "data" for c in harness.adapter.shown))


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
