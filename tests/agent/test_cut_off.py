"""The bot dies after any of its commits, in a turn that a model leads or a command; nobody notices."""

import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.conversation.guards import TurnLimits
from agent.ports import ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from tests.agent.conftest import Harness
from tests.agent.cut_off import Check, Story, audited, clicks, heard, swept
from tests.agent.test_sessions import ELSEWHERE
from tests.agent.test_turns import attached
from tests.fakes import BOB, said

ANSWER = "All of it is done."


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


async def trained_once(harness: Harness, brain: Brain) -> None:
    assert len({order.run for order in harness.fleet.launched}) == 1
    assert len(await brain.stores.runs.recent(9)) == 1
    assert sorted(result.call_id for result in await heard(brain, Role.TOOL)) == ["c1", "c2", "c3", "c4"]
    assert [message.text for message in await heard(brain)] == ["look around, ask me, and train"]


class Halting:
    """A model that looks once a turn until it is told to go on."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        calls = () if messages[-1].text == "Go on." else (ToolCall("c1", "list_runs", "{}"),)
        yield ModelReply("" if calls else ANSWER, calls, "m")


async def went_on_once(harness: Harness, brain: Brain) -> None:
    assert [message.text for message in await heard(brain)] == ["look around", "Go on."]
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


def reads(*expected: str) -> Check:
    """That a model reads this from now on."""

    async def holds(harness: Harness, brain: Brain) -> None:
        assert len(harness.adapter.texts()) == 3, harness.adapter.texts()
        await brain.router.accept(said("and now?"))
        await brain.router.idle()
        assert isinstance(harness.model, Counts)
        assert harness.model.read == [*expected, "and now?"]

    return holds


def does(*expected: str) -> Check:
    """That a model reads this from now on, and that the audit log has who did that."""

    async def holds(harness: Harness, brain: Brain) -> None:
        assert set(await audited(brain)) == {"alice: did"}
        await reads(*expected)(harness, brain)

    return holds


async def bob_is_forgotten(harness: Harness, brain: Brain) -> None:
    with contextlib.closing(sqlite3.connect(harness.folder / "test.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = str([database.execute(f'SELECT * FROM "{name}"').fetchall() for name in names])
    assert "canary" not in kept
    forget = ("[deleted]", "", '{"text": "I deleted 2 messages of yours."}', "I deleted 2 messages of yours.")
    await reads("[deleted]", "I read 1.", "a sparrow", "I read 3.", *forget)(harness, brain)


BEFORE = (said("one"), said("two"))
THERE = said("there", thread=ELSEWHERE)
LINK = "https://team.slack.com/archives/C1/p1700000000123456?thread_ts=1700000000.123456&cid=C1"
SUMMARY = "[summary, by Trainyard, of what was said before] I read 1."
FORGET = Story(
    Counts,
    "forget me",
    "I deleted 2 messages of yours.",
    bob_is_forgotten,
    (said("the canary sings", person=BOB), said("a sparrow")),
    BOB,
    people=clicks("approve", person=BOB),
)
GO_ON = Story(Halting, "look around", ANSWER, went_on_once, options={"limits": TurnLimits(steps=1)})
COMMANDS = [
    Story(Counts, "undo", "I forgot the last turn: “two”", does("one", "I read 1."), BEFORE),
    Story(Counts, "compact", "_I summarised the 4 messages", does(SUMMARY), BEFORE),
    Story(Counts, "new", "_A fresh start", does(), BEFORE),
    Story(Counts, f"resume {LINK}", "This thread goes on", does("there", "I read 1."), (said("one"), THERE)),
    pytest.param(FORGET, marks=pytest.mark.faults),
    pytest.param(GO_ON, marks=pytest.mark.faults),
]


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
