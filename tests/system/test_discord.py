"""The main job in a Discord thread, through the whole of Trainyard."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.platforms.discord_server import DiscordServer
from tests.system.conftest import EXAMPLES, HANG_S, TRAINYARD, Yard


@pytest.fixture
async def discord_server():  # type: ignore[no-untyped-def]
    async with DiscordServer() as server:
        yield server


async def test_from_a_csv_to_a_measured_model_and_its_predictions(
    yard: Yard, discord_server: DiscordServer, tmp_path: Path, visits: bytes
) -> None:
    server = discord_server
    environment = yard.environment(
        TRAINYARD_DATABASE_URL=f"sqlite:///{tmp_path / 'bot.db'}",
        TRAINYARD_DISCORD_EDIT_GAP_S="0.5",
        TRAINYARD_TICK_S="0.3",
        DISCORD_TOKEN=server.token,
        DISCORD_API_URL=server.api_base,
        DISCORD_GATEWAY_URL=str(server.gateway_url),
    )
    with (tmp_path / "bot.log").open("wb") as log:
        bot = subprocess.Popen([*TRAINYARD, "bot"], env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        await server.connected()
        alice = server.user("alice")
        asked = await alice.mention(
            server.general, "train a model that predicts visited_doctor", files=[("visits.csv", visits)]
        )
        thread = await server.thread_of(asked)
        card = await server.wait_for(lambda: server.last(thread, contains="Train a model"), within_s=HANG_S)
        await alice.click(card, "Approve")
        result = await server.wait_for(lambda: server.last(thread, contains="Result of"), within_s=HANG_S)
        assert "ROC AUC" in result.text
        run_card = server.last(thread, contains="succeeded")
        assert run_card is not None
        assert run_card.edits
        fresh = ("new_visits.csv", (EXAMPLES / "new_visits.csv").read_bytes())
        await alice.mention(thread, "predict on this", files=[fresh])
        await server.wait_for(lambda: server.last(thread, contains="Predictions of"), within_s=HANG_S)
        used = await alice.slash("train runs")
        await server.wait_for(lambda: any("succeeded" in reply.text for reply in used.replies), within_s=HANG_S)
    finally:
        bot.terminate()
        await asyncio.to_thread(bot.wait, 30)
