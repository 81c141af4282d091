"""Who may ask, launch, approve: by person, channel and group, as the settings grant it."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.domain.content import Card
from agent.domain.policy import Grants, Right, grants_of
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_deciding import asked
from tests.fakes import ALICE, BOB, THREAD, clicked, said


def test_a_grant_names_people_groups_and_channels() -> None:
    grants = Grants(
        ask=grants_of(f"*@{THREAD.channel}"),
        launch=grants_of("group:S1"),
        approve=grants_of(f"{BOB.id}@C-other, {ALICE.platform}/{ALICE.tenant}/*@C-team"),
        admin=grants_of(BOB.key),
    )
    assert grants.groups == {"S1"}
    assert grants.of(ALICE, THREAD, ()) == {Right.ASK}
    assert grants.of(ALICE, THREAD, ("S1",)) == {Right.ASK, Right.LAUNCH}
    team = THREAD.model_copy(update={"channel": "C-team"})
    assert grants.of(ALICE, team, ()) == {Right.ASK, Right.LAUNCH, Right.APPROVE}
    assert grants.of(BOB, THREAD, ()) == set(Right)
    elsewhere = THREAD.model_copy(update={"channel": "C-else"})
    assert grants.of(ALICE, elsewhere, ()) == frozenset()


@pytest.mark.parametrize("text", ["two words", "U1@", "@C1", "group:", "U1@C 1", "a/b/c/d/e"])
def test_what_names_nobody_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is nobody"):
        grants_of(text)


async def approve(harness: Harness, brain: Brain, card: Card, who: str) -> str:
    """What somebody is told who clicks on Approve; empty where it is done."""
    before = len(harness.adapter.whispers)
    await brain.router.accept(clicked(card.buttons[0], person=ALICE if who == "alice" else BOB))
    await brain.router.idle()
    await brain.delivery.idle()
    return harness.adapter.whispers[-1][1].text if len(harness.adapter.whispers) > before else ""


async def test_who_may_only_ask_waits_for_an_approver_of_a_group(harness: Harness, csv: Path) -> None:
    harness.options = replace(
        harness.options, grants=Grants(launch=grants_of("group:S-ml"), approve=grants_of("group:S-leads"))
    )
    async with harness.open() as brain:
        card = await asked(harness, brain, csv)
        told = await approve(harness, brain, card, "alice")
        assert told == "You may ask for what costs, but not start it: an approver decides (`group:S-leads`)."
        assert "Only the person who asked" in await approve(harness, brain, card, "bob")
        harness.adapter.groups[BOB.id] = {"S-leads"}
        assert await approve(harness, brain, card, "bob") == ""
        assert len(harness.fleet.launched) == 1


async def test_who_may_launch_by_a_group_decides_until_leaving_it(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, grants=Grants(launch=grants_of("group:S-ml")))
    async with harness.open() as brain:
        harness.adapter.groups[ALICE.id] = {"S-ml"}
        card = await asked(harness, brain, csv)
        harness.adapter.groups.clear()
        assert "not start it" in await approve(harness, brain, card, "alice")
        harness.adapter.groups[ALICE.id] = {"S-ml"}
        assert await approve(harness, brain, card, "alice") == ""
        assert len(harness.fleet.launched) == 1


async def test_who_may_not_ask_hears_so_once_they_mention_the_bot(harness: Harness) -> None:
    harness.options = replace(harness.options, grants=Grants(ask=grants_of(BOB.id), launch=grants_of(BOB.id)))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "You may not use me here" in await stage.tells("status")
        assert "You may not use me here" in (await stage.asks("runs")).text
        assert "no run" in (await stage.tells("status", person=BOB)).lower()
        before = len(harness.adapter.texts())
        await brain.router.accept(said("thanks").model_copy(update={"mentions_bot": False}))
        await brain.router.idle()
        await brain.delivery.idle()
        assert len(harness.adapter.texts()) == before
