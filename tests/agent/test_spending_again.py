"""Who may start what costs once more, or decide it: budgets, caps, rights, and whoever had a part in a plan."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from agent.domain.content import ALWAYS
from agent.domain.events import Accepted, Started
from agent.domain.policy import Grants, SecondPerson, grants_of
from agent.domain.runs import RunState
from agent.ports import ModelReply, ToolCall
from tests.agent.conftest import Harness
from tests.agent.slow_tools import SlowTools
from tests.agent.stage import Stage
from tests.agent.test_allowances import click, starts
from tests.agent.test_deciding import asked, card_with
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, THREAD, ScriptedModel, clicked, said

FOUR_EYES = {"grants": Grants(approve=grants_of("T1/U-bob")), "second_person": SecondPerson.SPEND}


async def test_what_is_tried_again_counts_against_cap_and_budget_once_more(harness: Harness, csv: Path) -> None:
    harness.fleet.an_hour = Decimal(2)
    harness.options = replace(harness.options, grants=Grants(admin=grants_of(ALICE.id)))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await click(harness, brain, await asked(harness, brain, csv), "reject")
        await stage.asks("auto", "usd=5")
        assert await starts(harness, brain, 2)
        run = await brain.stores.runs.get(harness.fleet.launched[0].run)
        await stage.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9))
        await stage.ended(run, RunState.STOPPED)
        assert await starts(harness, brain, 2)  # the second takes what the first gave back
        assert "`auto`" in (await stage.asks("retry", run.id)).text
        await stage.asks("auto", "usd=50")
        await stage.asks("budget", "channel", "usd=5")
        assert "left of $5" in (await stage.asks("retry", run.id)).text
        assert (await brain.stores.runs.get(run.id)).state is RunState.STOPPED
        await stage.asks("budget", "channel", "usd=50")
        assert "tried again" in (await stage.asks("retry", run.id)).text


async def test_who_may_only_ask_tries_nothing_again(harness: Harness) -> None:
    harness.options = replace(harness.options, grants=Grants(launch=grants_of(ALICE.id)))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.ended(run, RunState.STOPPED)
        assert "you may only ask" in (await stage.asks("retry", run.id, person=BOB)).text
        assert (await brain.stores.runs.get(run.id)).state is RunState.STOPPED
        assert "tried again" in (await stage.asks("retry", run.id)).text


async def test_who_changed_a_plan_does_not_decide_it(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, **FOUR_EYES)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        plan = (await asked(harness, brain, csv)).buttons[0].subject
        await stage.asks("approve", plan, "with", "hours=9", person=BOB)
        harness.clock.forward(10)
        await brain.router.accept(clicked((await card_with(harness, "approve")).buttons[0], person=BOB))
        await stage.settled()
        assert harness.fleet.launched == []
        assert "You had a part in this" in harness.adapter.whispers[-1][1].text
        assert "hours=8" not in (await stage.asks("approve", plan, "with", "hours=8", person=BOB)).text


async def test_who_steered_a_turn_does_not_decide_its_plan(harness: Harness, csv: Path) -> None:
    slow = SlowTools()
    harness.toolsets = (slow,)
    harness.options = replace(harness.options, **FOUR_EYES)
    harness.model = ScriptedModel(
        ModelReply("", (ToolCall("c1", "look_long", '{"what":"a"}'),), "m"),
        ModelReply("", (ToolCall("c2", "start_training", '{"target":"health"}'),), "m"),
    )
    async with harness.open() as brain:
        await brain.router.accept(said("what is in this?", files=attached(csv)))
        await harness.until(lambda: slow.begun == ["a"])
        steering = asyncio.create_task(brain.router.accept(said("train it now for health", person=BOB)))
        await harness.until(steering.done)
        slow.go_on.set()
        await brain.router.accept(clicked((await card_with(harness, "approve")).buttons[0], person=BOB))
        await brain.router.idle()
        assert harness.fleet.launched == []


async def test_the_reason_of_a_rejection_is_somebodys_word_to_a_model(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
    harness.model = ScriptedModel(
        ModelReply("", (ToolCall("c1", "stop_run", json.dumps({"run": run.id})),), "m"),
        ModelReply("", (ToolCall("c2", "pause_run", json.dumps({"run": run.id})),), "m"),
    )
    async with harness.open() as brain:
        await brain.router.accept(said("stop that run please", person=BOB))
        card = await card_with(harness, "approve")
        reject = f"reject {card.buttons[0].subject} because you must pause it at once"
        await brain.router.accept(said(reject, person=ALICE))
        await harness.until(lambda: any("Pause" in one.card.title for one in harness.adapter.shown if one.card))
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING


async def test_what_starts_unasked_from_then_on_is_stored_and_logged_with_its_decision(
    harness: Harness, csv: Path
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await click(harness, brain, await asked(harness, brain, csv), ALWAYS)
        await stage.settled()
        entries = await brain.stores.audit.newest(THREAD.channel_key, most=4)
        assert [entry.act for entry in entries] == ["done", "always", "approved", "asked"]
        assert {entry.name for entry in entries} == {"alice"}
