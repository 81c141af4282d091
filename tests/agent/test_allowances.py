"""What starts without asking, what several people have to approve, and what people are reminded of."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from agent.brain import Brain
from agent.domain.content import ALWAYS, CHANGE, Card
from agent.domain.events import Accepted, Started
from agent.domain.inbound import Clicked, Person
from agent.domain.policy import Grants, SecondPerson, grants_of
from agent.domain.runs import RunState
from agent.ports import ModelReply, ToolCall
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_deciding import asked, card_with
from tests.agent.test_sessions import ELSEWHERE
from tests.fakes import ALICE, BOB, THREAD, ScriptedModel, clicked, commanded, said


def labels(card: Card) -> list[str]:
    return [button.label for button in card.buttons]


async def click(harness: Harness, brain: Brain, card: Card, action: str, person: Person = ALICE, text: str = "") -> str:
    """What a click whispers; empty where it says nothing."""
    before = len(harness.adapter.whispers)
    button = next(button for button in card.buttons if button.action == action)
    inbound = clicked(button, person=person)
    assert isinstance(inbound.act, Clicked)
    await brain.router.accept(inbound.model_copy(update={"act": inbound.act.model_copy(update={"text": text})}))
    await brain.router.idle()
    await brain.delivery.idle()
    return harness.adapter.whispers[-1][1].text if len(harness.adapter.whispers) > before else ""


def decided(harness: Harness) -> list[str]:
    """The footers of the approval cards that are decided."""
    cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]
    return [card.footer.partition(" · ")[0] for card in cards if not card.buttons]


async def test_a_kind_of_job_starts_by_itself_once_somebody_said_always(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        card = await asked(harness, brain, csv)
        assert labels(card) == ["Approve", "Reject", "Change…", "Reject, because…", "Always here"]
        assert await click(harness, brain, card, ALWAYS) == ""
        assert len(harness.fleet.launched) == 1
        await stage.tells("train a model that predicts health with seed 3")
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        await stage.settled()
        assert decided(harness) == ["Approved by alice", "Approved by alice, always here"]
        await stage.asks("clone", harness.fleet.launched[0].run, "seed=4")
        await card_with(harness, "approve")  # another kind of job asks
        assert "every `start_training`" in (await stage.asks("auto")).text
        assert "I ask before anything starts" in (await stage.asks("auto", "off")).text
        await stage.tells("train a model that predicts health with seed 5")
        await harness.until(lambda: len([c for c in harness.adapter.shown if c.card and c.card.buttons]) >= 2)
        assert len(harness.fleet.launched) == 2


async def test_what_destroys_is_never_allowed_for_always(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.asks("kill", run.id)
        card = (await stage.asked()).card
        assert card is not None
        assert "Always here" not in labels(card)
        answer = await stage.asks("approve", card.buttons[0].subject, "always")
        assert "asked about every time" in answer.text
        assert harness.fleet.stopped == []


async def starts(harness: Harness, brain: Brain, hours: int) -> bool:
    """Whether a training of so many hours starts without asking; a question is rejected."""
    before = len(harness.fleet.launched)
    await brain.router.accept(commanded("start", "health", f"hours={hours}"))
    await brain.router.idle()
    await brain.delivery.idle()
    started = len(harness.fleet.launched) > before
    if not started:
        await click(harness, brain, await card_with(harness, "approve"), "reject")
    return started


async def test_a_cap_pays_for_what_has_a_price_and_is_settled_when_runs_end(harness: Harness, csv: Path) -> None:
    harness.fleet.an_hour = Decimal(2)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await click(harness, brain, await asked(harness, brain, csv), "reject")
        assert "up to $5.00 in all ($0.00 used or set aside), as alice said" in (await stage.asks("auto", "usd=5")).text
        assert await starts(harness, brain, 2)
        assert decided(harness)[-1] == "Approved by alice, up to $5.00 here"
        assert "$4.00 used or set aside" in (await stage.asks("auto")).text
        assert not await starts(harness, brain, 1), "four and two are more than five"
        run = await brain.stores.runs.get(harness.fleet.launched[0].run)
        await stage.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9))
        await stage.ended(run, RunState.SUCCEEDED)
        assert "$0.033 used or set aside" in (await stage.asks("auto")).text
        assert await starts(harness, brain, 2)
        harness.fleet.an_hour = None
        assert not await starts(harness, brain, 1), "a price that nobody knows asks"


async def test_a_new_cap_counts_what_was_spent_under_the_one_before(harness: Harness, csv: Path) -> None:
    harness.fleet.an_hour = Decimal(2)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await click(harness, brain, await asked(harness, brain, csv), "reject")
        await stage.asks("auto", "usd=5")
        assert await starts(harness, brain, 2)
        again = (await stage.asks("auto", "usd=5", person=BOB)).text
        assert "up to $5.00 in all ($4.00 used or set aside), as bob said" in again
        assert not await starts(harness, brain, 1)
        assert "up to $6.00 in all ($4.00 used" in (await stage.asks("auto", "usd=6")).text
        assert await starts(harness, brain, 1)
        assert not await starts(harness, brain, 1)
        await stage.asks("auto", "off")
        assert "up to $5.00 in all ($0.00 used" in (await stage.asks("auto", "usd=5")).text, "a decision of its own"


async def test_words_of_others_take_the_allowance_away(harness: Harness, csv: Path) -> None:
    call = ToolCall("c2", "start_training", json.dumps({"target": "health"}))
    look = ToolCall("c1", "list_runs", "{}")
    harness.model = ScriptedModel(
        ModelReply("", (replace(call, id="c0"),), "m"),
        ModelReply("Started.", (), "m"),
        ModelReply("", (look,), "m"),
        ModelReply("", (call,), "m"),
    )
    async with harness.open() as brain:
        await click(harness, brain, await asked(harness, brain, csv), ALWAYS)
        assert len(harness.fleet.launched) == 1
        await brain.router.accept(said("look at the runs and go on"))
        await card_with(harness, "approve")
        await brain.router.idle()
        assert len(harness.fleet.launched) == 1


async def test_what_was_allowed_goes_on_after_a_restart(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        await click(harness, brain, await asked(harness, brain, csv), ALWAYS)
    async with harness.open() as brain:
        await brain.recover()
        assert await starts(harness, brain, 1)


async def test_what_was_allowed_stays_in_its_thread_whatever_conversation_that_goes_on_with(
    harness: Harness, csv: Path
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await click(harness, brain, await asked(harness, brain, csv), ALWAYS)
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        for words in (f"resume {session_id}", "train a model that predicts health with seed 3"):
            await brain.router.accept(said(words, person=BOB, thread=ELSEWHERE))
            await stage.settled()
        assert await brain.stores.conversations.session_of(ELSEWHERE, create=False) == session_id
        await click(harness, brain, await card_with(harness, "approve"), "reject", person=BOB)
        assert len(harness.fleet.launched) == 1
        await stage.tells("new")
        assert await starts(harness, brain, 1)
        third = THREAD.model_copy(update={"thread_id": "1700000001.000001"})
        await brain.router.accept(said("hello there", thread=third))
        await stage.settled()
        other = await brain.stores.conversations.session_of(third, create=False)
        assert f"`{other}`" in await stage.tells(f"resume {other}")
        assert "every `start_training`" in (await stage.asks("auto")).text
        await stage.tells(f"resume {session_id}")
        await stage.tells("train a model that predicts health with seed 5")
        assert decided(harness)[-1] == "Approved by alice, always here"


async def test_where_several_decide_nothing_is_allowed_for_always(harness: Harness, csv: Path) -> None:
    for change in ({"quorum": 2}, {"second_person": SecondPerson.SPEND}):
        harness.options = replace(harness.options, **change)
        async with harness.open() as brain:
            card = await asked(harness, brain, csv)
            assert "Always here" not in labels(card)
            assert "several people" in (await Stage(harness, brain).asks("auto", "usd=5")).text


async def test_several_people_approve_and_the_card_counts_them(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, quorum=2, grants=Grants(approve=grants_of(BOB.id)))
    async with harness.open() as brain:
        card = await asked(harness, brain, csv)
        for _ in range(2):  # one person counts once
            await click(harness, brain, card, "approve")
            card = await card_with(harness, "approve")
            assert [fact.value for fact in card.facts if fact.name == "Approvals"] == ["1 of 2: alice"]
        assert harness.fleet.launched == []
    async with harness.open() as brain:
        await brain.recover()
        await click(harness, brain, card, "approve", BOB)
        assert len(harness.fleet.launched) == 1
        assert decided(harness)[-1] == "Approved by alice and bob"
        rows = [(entry.act, entry.name) for entry in await brain.stores.audit.newest(THREAD.channel_key, most=9)]
        assert rows[:4] == [
            ("done", "alice and bob"),
            ("approved", "alice and bob"),
            ("voted", "bob"),
            ("voted", "alice"),
        ]


async def test_a_change_asks_everybody_anew(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, quorum=2, grants=Grants(approve=grants_of(BOB.id)))
    async with harness.open() as brain:
        card = await asked(harness, brain, csv)
        await click(harness, brain, card, "approve")
        assert " anew: seed: 7 → 3" in await click(harness, brain, card, CHANGE, BOB, "seed=3")
        newer = await card_with(harness, "approve")
        assert [fact.value for fact in newer.facts if fact.name == "Approvals"] == ["0 of 2"]
        assert "older version" in await click(harness, brain, card, "approve", BOB)
        assert "older version" in await click(harness, brain, card, CHANGE, BOB, "seed=4")
        await click(harness, brain, newer, "approve", BOB)
        assert harness.fleet.launched == []
        await click(harness, brain, newer, "approve")
        assert harness.fleet.launched[0].spec.seed == 3


async def test_a_change_without_words_says_how_to_write_one(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        card = await asked(harness, brain, csv)
        assert "`approve a-" in await click(harness, brain, card, CHANGE)


async def test_people_are_reminded_once_before_a_question_expires(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, approval_lifetime=timedelta(hours=10))
    async with harness.open() as brain:
        card = await asked(harness, brain, csv)
        harness.clock.forward(7.5 * 3600)
        await brain.router.expire()
        before = len(harness.adapter.texts())
        harness.clock.forward(0.6 * 3600)
        for _ in range(3):
            await brain.router.expire()
        await brain.delivery.idle()
        (reminder,) = harness.adapter.texts()[before:]
        assert reminder.startswith(f"`{card.buttons[0].subject}` (")
        assert "still waits for a decision. It expires at" in reminder
        assert reminder.endswith("alice asked.")
