"""The bot dies after any of its commits, in a turn that a language model leads; the conversation does not notice."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent.brain import Brain
from agent.domain.inbound import Inbound
from agent.ports import ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from agent.storage.database import Database
from tests.agent.conftest import Harness
from tests.agent.test_turns import attached
from tests.fakes import clicked, said

ANSWER = "All of it is done."
LIMIT_S = 30.0


class Led:
    """A model that looks twice, asks people, plans a training and answers; what it does next the conversation says."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        results = 0
        for message in reversed(messages):
            if message.role is Role.USER:
                break
            results += message.role is Role.TOOL
        steps: dict[int, tuple[ToolCall, ...]] = {
            0: (ToolCall("c1", "list_runs", "{}"), ToolCall("c2", "list_hosts", "{}")),
            2: (ToolCall("c3", "ask_user", json.dumps({"question": "Which seed?", "choices": ["3", "7"]})),),
            3: (ToolCall("c4", "start_training", json.dumps({"target": "health", "seed": 3})),),
        }
        calls = steps.get(results, ())
        if not calls:
            yield ANSWER
        yield ModelReply("" if calls else ANSWER, calls, "m", tokens_in=10, tokens_out=2, cost_usd=0.001)


class Lives:
    """Commits of the bot; after so many it is dead: nothing of it is stored any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None  # commits until it dies; None: it lives
        self.dead = asyncio.Event()
        write = Database.write

        async def counted(database: Database, run: Callable[[Connection], Any]) -> Any:
            if self.left == 0:
                self.dead.set()
                await asyncio.Event().wait()
            if self.left is not None:
                self.left -= 1
            return await write(database, run)

        monkeypatch.setattr(Database, "write", counted)

    def begin(self, commits: int | None) -> None:
        self.left, self.dead = commits, asyncio.Event()


async def talk(harness: Harness, brain: Brain, lives: Lives, asked: Inbound) -> bool:
    """Do what people would do until the answer stands there; False where the bot died before."""
    handed = [asyncio.create_task(brain.router.accept(asked))]  # the platform delivers it again
    clicks: set[tuple[str, str]] = set()
    try:
        async with asyncio.timeout(LIMIT_S):
            while ANSWER not in harness.adapter.texts():
                for content in harness.adapter.shown:
                    for button in content.card.buttons if content.card else ():
                        wanted = button.action == "approve" or (button.action == "answer" and button.label == "3")
                        if wanted and (button.action, button.subject) not in clicks:
                            clicks.add((button.action, button.subject))
                            handed.append(asyncio.create_task(brain.router.accept(clicked(button))))
                if lives.dead.is_set():
                    return False
                await asyncio.sleep(0.01)
    finally:
        for task in handed:
            task.cancel()
        await asyncio.gather(*handed, return_exceptions=True)
    return True


async def once(harness: Harness, lives: Lives, csv: Path, commits: int) -> bool:
    """A conversation in which the bot dies after so many commits; whether it did. Everything is said and done once."""
    asked = said("look around, ask me, and train", files=attached(csv))
    lives.begin(commits)
    async with harness.open() as brain:
        died = not await talk(harness, brain, lives, asked)
    lives.begin(None)
    async with harness.open() as brain:
        assert await talk(harness, brain, lives, asked)
        await brain.router.idle()
        await brain.service.tick()  # sends what was stored and not sent
        await brain.delivery.idle()
        assert harness.adapter.texts().count(ANSWER) == 1, harness.adapter.texts()
        assert len({order.run for order in harness.fleet.launched}) == 1
        assert len(await brain.stores.runs.recent(9)) == 1
        session_id = await brain.stores.conversations.session_of(asked.thread, create=False)
        assert session_id is not None
        history = (await brain.stores.conversations.context(session_id)).history
        answered = [message.call_id for message in history if message.role is Role.TOOL]
        assert sorted(answered) == ["c1", "c2", "c3", "c4"]
        assert [message.text for message in history if message.role is Role.USER] == ["look around, ask me, and train"]
        assert not any(content.card.buttons for content in harness.adapter.shown if asks(content.card))
    return died


def asks(card: Any) -> bool:
    return card is not None and any(button.action in {"approve", "answer"} for button in card.buttons)


async def swept(folder: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, first: int, step: int) -> int:
    """How many commits the conversation has; the bot died after every `step`-th of them."""
    lives, commits = Lives(monkeypatch), first
    while True:
        place = folder / str(commits)
        place.mkdir()
        harness = Harness(place)
        harness.model = Led()
        if not await once(harness, lives, csv, commits):
            return commits
        commits += step


async def test_the_bot_dies_after_some_of_its_commits(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await swept(tmp_path, csv, monkeypatch, 3, 7) > 20


@pytest.mark.faults
async def test_the_bot_dies_after_each_of_its_commits(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await swept(tmp_path, csv, monkeypatch, 1, 1) > 20
