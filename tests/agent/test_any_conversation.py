"""Any words, clicks and restarts, with a model that does anything: all is answered, and nothing waits for ever."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.conversation.guards import TurnLimits
from agent.domain.approvals import ApprovalState
from agent.domain.errors import TooLong, Unavailable
from agent.domain.inbound import Inbound
from agent.domain.policy import Effect
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema
from agent.tools.tool import Caller, Result, Tool
from tests.agent.conftest import Harness
from tests.agent.slow_tools import What
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, GUEST, THREAD, clicked, said

WORDS = ("go", "do it now please", "what is up", "train")
COMMANDS = ("stop", "cancel", "undo", "new", "compact", "export", "forget me", "yes", "no", "stop talking")
CLICKS = {"approve", "reject", "answer", "continue", "leave", "always"}
CALLS = (
    ("look", {}),
    ("change", {}),
    ("breaks", {}),
    ("unknown", {}),
    ("ask_user", {"question": "Which?", "choices": ["x", "y"]}),
    ("start_training", {"target": "health"}),
)


class Anything:
    """A model and its tools; the seed says what they do, and when."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.asked = draw, 0

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        self.asked += 1
        await asyncio.sleep(self.draw.random() * 0.02)
        if self.draw.random() < 0.1:
            raise self.draw.choice([TooLong("It is too long."), Unavailable("It is away.")])
        made = [self.draw.choice(CALLS) for _ in range(self.draw.choice([0, 0, 1, 2, 3]) if tools else 0)]
        calls = (ToolCall(str(number), tool, json.dumps(given)) for number, (tool, given) in enumerate(made))
        text = "" if made else f"Answer {self.asked}."
        yield text
        yield ModelReply(text, tuple(calls), "m", tokens_in=self.draw.choice([0, 100, 15_000]))

    def tools(self) -> Sequence[Tool]:
        return (
            Tool("look", "Look.", What, Effect.READ, run=self._work, quotes=False),
            Tool("change", "Change it.", What, Effect.WRITE, run=self._work, quotes=False),
            Tool("breaks", "Break.", What, Effect.READ, run=self._break, quotes=False),
        )

    async def _work(self, _caller: Caller, _asked: What) -> Result:
        await asyncio.sleep(self.draw.random() * 0.03)
        return Result("x" * self.draw.choice([5, 20_000]))

    async def _break(self, _caller: Caller, _asked: What) -> Result:
        raise self.draw.choice([asyncio.CancelledError(), ValueError("a bug")])

    def act(self, harness: Harness, csv: Path) -> Inbound:
        """What somebody does next."""
        who, files = self.draw.choice([ALICE, ALICE, BOB, GUEST]), attached(csv) if self.draw.random() < 0.2 else ()
        buttons = [b for c in harness.adapter.shown if c.card for b in c.card.buttons if b.action in CLICKS]
        match self.draw.choice(("words", "click", "command")):
            case "click" if buttons:
                return clicked(self.draw.choice(buttons), person=who)
            case "command":
                return said(self.draw.choice(COMMANDS), person=who)
            case _:
                return said(self.draw.choice(WORDS), person=who, files=files)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(20))
async def test_all_is_answered_and_nothing_waits_for_ever(harness: Harness, csv: Path, seed: int) -> None:
    draw = random.Random(seed)
    harness.model = model = Anything(draw)
    harness.toolsets = (model,)
    limits = TurnLimits(steps=draw.choice([2, 6]))
    harness.options = replace(harness.options, context_tokens=draw.choice([20_000, 100_000]), limits=limits)
    for _ in range(4):  # it is ended in the middle of whatever it does
        async with harness.open() as brain:
            for _ in range(draw.randrange(4, 14)):
                act = model.act(harness, csv)
                for _ in range(draw.choice([1, 1, 2])):  # platforms deliver some twice
                    await brain.router.accept(act)
                await asyncio.sleep(draw.choice([0.0, 0.08 * draw.random()]))
    async with harness.open() as brain, asyncio.timeout(30):
        await brain.router.idle()
        await brain.delivery.idle()
        assert await brain.stores.inbox.waiting() == []
        assert {turn.id for turn in await brain.stores.conversations.running_turns()} <= await asking(brain)
        assert not [text for text in harness.adapter.texts() if "Something broke" in text]
        answered_once(harness, await asking(brain))


async def asking(brain: Brain) -> set[str]:
    """The turns that wait for people."""
    approvals = await brain.stores.approvals.of_state(ApprovalState.PENDING)
    return {one.turn_id for one in (*approvals, *await brain.stores.questions.open_in(THREAD))}


def answered_once(harness: Harness, waiting: set[str]) -> None:
    """Each call has an id of its own and one answer at most, and a turn is paused only while people are asked."""
    with closing(sqlite3.connect(harness.folder / "test.db")) as database:
        for turn_id, state in database.execute("SELECT id, state FROM turn").fetchall():
            rows = database.execute("SELECT calls, call_id FROM message WHERE turn_id = ?", (turn_id,)).fetchall()
            called = [call_id for calls, _ in rows if calls for call_id, *_ in json.loads(calls)]
            answered = [call_id for _, call_id in rows if call_id]
            assert len(set(called)) == len(called)
            assert len(set(answered)) == len(answered)
            assert set(answered) <= set(called)
            assert state != "paused" or turn_id in waiting
