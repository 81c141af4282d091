"""Pause, resume, stop, kill, retry, priority: the same rules for a command, a button and a model's call."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent.domain.content import Button, Card
from agent.domain.inbound import Inbound, Noticed, Person
from agent.domain.policy import Grants, Right, grants_of, may_control
from agent.domain.runs import ExitClass, Run, RunState
from agent.ports import ModelMessage, ModelReply, Role, ToolCall
from agent.runs.cards.run_cards import ACTIONS, BUTTONS, run_buttons
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage, rows, saved
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, GUEST, START, THREAD, ScriptedModel, clicked, commanded, said

_S = RunState
STRANGER = Person(platform="slack", tenant="T9", id=BOB.id, name="bob of elsewhere")


def button(action: str, run: Run) -> Button:
    return BUTTONS[action].model_copy(update={"subject": run.id})


async def state(stage: Stage, run: Run) -> RunState:
    return (await stage.brain.stores.runs.get(run.id)).state


async def test_a_run_is_paused_resumed_and_stopped_by_commands(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "saves a checkpoint" in (await stage.asks("pause", run.id)).text
        assert [order.how for order in harness.fleet.stopped] == ["pause"]
        await stage.says(run, saved(40))
        paused = await stage.ended(run, _S.PAUSED)
        assert paused.state is _S.PAUSED
        assert [shown.action for shown in run_buttons(paused)] == ["resume", "stop", "logs"]
        assert "as attempt 2" in (await stage.asks("resume", run.id)).text
        assert harness.fleet.launched[-1].attempt == 2
        assert "stopping" in (await stage.asks("stop", run.id)).text
        assert await state(stage, run) is _S.STOPPING


async def test_buttons_do_what_commands_do_and_the_card_has_those_that_fit(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await harness.until(lambda: any(c.card and c.card.kind == "run" for c in harness.adapter.shown))
        for action, to in (("pause", _S.PAUSING), ("stop", _S.STOPPING)):
            await harness.until(lambda action=action: bool(shown_actions(harness) & {action}))  # type: ignore[misc]
            before = len(harness.adapter.whispers)
            await brain.router.accept(clicked(harness.adapter.button(action), person=ALICE))
            await harness.until(lambda before=before: len(harness.adapter.whispers) > before)  # type: ignore[misc]
            assert await state(stage, run) is to
        await harness.until(lambda: "kill" in shown_actions(harness))
        await brain.router.accept(clicked(harness.adapter.button("kill")))
        await decide(stage, f"Kill {run.id}?", ALICE)
        assert [order.how for order in harness.fleet.stopped] == ["pause", "stop", "kill"]


def shown_actions(harness: Harness) -> set[str]:
    """The actions on the newest run card."""
    cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "run"]
    return {one.action for one in cards[-1].buttons} if cards else set()


async def test_a_failed_run_is_tried_again_by_its_button(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        failed = await stage.ended(run, _S.FAILED, ExitClass.CUDA_OOM, "Out of GPU memory at step 3.")
        assert [one.action for one in run_buttons(failed)] == ["retry", "clone", "logs"]
        await brain.router.accept(clicked(button("retry", run)))
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        assert await state(stage, run) is _S.STARTING


@pytest.mark.parametrize(
    ("words", "says"),
    [(("resume",), "cannot be resumed"), (("retry",), "cannot be tried again"), (("pause", "r-zzzzzz"), "no run")],
)
async def test_what_is_not_legal_is_refused_in_a_sentence(harness: Harness, words: tuple[str, ...], says: str) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        asked = words if len(words) > 1 else (*words, run.id)
        assert says in (await stage.asks(*asked)).text
        assert await state(stage, run) is _S.RUNNING


async def test_nothing_is_guessed_where_several_runs_fit(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "no run to pause" in (await stage.asks("pause")).text
        one, two = await stage.running(), await stage.running()
        answer = (await stage.asks("pause")).text
        assert one.id in answer
        assert two.id in answer
        assert harness.fleet.stopped == []


async def decide(stage: Stage, title: str, person: Person, *, action: str = "approve") -> None:
    """Click a button of the open question with this title, and wait for what that did."""
    await stage.harness.until(lambda: any(title in card.title and card.buttons for card in cards(stage.harness)))
    card = next(card for card in cards(stage.harness) if title in card.title and card.buttons)
    (chosen,) = [one for one in card.buttons if one.action == action]
    await stage.brain.router.accept(clicked(chosen, person=person))
    await stage.brain.router.idle()
    await stage.brain.delivery.idle()


def cards(harness: Harness) -> list[Card]:
    return [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]


@pytest.mark.parametrize("verb", ["kill", "stop"])
async def test_who_ends_the_run_of_another_is_asked_first_and_its_owner_decides(harness: Harness, verb: str) -> None:
    harness.options = replace(harness.options, grants=Grants(approve=grants_of("T1/U-carol")))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run, another = await stage.running(), await stage.running()
        answer = (await stage.asks(verb, run.id, person=GUEST)).text
        await harness.until(lambda: "Guests" in "".join((answer, *harness.adapter.texts())))
        button_of_card = BUTTONS[verb].model_copy(update={"subject": run.id})
        for ask in (said(f"{verb} {run.id}", person=BOB), clicked(button_of_card, person=BOB)):
            await brain.router.accept(ask)
            await decide(stage, run.id, BOB)
            assert "Only the person whose run this is" in harness.adapter.whispers[-1][1].text
            await decide(stage, run.id, ALICE, action="reject")
            assert harness.adapter.texts()[-1] == "Nothing was done: the run is left alone."
        assert harness.fleet.stopped == []
        await stage.asks(verb, run.id, person=BOB)
        await decide(stage, run.id, ALICE)
        assert {"kill": "being killed", "stop": "is stopping"}[verb] in harness.adapter.texts()[-1]
        carol = BOB.model_copy(update={"id": "U-carol", "name": "carol"})
        await stage.asks(verb, another.id, person=carol)
        if verb == "kill":
            await decide(stage, another.id, carol)
        assert [order.how for order in harness.fleet.stopped] == [verb, verb]


async def test_a_stop_that_names_no_run_is_asked_about_and_nothing_is_guessed(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.asks("stop")
        assert "asked about just this already" in await stage.tells("stop")
        assert [card.title for card in cards(harness)] == [f"Stop {run.id}?"]
        assert harness.fleet.stopped == []
        await decide(stage, f"Stop {run.id}?", ALICE)
        assert await state(stage, run) is _S.STOPPING
        one, two = await stage.running(), await stage.running()
        answer = await stage.tells("stop")
        assert one.id in answer
        assert two.id in answer
        await stage.ended(one, _S.STOPPED)
        await brain.router.accept(said(f"kill {one.id}"))  # nobody is asked about what is over
        await harness.until(lambda: any("there is nothing to stop" in text for text in harness.adapter.texts()))


async def test_a_model_ends_no_run_of_another_without_being_asked_about(harness: Harness) -> None:
    harness.model = ScriptedModel()
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        calls = [ToolCall(f"c{name}", name, json.dumps({"run": run.id})) for name in ("stop_run", "kill_run")]
        harness.model.replies = [ModelReply("", tuple(calls), "m"), ModelReply("It is left alone.", (), "m")]  # type: ignore[attr-defined]
        await brain.router.accept(said("end this thing", person=BOB))
        for title in (f"Stop {run.id}?", f"Kill {run.id}?"):
            await decide(stage, title, ALICE, action="reject")
        await harness.until(lambda: harness.adapter.texts()[-1] == "It is left alone.")
        assert harness.fleet.stopped == []


async def test_the_queue_has_positions_and_priorities(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "queue is empty" in (await stage.asks("queue")).text
        for _ in range(2):
            await stage.running()
        first = await stage.create()
        harness.clock.forward(1)
        second = await stage.create()
        assert first.state is _S.QUEUED
        assert [one.label for one in run_buttons(first)] == ["Sooner", "Later", "Stop"]
        card = (await stage.asks("queue")).card
        assert card is not None
        assert card.table is not None
        assert [row[1] for row in card.table.rows] == [first.id, second.id]
        said = (await stage.asks("priority", second.id, "high")).text
        assert said == f"Run `{second.id}` has high priority now, and is number 1 in the queue."
        card = (await stage.asks("queue")).card
        assert card is not None
        assert card.table is not None
        assert [(row[1], row[2]) for row in card.table.rows] == [(second.id, "high"), (first.id, "normal")]
        assert all(row[3] for row in card.table.rows)
        assert "has low priority now" in (await stage.asks("priority", second.id, "-1")).text
        assert "how soon" in (await stage.asks("priority", second.id)).text
        assert "stopped" in (await stage.asks("stop", second.id)).text


async def test_buttons_move_a_run_that_waits_as_far_as_there_is_a_place(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        for _ in range(2):
            await stage.running()
        waits = await stage.create()
        for label, level in (("Sooner", 1), ("Later", 0), ("Later", -1)):
            run = await brain.stores.runs.get(waits.id)
            (move,) = [one for one in run_buttons(run) if one.label == label]
            before = len(harness.adapter.whispers)
            await brain.router.accept(clicked(move))
            await harness.until(lambda before=before: len(harness.adapter.whispers) > before)  # type: ignore[misc]
            assert "priority now" in harness.adapter.whispers[-1][1].text
            assert (await brain.stores.runs.get(waits.id)).priority == level
        last = await brain.stores.runs.get(waits.id)
        assert [one.label for one in run_buttons(last)] == ["Sooner", "Stop"]


async def test_an_ended_run_is_cloned_and_its_script_replaced_by_buttons(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.ended(await stage.running(), _S.FAILED, ExitClass.CUDA_OOM, "Out of GPU memory at step 3.")
        (clone,) = [one for one in run_buttons(run) if one.label == "Clone"]
        await brain.router.accept(clicked(clone))
        asked = (await stage.asked()).card
        assert asked is not None
        assert asked.title == f"Train {run.id} once more?"
        await harness.until(lambda: bool(harness.adapter.whispers))  # that it is on its way
        shown = (await stage.asks("script", run.id)).card
        assert shown is not None
        await brain.router.accept(clicked(shown.buttons[0]))
        await harness.until(lambda: any("Attach the new `train.py`" in text for text in harness.adapter.texts()))
        assert (await brain.stores.runs.get(run.id)).state is _S.FAILED


async def test_a_training_is_started_by_a_command_on_the_newest_data(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "Attach one to a message (csv" in await stage.tells("/train start")
        assert "there are `retry` and `clone`" in await stage.tells("/train start r-abc123")
        await brain.router.accept(said("look at it", files=attached(csv)))
        await harness.until(lambda: any("Shall I train a model" in text for text in harness.adapter.texts()))
        await brain.router.accept(commanded("train", "visited_doctor", "hours=2", "lr=0.1"))
        card = (await stage.asked()).card
        assert card is not None
        facts = {fact.name: fact.value for fact in card.facts}
        assert facts["Target"] == "visited_doctor"
        await brain.router.accept(clicked(card.buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        spec = harness.fleet.launched[0].spec
        assert (spec.target, spec.max_hours, spec.settings) == ("visited_doctor", 2.0, {"lr": 0.1})
        assert "no finished model" in (await stage.asks("predict", harness.fleet.launched[0].run)).text


async def test_the_words_of_people_reach_the_same_tools(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "is pausing" in await stage.tells(f"please pause {run.id}")
        await stage.ended(run, _S.PAUSED)
        assert "as attempt 2" in await stage.tells("can you resume it?")
        await brain.router.accept(said("kill it"))
        await decide(stage, f"Kill {run.id}?", ALICE)
        assert await state(stage, run) is _S.STOPPING


async def test_what_nobody_asked_for_may_look_and_propose_and_changes_nothing(harness: Harness) -> None:
    stop, look = ToolCall("c1", "stop_run", "{}"), ToolCall("c2", "run_status", "{}")
    clone = ToolCall("c3", "clone_run", json.dumps({"settings": {"learning_rate": 0.01}}))

    def advice(messages: Sequence[ModelMessage]) -> ModelReply:
        refused, seen = messages[-2].text, messages[-1].text
        assert "The monitor began this turn" in refused
        assert "running" in seen
        return ModelReply("It diverges; I propose a smaller learning rate.", (clone,), "m")

    harness.model = ScriptedModel(ModelReply("", (stop, look), "m"), advice)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3))
        notice = Noticed(run=run.id, finding="nan", text=f"Run {run.id}: train_loss is NaN since step 3.")
        inbound = Inbound(event_id=f"notice:{run.id}:nan", thread=THREAD, person=ALICE, act=notice, at=START)
        assert await brain.router.notice(inbound)
        assert not await brain.router.notice(inbound)
        card = (await stage.asked()).card
        assert card is not None
        assert run.id in card.title
        assert harness.fleet.stopped == []
        assert len(harness.fleet.launched) == 1
        (turn,) = [said for said in harness.model.asked[0] if said.role is Role.USER]
        assert turn.noticed


async def test_without_a_model_a_notice_changes_nothing_and_is_not_said_again(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        notice = Noticed(run=run.id, finding="stall", text=f"Run `{run.id}`: stop it, it has been silent for 10 min.")
        await brain.router.notice(Inbound(event_id="n1", thread=THREAD, person=ALICE, act=notice, at=START))
        await harness.until(lambda: any("nothing to add" in text for text in harness.adapter.texts()))
        assert not any("silent for 10 min" in text for text in harness.adapter.texts())
        assert await state(stage, run) is _S.RUNNING


async def test_several_open_questions_are_told_apart(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.asks("clone", run.id, "seed=1")
        await harness.until(lambda: len(approvals(harness)) == 1)
        await stage.asks("clone", run.id, "seed=2")
        await harness.until(lambda: len(approvals(harness)) == 2)
        await brain.router.accept(said("yes"))
        await harness.until(lambda: any(c.card.title == "Which one?" for c in harness.adapter.shown if c.card))
        card = next(c.card for c in harness.adapter.shown if c.card and c.card.title == "Which one?")
        first, second = approvals(harness)
        assert [(one.action, one.subject) for one in card.buttons] == [
            *(("approve", first), ("reject", first), ("approve", second), ("reject", second))
        ]
        assert all(one.digest for one in card.buttons)
        said_of = [line for line in card.body.splitlines() if line.startswith("- ")]
        assert said_of[0].startswith(f"- `{first}` **Train {run.id} again with changes?** Cost: ")
        assert ("Seed: 1" in said_of[0], "Seed: 2" in said_of[1], "Network" in card.body) == (True, True, False)
        assert harness.fleet.launched[1:] == []
        await stage.tells(f"approve {second}")
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        assert harness.fleet.launched[-1].spec.seed == 2
        assert "Nothing was started" in await stage.tells("reject")  # the one that is left


def approvals(harness: Harness) -> list[str]:
    """The ids of the open questions that are shown, oldest first."""
    cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]
    return [card.buttons[0].subject for card in cards if card.buttons]


def test_every_state_has_its_buttons_and_no_button_is_always_refused() -> None:
    assert set(ACTIONS) == set(RunState)
    assert "pause" not in ACTIONS[_S.PAUSED]
    assert ACTIONS[_S.SUCCEEDED] == ("serve", "clone")


def test_an_id_counts_in_its_own_workspace_only() -> None:
    for named in (BOB.id, BOB.key, "T1/U-bob"):
        grants = Grants(approve=grants_of(named))
        assert Right.APPROVE in grants.of(BOB, THREAD, ())
        assert Right.APPROVE not in grants.of(STRANGER, THREAD, ())
    rights = Grants(approve=grants_of(GUEST.id)).of(GUEST, THREAD, ())
    assert rights == {Right.ASK}
    assert not may_control(GUEST, requester=GUEST.key, rights=rights)


async def test_an_approver_of_another_workspace_with_the_same_id_decides_nothing(harness: Harness) -> None:
    harness.options = replace(harness.options, grants=Grants(approve=grants_of(BOB.id)))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await stage.asks("clone", (await stage.running(SPEC)).id, "seed=1")
        card = (await stage.asked()).card
        assert card is not None
        before = len(harness.adapter.whispers)
        await brain.router.accept(clicked(card.buttons[0], person=STRANGER))
        await harness.until(lambda: len(harness.adapter.whispers) > before)
        assert "Only the person who asked" in harness.adapter.whispers[-1][1].text
        assert len(harness.fleet.launched) == 1
