"""The audit log: what it holds after people decided, and that a change of it shows."""

from pathlib import Path

import pytest
from sqlalchemy import text

from agent.domain.content import Content
from agent.storage.database import open_engine
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_deciding import asked, card_with
from tests.fakes import ALICE, BOB, GUEST, THREAD, clicked, commanded, said


def acts(shown: Content) -> list[tuple[str, str, str]]:
    """Number, who and what of the entries on a card, the oldest first."""
    assert shown.card is not None
    assert shown.card.table is not None
    return [(row[0], row[2], row[3].split()[0]) for row in reversed(shown.card.table.rows)]


async def test_every_step_of_a_decision_is_an_entry(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "Nothing was asked" in (await stage.asks("audit")).card.body  # type: ignore[union-attr]
        approval_id = (await asked(harness, brain, csv)).buttons[0].subject
        await stage.asks("approve", approval_id, "with", "rounds=20")
        await brain.delivery.idle()
        await brain.router.accept(clicked((await card_with(harness, "approve")).buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        await brain.router.idle()
        await brain.router.accept(said("train a model that predicts health"))
        await card_with(harness, "approve")
        await stage.tells("reject")
        shown = await stage.asks("audit", "verify", "csv", person=BOB)
        whole = ["asked", "changed", "approved", "done", "asked", "rejected"]
        assert acts(shown) == [(str(n), "alice", act) for n, act in enumerate(whole, 1)]
        assert "The log is whole: 6 rows" in shown.card.body  # type: ignore[union-attr]
        lines = Path(shown.files[0].path).read_text().splitlines()
        assert (lines[0].split(",")[:4], len(lines)) == (["number", "at", "who", "act"], 7)
        assert f"{approval_id} start_training" in lines[1]


async def test_what_people_change_without_a_question_is_an_entry_and_what_they_look_at_is_none(
    harness: Harness,
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        for words in (("status",), ("card", "log"), ("pause",), ("stop", run.id), ("stop", run.id)):
            await stage.asks(*words, person=ALICE)
        await stage.asks("priority", "r-zzzzzz", "high", person=BOB)  # refused: there is none
        shown = await stage.asks("audit", "verify", "csv", person=BOB)
        assert "The log is whole" in shown.card.body  # type: ignore[union-attr]
        told = [(row[2], row[3]) for row in reversed(shown.card.table.rows)]  # type: ignore[union-attr]
        assert told == [("alice", f"did {what} {run.id}") for what in ("pause_run", "stop_run", "stop_run")]


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ("UPDATE audit_entry SET who = 'slack/T1/U-bob' WHERE number = 2", 2),
        ("DELETE FROM audit_entry WHERE number = 2", 3),
        ("UPDATE audit_entry SET act = 'rejected', hash = 'x' WHERE number = 1", 1),
    ],
)
async def test_a_changed_log_names_the_first_entry_that_does_not_fit(
    harness: Harness, csv: Path, change: str, first: int
) -> None:
    async with harness.open() as brain:
        await brain.router.accept(clicked((await asked(harness, brain, csv)).buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        await brain.router.idle()
    engine = open_engine(f"sqlite:///{harness.folder}/test.db")
    with engine.begin() as connection:
        connection.execute(text(change))
    engine.dispose()
    async with harness.open() as brain:
        card = (await Stage(harness, brain).asks("audit", "verify")).card
        assert card is not None
        assert f"row {first} is the first that does not fit" in card.body


async def test_other_channels_and_guests_are_shown_nothing(harness: Harness, csv: Path) -> None:
    elsewhere = THREAD.model_copy(update={"channel": "C9"})
    async with harness.open() as brain:
        await asked(harness, brain, csv)
        for act in (commanded("audit", "csv", thread=elsewhere), commanded("audit", person=GUEST)):
            before = len(harness.adapter.whispers)
            await brain.router.accept(act)
            await harness.until(lambda before=before: len(harness.adapter.whispers) > before)  # type: ignore[misc]
        (_, there), (_, guest) = harness.adapter.whispers[-2:]
        assert there.card is not None
        assert (there.card.table, there.files) == (None, ())
        assert "Guests" in guest.text
