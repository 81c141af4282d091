"""A plan that is said otherwise takes the place of the one that waits, so that one question is open at a time."""

import json
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.domain.approvals import ApprovalState
from agent.domain.content import Card
from agent.domain.inbound import Noticed
from agent.ports import ModelReply, ToolCall
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_turns import asked_to_train
from tests.fakes import ALICE, BOB, ScriptedModel, said


def plans(harness: Harness) -> list[Card]:
    """The cards of plans, the oldest first."""
    return [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]


def is_open(card: Card) -> bool:
    return any(button.action == "approve" for button in card.buttons)


async def settled(harness: Harness, brain: Brain) -> None:
    """That nothing is left to do, and what was done is in the log."""
    await brain.router.idle()
    await brain.delivery.idle()
    assert await brain.stores.inbox.waiting() == []
    assert await brain.stores.conversations.running_turns() == []
    assert (await brain.stores.audit.verified()).broken is None


async def test_a_plan_that_is_changed_in_words_replaces_the_one_that_waits(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        await brain.router.accept(said("make it 50 rounds"))
        await harness.until(lambda: [is_open(card) for card in plans(harness)] == [False, True])
        first, second = plans(harness)
        assert first.footer.startswith("Replaced by alice: `")
        assert second.footer.partition(" ")[0] in first.footer
        await settled(harness, brain)
        await brain.router.accept(said("yes"))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        await settled(harness, brain)
        (run,) = await brain.stores.runs.recent(9)
    assert run.spec.settings == {"rounds": 50}
    assert not any("nothing was started" in text for text in harness.adapter.texts())


@pytest.mark.parametrize(
    ("words", "person"),
    [("train another one with 50 rounds", ALICE), ("make it 50 rounds", BOB)],
    ids=["more", "other"],
)
async def test_one_more_plan_and_that_of_somebody_else_leave_it_open(
    harness: Harness, csv: Path, words: str, person: object
) -> None:
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        await brain.router.accept(said(words, person=person))  # type: ignore[arg-type]
        await harness.until(lambda: [is_open(card) for card in plans(harness)] == [True, True])
        await settled(harness, brain)
        assert len(await brain.stores.approvals.of_state(ApprovalState.PENDING)) == 2


async def test_of_several_plans_the_newest_is_replaced(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        await brain.router.accept(said("train another one with 50 rounds"))
        await harness.until(lambda: [is_open(card) for card in plans(harness)] == [True, True])
        await settled(harness, brain)
        await brain.router.accept(said("make it 60 rounds"))
        await harness.until(lambda: len(plans(harness)) == 3)
        await settled(harness, brain)
        assert [is_open(card) for card in plans(harness)] == [True, False, True]
        await brain.router.accept(said("make it 70 rounds", person=BOB))
        await harness.until(lambda: len(plans(harness)) == 4)
        await brain.router.accept(said("make it 80 rounds"))  # the newest is Bob's
        await harness.until(lambda: len(plans(harness)) == 5)
        await settled(harness, brain)
        assert [is_open(card) for card in plans(harness)] == [True, False, True, True, True]


async def test_what_nobody_asked_for_replaces_nothing(harness: Harness, csv: Path) -> None:
    def train(call_id: str, **given: object) -> ModelReply:
        return ModelReply("", (ToolCall(call_id, "start_training", json.dumps({"target": "health", **given})),), "m")

    harness.model = ScriptedModel(train("c1"), train("c2", seed=3, instead=True))
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        run = await Stage(harness, brain).running()
        notice = Noticed(run=run.id, finding="nan", text="Its loss is NaN.")
        await brain.router.notice(said("").model_copy(update={"act": notice}))
        await harness.until(lambda: len(plans(harness)) == 2)
        await settled(harness, brain)
        assert [is_open(card) for card in plans(harness)] == [True, True]


async def test_a_language_model_says_that_a_plan_replaces_another(harness: Harness, csv: Path) -> None:
    def train(call_id: str, **given: object) -> ModelReply:
        return ModelReply("", (ToolCall(call_id, "start_training", json.dumps({"target": "health", **given})),), "m")

    harness.model = model = ScriptedModel(train("c1"), train("c2", seed=3, instead=True), ModelReply("Ok.", (), "m"))
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        await brain.router.accept(said("with seed 3"))
        await harness.until(lambda: [is_open(card) for card in plans(harness)] == [False, True])
        await settled(harness, brain)
        await brain.router.accept(said("yes"))
        await harness.until(lambda: "Ok." in harness.adapter.texts())
        await settled(harness, brain)
        (run,) = await brain.stores.runs.recent(9)
    assert run.spec.seed == 3
    heard = next(message.text for message in model.asked[-1] if message.call_id == "c1")
    assert json.loads(heard)["approval"] == "rejected"
