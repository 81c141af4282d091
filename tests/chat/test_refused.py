"""What a platform refuses is shown without the part that it refuses, and whole when it can be."""

from pathlib import Path

import pytest

from agent.delivery import outbox as module
from agent.domain.content import Button, Card, Content, Fact, Picture, Table
from agent.domain.errors import NotAllowed
from agent.domain.inbound import Thread
from agent.ports import MessageRef, Whisper
from tests.agent.conftest import Harness
from tests.charts.golden import FOLDER
from tests.chat.conftest import Chat
from tests.discord.conftest import Bot
from tests.fakes import THREAD, FakeAdapter
from tests.platforms.discord_server import DiscordServer

CARD = Card(
    kind="result",
    title="Result of r-abc123: ROC AUC 0.7002",
    facts=(Fact(name="Test rows", value="1,000"),),
    picture=Picture(path=str(next(iter(sorted(FOLDER.glob("*.png"))))), alt="a chart", sha256="ab" * 32),
    buttons=(Button(action="logs", subject="r-abc123", label="Log"),),
)


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole message is tried again after a moment."""
    monkeypatch.setattr(module, "WHOLE_AGAIN_S", 0.3)


def thread(chat: Chat, ts: str, channel: str) -> Thread:
    return Thread(platform="slack", tenant=chat.slack.team_id, channel=channel, thread_id=ts)


class NoFiles(FakeAdapter):
    """A channel in which the bot may not attach files."""

    allowed = False

    async def post(self, address: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        self._look(content)
        return await super().post(address, content, key=key, whisper=whisper)

    async def edit(self, address: Thread, ref: MessageRef, content: Content) -> MessageRef:
        self._look(content)
        return await super().edit(address, ref, content)

    def _look(self, content: Content) -> None:
        if content.card and content.card.picture and not self.allowed:
            raise NotAllowed("I lack the permission “Attach Files” there.")


async def test_a_refused_picture_costs_the_picture_and_comes_when_it_can(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    adapter = harness.adapter = NoFiles()
    async with harness.open() as brain:
        await brain.delivery.put("k", THREAD, Content(card=CARD), urgent=True)
        await harness.until(lambda: bool(adapter.shown))
        (shown,) = adapter.shown
        assert "Attach Files" in shown.text
        assert shown.card == CARD.model_copy(update={"picture": None})
        adapter.allowed = True
        await harness.until(lambda: adapter.shown == [Content(card=CARD)])
        await brain.delivery.idle()


async def test_a_refused_layout_becomes_words(chat: Chat) -> None:
    asked = chat.slack.user("alice").say("hello")
    for _ in range(3):
        chat.slack.fail("chat.postMessage", error="invalid_blocks")
    async with chat.open() as brain:
        await brain.delivery.put("k", thread(chat, asked.ts, asked.channel), Content(card=CARD), urgent=True)
        await chat.seen(asked.ts, "ROC AUC 0.7002", "Test rows: 1,000", "refuses the layout", "logs r-abc123")


async def test_without_the_right_to_upload_slack_shows_the_card_and_the_scope(chat: Chat) -> None:
    slack = chat.slack
    asked = slack.user("alice").say("hello")
    slack.scopes.discard("files:write")
    async with chat.open() as brain:
        await brain.delivery.put("k", thread(chat, asked.ts, asked.channel), Content(card=CARD), urgent=True)
        shown = await chat.seen(asked.ts, "ROC AUC 0.7002", "lacks the scope files:write", "Log")
        assert shown.pictures == []
        slack.scopes.add("files:write")
        await slack.wait_for(lambda: shown.pictures and "files:write" not in shown.shown)
        assert slack.thread(asked.ts) == [asked, shown]


@pytest.mark.parametrize("unknown", ["table", "actions"])
async def test_a_block_that_slack_does_not_know_becomes_words_until_it_does(chat: Chat, unknown: str) -> None:
    slack = chat.slack
    asked = slack.user("alice").say("hello")
    slack.unknown_blocks.add(unknown)
    card = CARD.model_copy(update={"table": Table(columns=("model", "score"), rows=(("LightGBM", "0.7002"),))})
    async with chat.open() as brain:
        await brain.delivery.put("k", thread(chat, asked.ts, asked.channel), Content(card=card), urgent=True)
        shown = await chat.seen(asked.ts, "ROC AUC 0.7002", "LightGBM | 0.7002", f"unsupported type: {unknown}")
        assert "logs r-abc123" in shown.shown
        slack.unknown_blocks.clear()
        await slack.wait_for(lambda: shown.pictures and "Log" in shown.buttons)
        assert "unsupported" not in shown.shown


@pytest.mark.parametrize(
    ("missing", "named"),
    [(("attach_files",), "“Attach Files”"), (("attach_files", "embed_links"), "“Embed Links”, “Attach Files”")],
)
async def test_without_its_permissions_discord_shows_what_it_may(
    tmp_path: Path, missing: tuple[str, ...], named: str
) -> None:
    async with DiscordServer() as server:
        server.forbid(*missing)
        bot, harness = await Bot(server).start(), Harness(tmp_path)
        harness.adapter = bot.adapter  # type: ignore[assignment]
        async with harness.open() as brain:
            await brain.delivery.put("k", bot.address(server.general), Content(card=CARD), urgent=True)
            shown = await server.wait_for(lambda: server.last(server.general, contains="ROC AUC 0.7002"))
            assert named in shown.content
            assert "1,000" in shown.text
            assert (shown.embeds == []) == ("embed_links" in missing)
            server.allow(*missing)
            await server.wait_for(lambda: shown.attachments and "permission" not in shown.text)
            assert (shown.content, list(shown.buttons)) == ("", ["Log"])
            assert server.messages(server.general) == [shown]
        await bot.stop()
