"""The bot dies after any of its commits while people decide, speak and stop; each of that counts once."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.domain.content import ALWAYS, Card
from agent.domain.inbound import Inbound
from agent.domain.policy import Grants, grants_of
from agent.ports import OFFLINE, ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from tests.agent.conftest import Harness
from tests.agent.cut_off import Story, audited, buttons, clicks, heard, swept
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, START, THREAD, said

ANSWER = "All of it is done."


class Plans:
    """A model that plans a training for each request, with its number as the seed, and says that it is done."""

    def __init__(self, name: str = "m") -> None:
        self.name = name

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        number = sum(message.role is Role.USER for message in messages)
        call = ToolCall(f"c{number}", "start_training", json.dumps({"target": "health", "seed": number}))
        asked = messages[-1].role is Role.USER
        yield ModelReply("" if asked else f"Request {number} is done.", (call,) if asked else (), self.name)


def approval_cards(harness: Harness) -> list[Card]:
    return [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]


def deciders(harness: Harness) -> list[str]:
    """Who decided each question, as its card says."""
    return [card.footer.partition(" · ")[0] for card in approval_cards(harness)]


async def seeds(harness: Harness, brain: Brain) -> list[int]:
    """The seeds of all runs, each of which was sent to its host under one id."""
    runs = await brain.stores.runs.recent(9)
    assert {run.id for run in runs} == {order.run for order in harness.fleet.launched}
    return sorted(run.spec.seed for run in runs)


# Always: the second training starts without a question.


def says_always(harness: Harness, brain: Brain) -> Iterator[Inbound]:
    if "Request 1 is done." in harness.adapter.texts():
        yield said("and with another seed")
    else:
        yield from clicks(ALWAYS)(harness, brain)


async def allowed_once(harness: Harness, brain: Brain) -> None:
    assert await seeds(harness, brain) == [1, 2]
    assert deciders(harness) == ["Approved by alice", "Approved by alice, always here"]
    (rule,) = await brain.stores.allowances.of(THREAD)
    assert (rule.tool, rule.by) == ("start_training", ALICE.key)
    by_itself = "alice, always here"
    assert await audited(brain) == [
        *("alice: asked", "alice: approved", "alice: always", "alice: done"),
        *("alice: asked", f"{by_itself}: approved", f"{by_itself}: done"),
    ]
    assert [message.call_id for message in await heard(brain, Role.TOOL)] == ["c1", "c2"]
    assert harness.adapter.texts() == ["Request 1 is done.", "Request 2 is done."]


# Two people approve.


def both_approve(harness: Harness, brain: Brain) -> Iterator[Inbound]:
    """Bob does as soon as the card counts Alice."""
    counted = [fact.value for card in approval_cards(harness) for fact in card.facts if fact.name == "Approvals"]
    yield from clicks("approve", person=BOB if counted == ["1 of 2: alice"] else ALICE)(harness, brain)


async def counted_once(harness: Harness, brain: Brain) -> None:
    assert await seeds(harness, brain) == [1]
    assert deciders(harness) == ["Approved by alice and bob"]
    both = "alice and bob"
    assert await audited(brain) == [
        *("alice: asked", "alice: voted", "bob: voted", f"{both}: approved", f"{both}: done")
    ]
    assert [message.call_id for message in await heard(brain, Role.TOOL)] == ["c1"]
    assert harness.adapter.texts() == ["Request 1 is done."]


# A plan is changed and then approved.


def changes_it(harness: Harness, brain: Brain) -> Iterator[Inbound]:
    for card in approval_cards(harness):
        if any(fact.name == "Changed by alice" for fact in card.facts):
            yield from clicks("approve")(harness, brain)
        else:
            yield said("approve with rounds=20")


async def changed_once(harness: Harness, brain: Brain) -> None:
    assert await seeds(harness, brain) == [1]
    (order,) = {order.run: order for order in harness.fleet.launched}.values()
    assert order.spec.settings["rounds"] == 20
    assert deciders(harness) == ["Approved by alice"]
    assert await audited(brain) == ["alice: asked", "alice: changed", "alice: approved", "alice: done"]
    first, *later = [entry.digest for entry in reversed(await brain.stores.audit.newest(THREAD.channel_key, most=9))]
    assert len(set(later)) == 1
    assert first not in later
    (result,) = await heard(brain, Role.TOOL)
    assert json.loads(result.text)["changed_by_people"] == {"settings": {"rounds": 20}}
    *told, answer = harness.adapter.texts()
    assert answer == "Request 1 is done."
    assert len(told) <= 1  # a bot that dies just before it says so has the card say it
    assert all(" anew: rounds: default → 20." in text for text in told)


# A plan is rejected for a reason.


def rejects_it(harness: Harness, brain: Brain) -> Iterator[Inbound]:
    if any(button.action == "approve" for button in buttons(harness)):
        yield said("reject because the GPUs are taken")


async def rejected_once(harness: Harness, brain: Brain) -> None:
    assert await seeds(harness, brain) == []
    assert deciders(harness) == ["Rejected by alice: the GPUs are taken"]
    assert await audited(brain) == ["alice: asked", "alice: rejected"]
    (result,) = await heard(brain, Role.TOOL)
    assert json.loads(result.text)["reason"] == "the GPUs are taken"
    assert harness.adapter.texts() == ["Request 1 is done."]


# Nobody decides in time.

LIFETIME = timedelta(hours=10)


async def time_passes(harness: Harness, brain: Brain) -> None:
    """First to where people are reminded, and then to the end of the question; a new bot looks before it moves on."""
    while True:
        await brain.router.expire()
        await asyncio.sleep(0.01)
        until = START + LIFETIME * 0.9 if approval_cards(harness) else START
        until = START + LIFETIME if any(text.startswith("`a-") for text in harness.adapter.texts()) else until
        harness.clock.forward(max(0.0, (until - harness.clock.now()).total_seconds()))


async def expired_once(harness: Harness, brain: Brain) -> None:
    assert await seeds(harness, brain) == []
    assert await audited(brain) == ["alice: asked", ": expired"]
    (result,) = await heard(brain, Role.TOOL)
    assert json.loads(result.text)["approval"] == "expired"
    reminder, answer = harness.adapter.texts()
    assert "still waits for a decision" in reminder
    assert answer == "Request 1 is done."


# Somebody else says something meanwhile.


class Looks:
    """A model that looks around until it has heard from Bob; it goes on when his words wait."""

    def __init__(self) -> None:
        self.at_work, self.words_wait = False, asyncio.Event()

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        if any("be quick" in message.text for message in messages):
            yield ModelReply(ANSWER, (), "m")
            return
        self.at_work = True
        await self.words_wait.wait()
        self.words_wait.clear()
        yield ModelReply("", (ToolCall(f"c{len(messages)}", "list_runs", "{}"),), "m")


def speaks_meanwhile(harness: Harness, brain: Brain) -> Iterator[Inbound]:
    model, turns = harness.model, brain.router._in_turn.of(THREAD)
    assert isinstance(model, Looks)
    if model.at_work:
        yield said("be quick", person=BOB, mentions_bot=False)
    if turns is not None and turns.waits(0) is not None:
        model.words_wait.set()


async def steered_once(harness: Harness, brain: Brain) -> None:
    said_by = [(message.speaker, message.text) for message in await heard(brain)]
    assert said_by == [("alice", "look around"), ("bob", "be quick")]
    assert harness.adapter.texts() == [ANSWER]


# Somebody stops the answer.


class Drips:
    """A model that trains, and then tells a story without an end."""

    at_work = False

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        if messages[-1].role is Role.USER:
            yield ModelReply("", (ToolCall("c1", "start_training", json.dumps({"target": "health"})),), "m")
            return
        self.at_work = True
        yield "Once upon a time "
        await asyncio.Event().wait()


def stops_it(harness: Harness, brain: Brain) -> Iterator[Inbound]:
    assert isinstance(harness.model, Drips)
    if harness.model.at_work:
        yield said("stop", person=BOB)
    else:
        yield from clicks("approve")(harness, brain)


async def stopped_once(harness: Harness, brain: Brain) -> None:
    assert len(await seeds(harness, brain)) == 1
    assert harness.fleet.stopped == []
    assert [message.text for message in await heard(brain)] == ["train"]
    assert await audited(brain) == ["alice: asked", "alice: approved", "alice: done"]
    assert len(harness.adapter.texts()) == 1


STOPPED = "_Stopped by bob._"
QUORUM = {"quorum": 2, "grants": Grants(approve=grants_of(BOB.id))}
STORIES = {
    "always": Story(lambda: Plans(OFFLINE), "train", "Request 2 is done.", allowed_once, people=says_always),
    "quorum": Story(Plans, "train", "Request 1 is done.", counted_once, people=both_approve, options=QUORUM),
    "changes": Story(Plans, "train", "Request 1 is done.", changed_once, people=changes_it),
    "rejection": Story(Plans, "train", "Request 1 is done.", rejected_once, people=rejects_it),
    "expiry": Story(
        Plans,
        "train",
        "Request 1 is done.",
        expired_once,
        people=clicks(),
        meanwhile=time_passes,
        options={"approval_lifetime": LIFETIME},
    ),
    "steering": Story(Looks, "look around", ANSWER, steered_once, people=speaks_meanwhile),
    "stop": Story(Drips, "train", STOPPED, stopped_once, people=stops_it),
}


@pytest.mark.parametrize("name", STORIES)
async def test_the_bot_dies_after_some_of_its_commits(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert await swept(tmp_path, replace(STORIES[name], files=attached(csv)), monkeypatch, 3, 7) > 7


@pytest.mark.faults
@pytest.mark.parametrize("name", STORIES)
async def test_the_bot_dies_after_each_of_its_commits(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert await swept(tmp_path, replace(STORIES[name], files=attached(csv)), monkeypatch, 1, 1) > 7
