"""The bot dies after any of its commits, in a turn that a model leads or a command; nobody notices."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent.brain import Brain
from agent.conversation.guards import TurnLimits
from agent.domain.content import Card
from agent.domain.inbound import Attachment, Inbound, Person
from agent.ports import Model, ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from agent.storage.database import Database
from tests.agent.conftest import Harness
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, THREAD, clicked, said

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

        async def counted(database: Database, run: Callable[[Connection], Any], *, flushed: bool = True) -> Any:
            if self.left == 0:
                self.dead.set()
                await asyncio.Event().wait()
            if self.left is not None:
                self.left -= 1
            return await write(database, run, flushed=flushed)

        monkeypatch.setattr(Database, "write", counted)

    def begin(self, commits: int | None) -> None:
        self.left, self.dead = commits, asyncio.Event()


@dataclass(frozen=True)
class Story:
    """Somebody says `asked` after what was said `before`; its end is shown, and then something holds."""

    model: Callable[[], Model]
    asked: str
    end: str  # the last word in the thread begins like this
    holds: Callable[[Harness, Brain], Awaitable[None]]
    before: Sequence[Inbound] = ()
    person: Person = ALICE
    files: tuple[Attachment, ...] = ()
    limits: TurnLimits = field(default_factory=TurnLimits)


def over(harness: Harness, brain: Brain, story: Story) -> bool:
    """Whether its end stands there, and nothing is left to be stored."""
    busy = brain.router.busy or brain.delivery._senders
    return not busy and any(text.startswith(story.end) for text in harness.adapter.texts())


async def talk(harness: Harness, brain: Brain, lives: Lives, story: Story, asked: Inbound) -> bool:
    """Do what people would do until the story is over; False where the bot died before."""
    handed = [asyncio.create_task(brain.router.accept(asked))]  # the platform delivers it again
    clicks: set[tuple[str, str]] = set()
    try:
        async with asyncio.timeout(LIMIT_S):
            while not (handed[0].done() and over(harness, brain, story)):
                for content in harness.adapter.shown:
                    for button in content.card.buttons if content.card else ():
                        wanted = button.action in {"approve", "continue"} or button.label == "3"
                        if wanted and (button.action, button.subject) not in clicks:
                            clicks.add((button.action, button.subject))
                            handed.append(
                                asyncio.create_task(brain.router.accept(clicked(button, person=story.person)))
                            )
                if lives.dead.is_set():
                    return False
                await asyncio.sleep(0.005)
    finally:
        for task in handed:
            task.cancel()
        await asyncio.gather(*handed, return_exceptions=True)
    return True


async def once(harness: Harness, lives: Lives, story: Story, commits: int) -> bool:
    """A story in which the bot dies after so many commits; whether it did."""
    harness.options = replace(harness.options, limits=story.limits)
    harness.model, asked = story.model(), said(story.asked, files=story.files, person=story.person)
    async with harness.open() as brain:
        for words in story.before:
            await brain.router.accept(words)
            await brain.router.idle()
        await brain.delivery.idle()
    lives.begin(commits)
    async with harness.open() as brain:
        died = not await talk(harness, brain, lives, story, asked)
    lives.begin(None)
    async with harness.open() as brain:
        assert await talk(harness, brain, lives, story, asked)
        await brain.service.tick()  # sends what was stored and not sent
        await brain.delivery.idle()
        assert sum(text.startswith(story.end) for text in harness.adapter.texts()) == 1, harness.adapter.texts()
        assert not any(asks(content.card) for content in harness.adapter.shown)
        await story.holds(harness, brain)
    return died


def asks(card: Card | None) -> bool:
    return card is not None and any(button.action in {"approve", "answer", "continue"} for button in card.buttons)


async def trained_once(harness: Harness, brain: Brain) -> None:
    assert len({order.run for order in harness.fleet.launched}) == 1
    assert len(await brain.stores.runs.recent(9)) == 1
    session_id = await brain.stores.conversations.session_of(THREAD, create=False)
    history = (await brain.stores.conversations.context(session_id or "")).history
    answered = [message.call_id for message in history if message.role is Role.TOOL]
    assert sorted(answered) == ["c1", "c2", "c3", "c4"]
    assert [message.text for message in history if message.role is Role.USER] == ["look around, ask me, and train"]


class Halting:
    """A model that looks once a turn until it is told to go on."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        calls = () if messages[-1].text == "Go on." else (ToolCall("c1", "list_runs", "{}"),)
        yield ModelReply("" if calls else ANSWER, calls, "m")


async def went_on_once(harness: Harness, brain: Brain) -> None:
    session_id = await brain.stores.conversations.session_of(THREAD, create=False)
    history = (await brain.stores.conversations.context(session_id or "")).history
    assert [message.text for message in history if message.role is Role.USER] == ["look around", "Go on."]
    assert len(harness.adapter.texts()) == 2


class Counts:
    """A model that says how much it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        self.read = [message.text for message in messages[1:]]
        yield ModelReply(f"I read {len(self.read)}.", (), "m")


def reads(*expected: str) -> Callable[[Harness, Brain], Awaitable[None]]:
    """That a model reads this from now on."""

    async def holds(harness: Harness, brain: Brain) -> None:
        assert len(harness.adapter.texts()) == 3, harness.adapter.texts()
        await brain.router.accept(said("and now?"))
        await brain.router.idle()
        assert isinstance(harness.model, Counts)
        assert harness.model.read == [*expected, "and now?"]

    return holds


async def bob_is_forgotten(harness: Harness, brain: Brain) -> None:
    with contextlib.closing(sqlite3.connect(harness.folder / "test.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = str([database.execute(f'SELECT * FROM "{name}"').fetchall() for name in names])
    assert "canary" not in kept
    forget = ("[deleted]", "", '{"text": "I deleted 2 messages of yours."}', "I deleted 2 messages of yours.")
    await reads("[deleted]", "I read 1.", "a sparrow", "I read 3.", *forget)(harness, brain)


BEFORE = (said("one"), said("two"))
SUMMARY = "[summary, by Trainyard, of what was said before] I read 1."
FORGET = Story(
    Counts,
    "forget me",
    "I deleted 2 messages of yours.",
    bob_is_forgotten,
    (said("the canary sings", person=BOB), said("a sparrow")),
    BOB,
)
GO_ON = Story(Halting, "look around", ANSWER, went_on_once, limits=TurnLimits(steps=1))
COMMANDS = [
    Story(Counts, "undo", "I forgot the last turn: “two”", reads("one", "I read 1."), BEFORE),
    Story(Counts, "compact", "_I summarised the 4 messages", reads(SUMMARY), BEFORE),
    Story(Counts, "new", "_A fresh start", reads(), BEFORE),
    pytest.param(FORGET, marks=pytest.mark.faults),
    pytest.param(GO_ON, marks=pytest.mark.faults),
]


async def swept(folder: Path, story: Story, monkeypatch: pytest.MonkeyPatch, first: int, step: int) -> int:
    """How many commits the story has; the bot died after every `step`-th of them."""
    lives, commits = Lives(monkeypatch), first
    while True:
        place = folder / str(commits)
        place.mkdir()
        if not await once(Harness(place), lives, story, commits):
            return commits
        commits += step


def trains(csv: Path) -> Story:
    """The conversation that a language model leads."""
    return Story(Led, "look around, ask me, and train", ANSWER, trained_once, files=attached(csv))


async def test_the_bot_dies_after_some_of_its_commits(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await swept(tmp_path, trains(csv), monkeypatch, 3, 7) > 20


@pytest.mark.faults
async def test_the_bot_dies_after_each_of_its_commits(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await swept(tmp_path, trains(csv), monkeypatch, 1, 1) > 20


@pytest.mark.parametrize("story", COMMANDS, ids=lambda story: story.asked)
async def test_the_bot_dies_after_each_commit_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    assert await swept(tmp_path, story, monkeypatch, 1, 1) > 3
