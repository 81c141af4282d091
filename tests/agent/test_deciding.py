"""What people can say to an approval besides yes and no: why not, and with which changes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.commands.typed import Decision, decision_of, words_of
from agent.domain.approvals import ApprovalState
from agent.domain.content import REJECT_BECAUSE, Card
from agent.domain.errors import BadRequest
from agent.domain.policy import Grants, SecondPerson, grants_of
from agent.ports import ModelReply, Role, ToolCall
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_turns import attached
from tests.fakes import BOB, ScriptedModel, clicked, commanded, said


async def asked(harness: Harness, brain: Brain, csv: Path) -> Card:
    """The card of a training that waits for people."""
    await brain.router.accept(said("train a model that predicts health", files=attached(csv)))
    return await card_with(harness, "approve")


async def card_with(harness: Harness, action: str) -> Card:
    """The newest approval card with such a button."""

    def found() -> list[Card]:
        cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]
        return [card for card in cards if any(button.action == action for button in card.buttons)]

    await harness.until(lambda: bool(found()))
    return found()[-1]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("reject because it is too expensive", Decision(False, reason="it is too expensive")),
        ("No, because Friday", Decision(False, reason="Friday")),
        ("reject `a-1`: because of the price", Decision(False, "a-1", reason="of the price")),
        ("approve a-1 with epochs=3, and lr=1e-4", Decision(True, "a-1", changes=("epochs=3", "lr=1e-4"))),
        ("yes with hours=2", Decision(True, changes=("hours=2",))),
        ("approve it please", Decision(True)),
        ("yes with fewer epochs", None),
        ("reject the second one", None),
        ("no because", None),
    ],
)
def test_a_decision_is_read_whole_or_not_at_all(text: str, means: Decision | None) -> None:
    words = words_of(text)
    assert (decision_of(words) if words else None) == means


async def test_the_reason_of_a_rejection_reaches_the_model_and_the_card(harness: Harness, csv: Path) -> None:
    call = ToolCall("c1", "start_training", json.dumps({"target": "health"}))
    harness.model = model = ScriptedModel(ModelReply("", (call,), "m"), ModelReply("Then on Monday.", (), "m"))
    async with harness.open() as brain:
        await asked(harness, brain, csv)
        await brain.router.accept(said("reject because the GPUs are taken till Monday"))
        await harness.until(lambda: "Then on Monday." in harness.adapter.texts())
        await brain.delivery.idle()
    heard = [json.loads(told.text) for told in model.asked[-1] if told.role is Role.TOOL]
    assert [(one["approval"], one["reason"], one["by"]) for one in heard] == [
        ("rejected", "the GPUs are taken till Monday", "alice")
    ]
    card = next(content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval")
    assert card.footer.startswith("Rejected by alice: the GPUs are taken till Monday · ")


async def test_a_reason_from_a_dialog_is_a_rejection_and_without_one_nothing_is_decided(
    harness: Harness, csv: Path
) -> None:
    async with harness.open() as brain:
        approval_id = (await asked(harness, brain, csv)).buttons[0].subject
        click = clicked(harness.adapter.button(REJECT_BECAUSE))
        await brain.router.accept(click)
        await harness.until(lambda: bool(harness.adapter.whispers))
        assert f"`reject {approval_id} because …`" in harness.adapter.whispers[-1][1].text
        assert (await brain.stores.approvals.get(approval_id)).state is ApprovalState.PENDING
        act = click.act.model_copy(update={"text": "too\nlong, and my key is hf_abcdefghijklmnopqrstuvwxyz01234567"})
        await brain.router.accept(click.model_copy(update={"event_id": "e2", "act": act}))
        await harness.until(lambda: any("nothing was started" in said for said in harness.adapter.texts()))
        reason = (await brain.stores.approvals.get(approval_id)).reason
    assert reason.startswith("too long, and my key is ")
    assert "hf_abc" not in reason


async def test_a_plan_with_changes_is_shown_and_asked_about_anew(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        first = await asked(harness, brain, csv)
        approve = first.buttons[0]
        await brain.router.accept(said("approve with seed=3 rounds=20 hours=2"))
        await harness.until(lambda: any("planned" in text for text in harness.adapter.texts()))
        await brain.delivery.idle()
        assert harness.fleet.launched == []
        changed = await card_with(harness, "approve")
        shown = {fact.name: fact.value for fact in changed.facts}
        assert sorted(shown["Changed by alice"].split(", ")) == [
            "max_hours: 1.0 → 2.0",
            "rounds: default → 20",
            "seed: 7 → 3",
        ]
        assert changed.buttons[0].digest != approve.digest
        await brain.router.accept(clicked(approve))
        await harness.until(lambda: any("older version" in told.text for _, told in harness.adapter.whispers))
        assert harness.fleet.launched == []
        await brain.router.accept(clicked(changed.buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        spec = harness.fleet.launched[0].spec
        assert (spec.seed, spec.settings["rounds"], spec.max_hours) == (3, 20, 2.0)


async def test_changes_add_up_and_outlive_a_restart(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        card = await asked(harness, brain, csv)
        approval_id = card.buttons[0].subject
        await Stage(harness, brain).asks("approve", approval_id, "with", "rounds=20")
        await brain.delivery.idle()
    async with harness.open() as brain:
        await Stage(harness, brain).asks("approve", approval_id, "with", "learning_rate=0.5")
        await brain.delivery.idle()
        await brain.router.accept(clicked((await card_with(harness, "approve")).buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
    settings = harness.fleet.launched[0].spec.settings
    assert (settings["rounds"], settings["learning_rate"]) == (20, 0.5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ("seed=7", "what the plan says already"),
        ("nonsense", "cannot read"),
        ("target=nothing_like_it", "nothing_like_it"),
        ("hours=1000", "max_hours"),
    ],
)
async def test_changes_that_do_not_fit_change_nothing(harness: Harness, csv: Path, changes: str, says: str) -> None:
    async with harness.open() as brain:
        before = await asked(harness, brain, csv)
        answer = await Stage(harness, brain).asks("approve", before.buttons[0].subject, "with", changes)
        assert says in answer.text
        await brain.delivery.idle()
        assert await card_with(harness, "approve") == before


async def test_others_change_nothing(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        before = await asked(harness, brain, csv)
        await brain.router.accept(commanded("approve", before.buttons[0].subject, "with", "rounds=20", person=BOB))
        await harness.until(lambda: bool(harness.adapter.whispers))
        assert "Only the person who asked" in harness.adapter.whispers[-1][1].text
        await brain.delivery.idle()
        assert await card_with(harness, "approve") == before


async def test_a_second_person_decides_what_costs_where_the_settings_say_so(harness: Harness, csv: Path) -> None:
    grants = Grants(approve=grants_of("T1/U-bob"))
    harness.options = replace(harness.options, grants=grants, second_person=SecondPerson.SPEND)
    async with harness.open() as brain:
        approve = (await asked(harness, brain, csv)).buttons[0]
        await brain.router.accept(clicked(approve))
        await harness.until(lambda: bool(harness.adapter.whispers))
        assert "somebody else decides it: an approver (`T1/U-bob`)" in harness.adapter.whispers[-1][1].text
        assert harness.fleet.launched == []
        await brain.router.accept(clicked(approve, person=BOB))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        await brain.router.idle()
        run = harness.fleet.launched[0].run
        await Stage(harness, brain).asks("kill", run)
        await brain.router.accept(clicked((await card_with(harness, "approve")).buttons[0]))
        await harness.until(lambda: [order.how for order in harness.fleet.stopped] == ["kill"])


async def test_what_ends_a_run_has_nothing_to_change(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.asks("kill", run.id)
        card = (await stage.asked()).card
        assert card is not None
        answer = await stage.asks("approve", card.buttons[0].subject, "with", "seed=3")
        assert "nothing to change" in answer.text


def test_slash_words_that_decide_nothing_are_refused() -> None:
    with pytest.raises(BadRequest, match="cannot read"):
        decision_of(("approve", "a-1", "maybe"))


async def test_two_equal_calls_of_one_reply_ask_once(harness: Harness, csv: Path) -> None:
    calls = tuple(ToolCall(name, "start_training", '{"target": "health"}') for name in ("k1", "k2"))
    harness.model = model = ScriptedModel(ModelReply("", calls, "m"), ModelReply("It waits.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train", files=attached(csv)))
        card = await card_with(harness, "approve")
        await brain.router.idle()
        await brain.delivery.idle()
        shown = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]
        assert len({one.buttons[0].subject for one in shown}) == 1
        await brain.router.accept(clicked(card.buttons[0]))
        await harness.until(lambda: len(model.asked) == 2)
        await brain.router.idle()
    assert len(harness.fleet.launched) == 1
    assert any("People are asked about just this already" in said.text for said in model.asked[-1])
