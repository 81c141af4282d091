"""A model asks people and waits for them, over restarts; and shows its plan in one card."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from agent.domain.content import Card
from agent.domain.policy import Effect
from agent.ports import ModelReply, Role, ToolCall
from agent.tools.tool import Caller, Result, Tool
from tests.agent.conftest import Harness
from tests.agent.slow_tools import SlowTools, What
from tests.agent.test_dispatch import Family
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, GUEST, THREAD, ScriptedModel, clicked, said

ASKS = {"question": "Which column should I predict?", "choices": ["age", "health"]}


def call(tool: str, arguments: object, number: int = 1) -> ModelReply:
    return ModelReply("", (ToolCall(f"c{number}", tool, json.dumps(arguments)),), "m")


def question_of(harness: Harness) -> Card:
    return next(c.card for c in harness.adapter.shown if c.card and c.card.title.startswith("A question for"))


async def asked(harness: Harness) -> None:
    await harness.until(lambda: any(c.card and "A question" in c.card.title for c in harness.adapter.shown))


async def test_a_question_waits_over_a_restart_and_a_button_answers_it_once(harness: Harness) -> None:
    harness.model = ScriptedModel(call("ask_user", ASKS))
    async with harness.open() as brain:
        await brain.router.accept(said("train something"))
        await asked(harness)
        await brain.router.idle()
    card = question_of(harness)
    assert (card.title, card.body) == ("A question for alice", "Which column should I predict?")
    assert [button.label for button in card.buttons] == ["age", "health"]
    harness.model = model = ScriptedModel(ModelReply("health it is.", (), "m"))
    async with harness.open() as brain:
        assert await brain.stores.conversations.running_turns() == []
        await brain.router.accept(clicked(card.buttons[1], person=GUEST))
        await harness.until(lambda: len(harness.adapter.whispers) == 1)
        assert "Guests of another organisation answer only" in harness.adapter.whispers[0][1].text
        await brain.router.accept(clicked(card.buttons[1], person=BOB))
        await brain.router.accept(clicked(card.buttons[0], person=ALICE))
        await harness.until(lambda: "health it is." in harness.adapter.texts())
        await harness.until(lambda: len(harness.adapter.whispers) == 2)
        assert "answered before" in harness.adapter.whispers[1][1].text
        await brain.delivery.idle()
    assert [(m.text, m.call_id) for m in model.asked[0] if m.role is Role.TOOL] == [
        ('{"text": "bob answered: health"}', "c1")
    ]
    assert (question_of(harness).buttons, question_of(harness).footer) == ((), "bob: health")


async def test_nothing_is_changed_before_the_answer_to_a_question_of_the_same_reply(harness: Harness) -> None:
    slow = SlowTools()
    slow.go_on.set()
    harness.toolsets = (slow,)
    calls = (ToolCall("c1", "ask_user", json.dumps(ASKS)), ToolCall("c2", "change", '{"what": "a"}'))
    again = call("change", {"what": "b"}, 3)
    harness.model = model = ScriptedModel(ModelReply("", calls, "m"), again, ModelReply("Changed.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("change it"))
        await asked(harness)
        await brain.router.idle()
        assert slow.begun == []
        await brain.router.accept(clicked(harness.adapter.button("answer")))
        await harness.until(lambda: "Changed." in harness.adapter.texts())
    assert slow.ended == ["b"]
    told = {message.call_id: message.text for message in model.asked[1] if message.role is Role.TOOL}
    assert "You asked people first" in told["c2"]


async def test_a_call_that_is_carried_out_after_a_click_is_answered_once(harness: Harness, csv: Path) -> None:
    """Its turn goes on meanwhile, as another of its calls was answered."""
    slow, seen, read = SlowTools(), asyncio.Event(), asyncio.Event()

    async def look(_caller: Caller, _asked: What) -> Result:
        read.set()
        await seen.wait()
        return Result("Seen.")

    harness.toolsets = (slow, Family(Tool("look_away", "Look away.", What, Effect.READ, run=look)))
    calls = (ToolCall("c1", "change", '{"what": "a"}'), ToolCall("c2", "ask_user", json.dumps(ASKS)))
    away, bobs = call("look_away", {}, 3), ModelReply("Bob's.", (), "m")
    harness.model = model = ScriptedModel(ModelReply("", calls, "m"), away, bobs, ModelReply("Changed.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("change it", files=attached(csv)))  # a file may be behind the call, so it asks
        await asked(harness)
        await brain.router.accept(said("look away", person=BOB))
        await read.wait()
        await brain.router.accept(clicked(harness.adapter.button("answer")))  # what goes on waits for Bob's turn
        await brain.router.accept(clicked(harness.adapter.button("approve")))
        await harness.until(lambda: slow.begun == ["a"])
        seen.set()
        await harness.until(lambda: "Bob's." in harness.adapter.texts())
        await harness.until(lambda: not brain.router._in_turn.busy(THREAD))
        slow.go_on.set()
        await harness.until(lambda: "Changed." in harness.adapter.texts())
    told = [message.text for message in model.asked[-1] if message.call_id in {"c1", "c2"}]
    assert sorted(told) == ['{"text": "alice answered: health"}', '{"text": "ended a"}']


@pytest.mark.parametrize("choices", [["x", " x "], ["  ", " "], ["yes", ""], ["Yes", "yes"]])
async def test_a_question_without_two_choices_is_not_asked(harness: Harness, choices: list[str]) -> None:
    ask = call("ask_user", {"question": "Which?", "choices": choices})
    harness.model = model = ScriptedModel(ask, ModelReply("Then I choose.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train something"))
        await brain.router.idle()
        await brain.delivery.idle()
    assert [content.text for content in harness.adapter.shown] == ["Then I choose."]
    assert "choices" in model.asked[1][-1].text


async def test_words_of_who_was_asked_are_an_answer_and_those_of_others_are_not(harness: Harness) -> None:
    harness.model = model = ScriptedModel(
        call("ask_user", ASKS), ModelReply("It waits for alice.", (), "m"), ModelReply("Both then.", (), "m")
    )
    async with harness.open() as brain:
        await brain.router.accept(said("train something"))
        await asked(harness)
        await brain.router.accept(said("what is it waiting for?", person=BOB))
        await harness.until(lambda: "It waits for alice." in harness.adapter.texts())
        await brain.router.accept(said("no", person=ALICE, mentions_bot=False))  # a word that also decides approvals
        await harness.until(lambda: "Both then." in harness.adapter.texts())
        await brain.router.idle()
        assert await brain.stores.inbox.waiting() == []
    told = [message.text for message in model.asked[2] if message.role is Role.TOOL]
    assert told == ['{"text": "alice answered: no"}']
    assert question_of(harness).footer == "alice: no"


@pytest.mark.parametrize(
    ("choices", "words", "answer"),
    [
        (["age", "health"], "2", "health"),
        (["age", "health"], " 1. ", "age"),
        (["age", "health"], "3", "3"),
        (["10", "20", "30"], "3", "3"),  # may be meant as it is said
        (["2 hours", "1 hour"], "2 hours", "2 hours"),
    ],
)
async def test_a_choice_is_named_by_its_number(harness: Harness, choices: list[str], words: str, answer: str) -> None:
    harness.model = model = ScriptedModel(call("ask_user", {**ASKS, "choices": choices}), ModelReply("Well.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train something"))
        await asked(harness)
        await brain.router.accept(said(words, person=ALICE, mentions_bot=False))
        await harness.until(lambda: "Well." in harness.adapter.texts())
    assert [m.text for m in model.asked[1] if m.role is Role.TOOL] == [f'{{"text": "alice answered: {answer}"}}']


async def test_a_question_that_nobody_answers_expires_and_the_turn_goes_on(harness: Harness) -> None:
    harness.model = model = ScriptedModel(call("ask_user", ASKS), ModelReply("Then I leave it.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train something"))
        await asked(harness)
        await brain.router.idle()
        harness.clock.forward(timedelta(hours=25).total_seconds())
        await brain.router.expire()
        await harness.until(lambda: "Then I leave it." in harness.adapter.texts())
        await brain.router.expire()
        await brain.delivery.idle()
    assert model.asked[1][-1].text == '{"text": "Nobody answered in time."}'
    assert (question_of(harness).buttons, question_of(harness).footer) == ((), "Nobody answered in time.")


async def test_a_plan_is_one_card_that_changes(harness: Harness) -> None:
    steps = [{"text": "look"}, {"text": "train"}]
    later = [{"text": "look", "state": "done"}, {"text": "train", "state": "doing"}]
    harness.model = ScriptedModel(
        call("plan", {"items": steps}), call("plan", {"items": later}, 2), ModelReply("On it.", (), "m")
    )
    async with harness.open() as brain:
        await brain.router.accept(said("do it step by step"))
        await harness.until(lambda: "On it." in harness.adapter.texts())
        await brain.delivery.idle()
    (card,) = [content.card for content in harness.adapter.shown if content.card]
    assert (card.title, card.body, card.progress) == ("Plan: 1 of 2 done", "✓ look\n▸ train", 0.5)
