"""What a platform refuses is shown without the part that it refuses, and whole when it can be."""

from pathlib import Path

import pytest

from agent import postman
from agent.domain.content import Button, Card, Content, Fact, Picture
from agent.domain.errors import NotAllowed
from agent.domain.rooms import Room
from agent.ports import MessageRef, Whisper
from tests.agent.conftest import House
from tests.charts.golden import FOLDER
from tests.chat.conftest import Chat
from tests.fakes import ROOM, FakeDoor

CARD = Card(
    kind="result",
    title="Result of r-abc123: ROC AUC 0.7002",
    facts=(Fact(name="Test rows", value="1,000"),),
    picture=Picture(path=str(next(iter(sorted(FOLDER.glob("*.png"))))), alt="a chart", sha256="ab" * 32),
    buttons=(Button(action="logs", subject="r-abc123", label="Log"),),
)


def thread(chat: Chat, ts: str, channel: str) -> Room:
    return Room(platform="slack", tenant=chat.slack.team_id, channel=channel, thread=ts)


class NoFiles(FakeDoor):
    """A channel in which the bot may not attach files."""

    allowed = False

    async def post(self, room: Room, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        self._look(content)
        return await super().post(room, content, key=key, whisper=whisper)

    async def edit(self, room: Room, ref: MessageRef, content: Content) -> MessageRef:
        self._look(content)
        return await super().edit(room, ref, content)

    def _look(self, content: Content) -> None:
        if content.card and content.card.picture and not self.allowed:
            raise NotAllowed("I lack the permission “Attach Files” there.")


async def test_a_refused_picture_costs_the_picture_and_comes_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postman, "WHOLE_AGAIN_S", 0.3)
    house = House(tmp_path)
    door = house.door = NoFiles()
    async with house.open() as brain:
        await brain.postman.put("k", ROOM, Content(card=CARD), urgent=True)
        await house.until(lambda: bool(door.shown))
        (shown,) = door.shown
        assert "Attach Files" in shown.text
        assert shown.card == CARD.model_copy(update={"picture": None})
        door.allowed = True
        await house.until(lambda: door.shown == [Content(card=CARD)])
        await brain.postman.idle()


async def test_a_refused_layout_becomes_words(chat: Chat) -> None:
    asked = chat.slack.user("alice").say("hello")
    for _ in range(3):
        chat.slack.fail("chat.postMessage", error="invalid_blocks")
    async with chat.open() as brain:
        await brain.postman.put("k", thread(chat, asked.ts, asked.channel), Content(card=CARD), urgent=True)
        await chat.seen(asked.ts, "ROC AUC 0.7002", "Test rows: 1,000", "refuses the layout", "logs r-abc123")
