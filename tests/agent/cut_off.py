"""Stories in which the bot dies after any of its commits and starts again; what is shown and stored is as without."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent.brain import Brain
from agent.domain.content import Button, Card
from agent.domain.inbound import Attachment, Inbound, Person
from agent.ports import Model, ModelMessage, Role
from agent.storage.database import Database
from tests.agent.conftest import Harness
from tests.fakes import ALICE, THREAD, clicked, said

LIMIT_S = 30.0
ASKING = frozenset({"approve", "answer", "continue"})
People = Callable[[Harness, Brain], Iterator[Inbound]]
Check = Callable[[Harness, Brain], Coroutine[Any, Any, None]]


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


def buttons(harness: Harness) -> list[Button]:
    """What can be clicked now, in the order of the thread."""
    return [button for content in harness.adapter.shown if content.card for button in content.card.buttons]


def clicks(*wanted: str, person: Person = ALICE) -> People:
    """Somebody clicks each button with such an action or label."""

    def people(harness: Harness, brain: Brain) -> Iterator[Inbound]:
        for button in buttons(harness):
            if button.action in wanted or button.label in wanted:
                yield clicked(button, person=person)

    return people


LEADING_ON = clicks("approve", "continue", "3")


@dataclass(frozen=True)
class Story:
    """Somebody says `asked` after what was said `before`; its end is shown, and then something holds.

    `people` do more once something is shown: each act that it gives is done once. `meanwhile` runs beside them.
    """

    model: Callable[[], Model]
    asked: str
    end: str  # in the last word in the thread
    holds: Check
    before: Sequence[Inbound] = ()
    person: Person = ALICE
    files: tuple[Attachment, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    people: People = LEADING_ON
    meanwhile: Check | None = None


def over(harness: Harness, brain: Brain, story: Story) -> bool:
    """Whether its end stands there, and nothing is left to be stored."""
    busy = brain.router.busy or brain.delivery._senders
    return not busy and any(story.end in text for text in harness.adapter.texts())


async def talk(harness: Harness, brain: Brain, lives: Lives, story: Story, acts: list[Inbound]) -> bool:
    """Do what people would do until the story is over; False where the bot died before.

    `acts` is what they did so far: the platform delivers it again.
    """
    handed = [asyncio.create_task(brain.router.accept(act)) for act in acts]
    beside = [asyncio.create_task(story.meanwhile(harness, brain))] if story.meanwhile else []
    try:
        async with asyncio.timeout(LIMIT_S):
            while not (all(task.done() for task in handed) and over(harness, brain, story)):
                for done in story.people(harness, brain):
                    if all((done.person, done.act) != (act.person, act.act) for act in acts):
                        acts.append(done)
                        handed.append(asyncio.create_task(brain.router.accept(done)))
                if lives.dead.is_set():
                    return False
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"The story does not end; shown is {harness.adapter.shown}") from None
    finally:
        for task in (*handed, *beside):
            task.cancel()
        await asyncio.gather(*handed, *beside, return_exceptions=True)
    return True


async def once(harness: Harness, lives: Lives, story: Story, commits: int) -> bool:
    """A story in which the bot dies after so many commits; whether it did."""
    harness.options = replace(harness.options, **story.options)
    harness.model, acts = story.model(), [said(story.asked, files=story.files, person=story.person)]
    async with harness.open() as brain:
        for words in story.before:
            await brain.router.accept(words)
            await brain.router.idle()
        await brain.delivery.idle()
    lives.begin(commits)
    async with harness.open() as brain:
        died = not await talk(harness, brain, lives, story, acts)
    lives.begin(None)
    async with harness.open() as brain:
        assert await talk(harness, brain, lives, story, acts)
        await brain.service.tick()  # sends what was stored and not sent
        await brain.delivery.idle()
        assert sum(story.end in text for text in harness.adapter.texts()) == 1, harness.adapter.texts()
        assert not any(asks(content.card) for content in harness.adapter.shown)
        left = [*await brain.stores.inbox.waiting(), *await brain.stores.conversations.running_turns()]
        assert not left, left
        assert not harness.adapter.whispers, harness.adapter.whispers  # nobody is told that it was done before
        await story.holds(harness, brain)
    return died


def asks(card: Card | None) -> bool:
    return card is not None and any(button.action in ASKING for button in card.buttons)


async def swept(folder: Path, story: Story, monkeypatch: pytest.MonkeyPatch, first: int, step: int) -> int:
    """How many commits the story has; the bot died after every `step`-th of them."""
    lives, commits = Lives(monkeypatch), first
    while True:
        place = folder / str(commits)
        place.mkdir()
        if not await once(Harness(place), lives, story, commits):
            return commits
        commits += step


async def heard(brain: Brain, role: Role = Role.USER) -> list[ModelMessage]:
    """What the conversation has from people, or from tools."""
    session_id = await brain.stores.conversations.session_of(THREAD, create=False)
    history = (await brain.stores.conversations.context(session_id or "")).history
    return [message for message in history if message.role is role]


async def audited(brain: Brain) -> list[str]:
    """Who did what by the audit log, which is whole; the oldest first."""
    entries = await brain.stores.audit.newest(THREAD.channel_key, most=99)
    verified = await brain.stores.audit.verified()
    assert (verified.broken, verified.entries) == (None, len(entries)), verified
    return [f"{entry.name}: {entry.act}" for entry in reversed(entries)]
