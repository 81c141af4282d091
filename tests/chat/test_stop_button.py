"""A growing answer has a Stop button: Slack's own, which stands beside the app's status, and ours on Discord."""

import asyncio
from pathlib import Path

import pytest

from bot.discord.adapter import DiscordAdapter
from tests.agent.conftest import Harness
from tests.agent.test_beside_a_turn import Drips
from tests.chat.conftest import Chat
from tests.platforms.discord_server import DiscordServer

ENDED = "Slowly now\n\n_Stopped by Alice._"


async def test_slacks_stop_ends_the_answer(chat: Chat) -> None:
    chat.model = Drips()
    slack, alice = chat.slack, chat.slack.user("alice")
    async with chat.open() as brain:
        asked = alice.mention("tell me a long story")
        await slack.wait_for(lambda: slack.statuses)
        shown = await chat.seen(asked.ts, "Slowly now")
        stopped = alice.stop(asked)
        await chat.seen(asked.ts, ENDED)
        await chat.still(brain)
        await slack.wait_for(lambda: slack.statuses[-1][2] == "active")
        assert slack.thread(asked.ts) == [asked, shown]
        slack.redeliver(stopped)
        await chat.still(brain)
        assert (len(slack.thread(asked.ts)), slack.whispers) == (2, [])


async def test_slacks_stop_of_a_guest_ends_only_answers_to_them(chat: Chat) -> None:
    chat.model = Drips()
    slack, alice, guest = chat.slack, chat.slack.user("alice"), chat.slack.user("guest", external=True)
    slack.channel("partners", shared=True)
    async with chat.open():
        asked = alice.mention("tell me a long story", channel="partners")
        await slack.wait_for(lambda: slack.statuses)
        await chat.seen(asked.ts, "Slowly now")
        guest.stop(asked)
        await slack.wait_for(lambda: any("only answers to themselves" in whisper.shown for whisper in slack.whispers))
        assert "Stopped" not in slack.transcript()
        alice.stop(asked)
        await chat.seen(asked.ts, ENDED)


async def test_discords_button_ends_the_answer_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.delivery.outbox.NOTE_AFTER_S", 0.0)
    harness, model = Harness(tmp_path), Drips()
    harness.model = model
    async with DiscordServer() as server:
        adapter = DiscordAdapter(
            server.token, api_base=server.api_base, gateway_url=server.gateway_url, edit_pace_s=0.05
        )
        harness.adapter = adapter  # type: ignore[assignment]
        async with harness.open() as brain:
            running = asyncio.create_task(adapter.run(brain.router.accept))
            await server.connected()
            alice = server.user("alice")
            asked = await alice.mention(server.general, "tell me a long story")
            thread = await server.thread_of(asked)
            shown = await server.wait_for(lambda: server.last(thread, contains="Slowly now"))
            click = await alice.click(shown, "Stop")
            await server.wait_for(lambda: (shown.content, shown.buttons) == (ENDED, {}))
            await brain.router.idle()
            assert (server.from_bot(thread), click.replies) == ([shown], [])
            model.may_end.set()
            await alice.say(thread, "and a short one?")
            ended = await server.wait_for(lambda: server.last(thread, contains="the end of 2"))
            await server.wait_for(lambda: not ended.buttons)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
