"""Budgets and prices: what is counted, what is refused, and what is settled once a run is over."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.clock import month_began
from agent.commands.typed import words_of
from agent.domain.budgets import EACH, Scope, Unit, amount_of, holder_of, shown
from agent.domain.content import ALWAYS, Card
from agent.domain.errors import BadRequest
from agent.domain.events import Accepted, Ended, Started
from agent.domain.policy import Grants, grants_of
from agent.domain.prices import prices_of
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.llm.offline import OfflinePlanner
from agent.ports import ModelReply, ToolCall
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage
from tests.agent.test_allowances import click
from tests.agent.test_deciding import asked, card_with
from tests.fakes import ALICE, BOB, THREAD, ScriptedModel, clicked, commanded, host, said


@pytest.fixture
def admin(harness: Harness) -> Harness:
    harness.options = replace(harness.options, grants=Grants(admin=grants_of(ALICE.id)))
    return harness


def facts_of(card: Card) -> dict[str, str]:
    return {fact.name: fact.value for fact in card.facts}


def test_prices_are_read_by_unit_and_host() -> None:
    prices = prices_of("gpu=2.50, cpu=0.05, gpu-1:gpu=4")
    assert prices.hourly(gpus=2, host="gpu-2") == Decimal("5.00")
    assert prices.hourly(gpus=1, host="gpu-1") == Decimal(4)
    assert prices.hourly(gpus=0, host="gpu-1") == Decimal("0.05")
    assert prices_of("").hourly(gpus=1, host="gpu-1") is None
    with pytest.raises(ValueError, match="is no price"):
        prices_of("gpu=2.50 cpu=1")


@pytest.mark.parametrize(
    ("text", "amount"), [("50", 50.0), ("$1,200.50", 1200.5), ("2M", 2e6), ("500k", 5e5), ("none", None)]
)
def test_an_amount_is_read_as_people_write_it(text: str, amount: float | None) -> None:
    assert amount_of(text) == amount


@pytest.mark.parametrize("text", ["-1", "much", "1e99", "nan", ""])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is no amount"):
        amount_of(text)


def test_amounts_are_shown_with_their_unit() -> None:
    assert [shown(unit, 2.5) for unit in Unit] == ["$2.50", "2 tokens", "2.5 GPU-hours"]


async def test_admins_set_budgets_and_everybody_sees_what_is_left(admin: Harness) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        nothing = (await stage.asks("budget")).card
        assert nothing is not None
        assert "This channel, this month: $0.00 (language models $0.00, runs $0.00), 0 tokens" in nothing.body
        assert "No budget holds here" in nothing.body
        assert "Admins set budgets: `U-alice`" in (await stage.asks("budget", "channel", "usd=5", person=BOB)).text
        answer = await stage.asks("budget", "channel", "usd=50", "gpu_hours=10", "tokens=2M")
        assert answer.text == "The budget of this channel is now: $50.00, 2,000,000 tokens, 10 GPU-hours."
        await stage.asks("budget", "person", "gpu_hours=4")
        await stage.asks("budget", "person", "who=<@U-bob>", "gpu_hours=1")
        await stage.running(SPEC.model_copy(update={"gpus": 2, "max_hours": 1.5, "price_usd": Decimal(3)}))
        table = (await stage.asks("budget")).card
        assert table is not None
        assert table.table is not None
        assert table.table.rows == (
            ("You, this month, GPU-hours", "3", "4", "1"),
            ("This channel, this month", "$4.50", "$50.00", "$45.50"),
            ("This channel, this month, tokens", "0", "2,000,000", "2,000,000"),
            ("This channel, this month, GPU-hours", "3", "10", "7"),
        )
        of_bob = (await stage.asks("budget", person=BOB)).card
        assert of_bob is not None
        assert of_bob.table is not None
        assert of_bob.table.rows[0] == ("You, this month, GPU-hours", "0", "1", "1")
        assert "none" in (await stage.asks("budget", "channel", "tokens=none")).text
        for wrong, said in (("usd=lots", "is no amount"), ("who=U1 usd=2", "goes with"), ("", "Say how much")):
            assert said in (await stage.asks("budget", "channel", *wrong.split())).text


async def test_an_admin_of_one_channel_sets_no_budget_beyond_it(harness: Harness) -> None:
    harness.options = replace(harness.options, grants=Grants(admin=grants_of(f"{ALICE.id}@{THREAD.channel}")))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await stage.tells("hello")  # begins a thread
        for beyond in (("everywhere", "usd=0"), ("person", "usd=3"), ("person", f"who={BOB.key}", "usd=3")):
            assert "You are an admin of this channel alone" in (await stage.asks("budget", *beyond)).text
        assert await brain.stores.budgets.all() == []
        for within in ("channel", "thread"):
            assert "is now: $5.00" in (await stage.asks("budget", within, "usd=5")).text


async def test_a_run_is_settled_with_what_it_used(admin: Harness) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        spec = SPEC.model_copy(update={"max_hours": 2.0, "price_usd": Decimal(6)})
        run = await stage.running(spec)
        used = await brain.stores.budgets.used(Scope.CHANNEL, THREAD.channel_key, None)
        assert used.usd == 12.0, "all that was approved is set aside"
        await stage.ended(run, RunState.SUCCEEDED)  # after a minute
        used = await brain.stores.budgets.used(Scope.CHANNEL, THREAD.channel_key, None)
        assert used.usd == pytest.approx(0.1)
        for scope, key, usd in (
            (Scope.PERSON, ALICE.key, 0.1),
            (Scope.PERSON, BOB.key, 0),
            (Scope.EVERYWHERE, "", 0.1),
        ):
            assert (await brain.stores.budgets.used(scope, key, None)).usd == pytest.approx(usd)


async def test_over_a_change_of_month_what_ran_in_it_counts_and_what_is_open(admin: Harness) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "channel", "usd=5")

        async def used() -> tuple[str, ...]:
            card = (await stage.asks("budget")).card
            assert card is not None
            assert card.table is not None
            return card.table.rows[0][1:]

        run = await stage.running(SPEC.model_copy(update={"max_hours": 2.0, "price_usd": Decimal(2)}))
        waits = await stage.running(SPEC.model_copy(update={"max_hours": 0.5, "price_usd": Decimal(1)}))
        await stage.ended(waits, RunState.STOPPED)  # after a minute, in the old month
        next_month = (month_began(admin.clock.now()) + timedelta(days=32)).replace(day=1)
        admin.clock.forward((next_month - admin.clock.now()).total_seconds() + 1800)
        assert await used() == ("$4.00", "$5.00", "$1.00"), "what is open now is set aside now"
        outcome = Outcome(state=RunState.FAILED, exit_class=ExitClass.USER_ERROR, reason="bad", seconds=3600.0)
        await stage.says(run, Ended(outcome=outcome))
        assert await used() == ("$1.00", "$5.00", "$4.00"), "half of its hour ran in the old month"
        card = (await stage.asks("cost")).card
        assert card is not None
        of_channel, of_thread = "- Runs: 30 min 00 s on CPUs, $1.00", "- Runs: 1 h 01 min on CPUs, $2.02"
        assert of_channel in card.body
        assert of_thread in card.body
        for _ in range(2):
            assert "tried again" in (await stage.asks("retry", run.id)).text
            assert await used() == ("$3.00", "$5.00", "$2.00")
            await stage.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9))
            await stage.says(run, Ended(outcome=outcome.model_copy(update={"seconds": 0.001})))
        await stage.asks("budget", "channel", "usd=2.5")
        assert "left of $2.50" in (await stage.asks("retry", run.id)).text


async def test_what_runs_cost_is_shown_beside_what_models_cost(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=2),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 2, "max_hours": 1.5, "price_usd": Decimal(6)}))
        card = (await stage.asks("cost")).card
        assert card is not None
        assert "- Set aside for runs that are not over: 3 GPU-hours, $9.00" in card.body
        await stage.ended(run, RunState.SUCCEEDED)  # after a minute
        unpriced = await stage.running(SPEC)
        await stage.ended(unpriced, RunState.SUCCEEDED)
        card = (await stage.asks("cost")).card
        assert card is not None
        lines = card.body.splitlines()
        assert set(lines[-2:]) == {
            f"- `{unpriced.id}` y: 1 min 00 s on CPU, no price is set",
            f"- `{run.id}` y: 1 min 00 s on 2 GPUs, 0.03 GPU-hours, $0.10",
        }
        of_channel = lines[lines.index("**This channel, this month**") :]
        assert of_channel[1:4] == [
            "- Language models: nothing",
            "- Runs: 0.03 GPU-hours, 1 min 00 s on CPUs, $0.10",
            "- Without a known price: 1 run",
        ]
        card = (await stage.asks("budget")).card
        assert card is not None
        assert "- This channel, this month: $0.10 (language models $0.00, runs $0.10), 0 tokens" in card.body


async def priced(harness: Harness, brain: Brain, csv: Path, price: int = 10) -> Card:
    """The card of a training for an hour that costs so much."""
    harness.fleet.an_hour = Decimal(price)
    return await asked(harness, brain, csv)


async def test_what_is_left_stands_on_the_card_and_more_than_that_is_not_approved(admin: Harness, csv: Path) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "channel", "usd=8")
        card = await priced(admin, brain, csv)
        assert facts_of(card)["Budget"] == "this channel $8.00 left of $8.00 this month"
        before = len(admin.adapter.whispers)
        await brain.router.accept(clicked(card.buttons[0]))
        await admin.until(lambda: len(admin.adapter.whispers) > before)
        told = admin.adapter.whispers[-1][1].text
        assert told == (
            "This may take $10.00, and this channel has $8.00 left of $8.00. Ask for less, or an admin raises it: "
            "`budget channel usd=…`."
        )
        assert admin.fleet.launched == []
        await stage.asks("budget", "channel", "usd=15")
        await brain.router.accept(clicked(card.buttons[0]))
        await admin.until(lambda: len(admin.fleet.launched) == 1)


async def test_what_is_left_stands_on_a_plan_of_gpu_hours_and_where_a_run_is_tried_again(
    admin: Harness, csv: Path
) -> None:
    admin.fleet.infos, admin.fleet.an_hour = (host("gpu-1", gpus=2),), Decimal(2)
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 1, "max_hours": 2.5, "price_usd": Decimal(2)}))
        await stage.asks("budget", "channel", "gpu_hours=10", "tokens=2M")
        await stage.asks("budget", "thread", "usd=9")
        left = "this channel 7.5 left of 10 GPU-hours this month; this thread $4.00 left of $9.00"
        assert facts_of(await asked(admin, brain, csv))["Budget"] == left
        await stage.ended(run, RunState.STOPPED)
    call = ToolCall("c1", "retry_run", f'{{"run": "{run.id}"}}')
    admin.model = ScriptedModel(ModelReply("", (ToolCall("c0", "list_runs", "{}"),), "m"), ModelReply("", (call,), "m"))
    async with admin.open() as brain:
        await brain.router.accept(said("what failed is worth another look"))
        await admin.until(lambda: any(one.card.title.startswith("Retry") for one in admin.adapter.shown if one.card))
        card = next(one.card for one in admin.adapter.shown if one.card and one.card.title.startswith("Retry"))
        assert (
            facts_of(card)["Budget"]
            == "this channel 10 left of 10 GPU-hours this month; this thread $8.97 left of $9.00"
        )


async def test_two_clicks_at_once_spend_no_dollar_twice(admin: Harness, csv: Path) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "channel", "usd=15")
        cards = [await priced(admin, brain, csv)]
        run = await stage.running()
        await stage.asks("clone", run.id, "seed=3")
        await brain.router.idle()
        await brain.delivery.idle()
        cards.append(await card_with(admin, "approve"))
        assert cards[0].buttons[0].subject != cards[1].buttons[0].subject
        launched = len(admin.fleet.launched)
        await asyncio.gather(*(brain.router.accept(clicked(card.buttons[0])) for card in cards))
        await brain.router.idle()
        await brain.delivery.idle()
        assert len(admin.fleet.launched) == launched + 1
        assert any("has $5.00 left of $15.00" in said.text for _, said in admin.adapter.whispers)


async def test_a_language_model_is_not_asked_once_a_budget_is_used_up(admin: Harness) -> None:
    reply = ModelReply("Fine.", (), "m", tokens_in=900, tokens_out=200, cost_usd=0.5)
    admin.model = model = ScriptedModel(reply)
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "person", "tokens=1000")
        assert await stage.tells("how are you?") == "Fine."
        told = await stage.tells("and now?")
        assert told == (
            "I ask no language model here: you 1,100 of 1,000 tokens this month are used up. Commands still work "
            "(`help`); an admin raises it: `budget person tokens=…`."
        )
        assert (await stage.asks("compact")).text == told
        assert len(model.asked) == 1
        assert "no run" in (await stage.tells("/train status")).lower()
        await stage.asks("budget", "person", "tokens=none")


async def test_calls_without_a_known_price_are_named_where_money_is_limited(admin: Harness) -> None:
    unpriced = ModelReply("Fine.", (), "m", tokens_in=9_000, tokens_out=200)
    priced = replace(unpriced, cost_usd=0.02)
    admin.model = ScriptedModel(unpriced, unpriced, priced)
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        for amounts in (("person", "tokens=9M"), ("everywhere", "usd=5"), ("channel", "usd=5", "tokens=9M")):
            await stage.asks("budget", *amounts)
        for _ in range(3):
            assert await stage.tells("how are you?") == "Fine."
        card = (await stage.asks("budget")).card
        await stage.asks("budget", "everywhere", "usd=none")
        await stage.asks("budget", "channel", "usd=none")
        without = (await stage.asks("budget")).card
    assert card is not None
    assert without is not None
    of = "2 calls without a known price, which the budget of money does not count; one of tokens does."
    assert [line for line in card.body.splitlines() if "price" in line] == [
        f"- This channel, this month: {of}",
        f"- Everybody, this month: {of}",
    ]
    assert "price" not in without.body


async def test_runs_without_a_known_price_are_named_where_money_is_limited(admin: Harness, csv: Path) -> None:
    admin.fleet.an_hour = None
    admin.model = ScriptedModel(ModelReply("Fine.", (), "m", tokens_in=9, tokens_out=2))
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.tells("how are you?")
    admin.model = OfflinePlanner()
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "channel", "usd=5", "gpu_hours=9")
        first = await asked(admin, brain, csv)
        own = "this job has no known price, so no budget of money counts it"
        gpus = "this channel 9 left of 9 GPU-hours this month"
        left = "this channel $5.00 left of $5.00 this month (without 1 call of no known price)"
        assert facts_of(first)["Budget"] == f"{left}; {gpus}; {own}"
        await click(admin, brain, first, ALWAYS)
        run = await brain.stores.runs.get(admin.fleet.launched[0].run)
        await stage.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9))
        await stage.ended(run, RunState.FAILED)
        assert "tried again" in (await stage.asks("retry", run.id)).text  # it is one run, with two attempts
        await brain.router.accept(commanded("start", "health", "seed=9"))
        await stage.settled()
        by_itself = [one.card for one in admin.adapter.shown if one.card and "always here" in one.card.footer][-1]
        named = "(without 1 call and 1 run of no known price)"
        assert facts_of(by_itself)["Budget"] == f"this channel $5.00 left of $5.00 this month {named}; {gpus}; {own}"
        card = (await stage.asks("budget")).card
    assert card is not None
    assert [line for line in card.body.splitlines() if "2 runs" in line] == [
        "- This channel, this month: 2 runs without a known price, which the budget of money does not count; one of "
        "GPU-hours counts those on GPUs."
    ]


async def test_a_summary_is_billed_to_who_asks_for_it(admin: Harness) -> None:
    summary = ModelReply("Bob greeted me.", (), "m", tokens_in=300, tokens_out=4)
    admin.model = ScriptedModel(ModelReply("Fine.", (), "m", tokens_in=90, tokens_out=2), summary)
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.tells("how are you?", person=BOB)
        assert "summarised" in await stage.tells("compact")
        tokens = {of.id: (await brain.stores.budgets.used(Scope.PERSON, of.key, None)).tokens for of in (ALICE, BOB)}
    assert tokens == {ALICE.id: 304, BOB.id: 92}


async def test_where_rules_answer_no_budget_of_models_holds(admin: Harness) -> None:
    admin.options = replace(admin.options, charged=False)
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "channel", "tokens=0")
        assert "language model" not in await stage.tells("status")


async def test_a_budget_of_each_person_gives_way_to_ones_own(admin: Harness) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        await stage.asks("budget", "person", "usd=5")
        await stage.asks("budget", "person", f"who={ALICE.key}", "usd=9")
        stored = {(budget.key, budget.amount) for budget in await brain.stores.budgets.all()}
        assert stored == {(EACH, 5.0), (ALICE.key, 9.0)}
        shown_to = {}
        for person in (ALICE, BOB):
            card = (await stage.asks("budget", person=person)).card
            assert card is not None
            assert card.table is not None
            shown_to[person.id] = card.table.rows[0][2]
        assert shown_to == {ALICE.id: "$9.00", BOB.id: "$5.00"}


@pytest.mark.parametrize(
    ("who", "key"),
    [
        ("<@U-bob>", "slack/T1/U-bob"),
        ("<@U7|carol>", "slack/T1/U7"),
        ("<@!184>", "slack/T1/184"),
        ("U-bob", "slack/T1/U-bob"),
        ("@Bob", "slack/T1/U-bob"),
        ("alice", "slack/T1/U-alice"),
        ("U012AB", "slack/T1/U012AB"),
        ("slack/T2/U9", "slack/T2/U9"),
        ("ann", "Several people here are called `ann`. Write the id of one: `U1`, `U2`."),
        ("carol", "I know nobody here as `carol`. Mention them (`who=@…`), or write their id: `who=U012AB`."),
        ("CAROL", "I know nobody here as `CAROL`."),
        ("<@U7|carol> and <@U8>", "I know nobody here"),
    ],
)
def test_a_person_is_named_by_mention_id_or_a_name_that_is_one_persons(who: str, key: str) -> None:
    spoke = [BOB, *(BOB.model_copy(update={"id": id_, "name": "ann"}) for id_ in ("U1", "U2"))]
    if " " not in key:
        assert holder_of(who, ALICE, spoke) == key
        return
    with pytest.raises(BadRequest, match=re.escape(key)):
        holder_of(who, ALICE, spoke)


async def test_a_budget_of_a_name_is_set_for_who_spoke_under_it(admin: Harness) -> None:
    async with admin.open() as brain:
        stage = Stage(admin, brain)
        assert "I know nobody here as `bob`" in (await stage.asks("budget", "person", "who=bob", "usd=5")).text
        assert await brain.stores.budgets.all() == []
        await stage.tells("hello", person=BOB)
        set_ = (await stage.asks("budget", "person", "who=bob", "usd=5")).text
        assert set_ == "The budget of bob (`U-bob`) is now: $5.00."
        assert [budget.key for budget in await brain.stores.budgets.all()] == [BOB.key]


@pytest.mark.parametrize("text", ["budget channel usd=5 gpu_hours=10", "budget person who=U1 usd=none", "auto off"])
def test_a_budget_is_set_in_words_without_a_slash(text: str) -> None:
    assert words_of(text) == tuple(text.split())
    assert words_of("budget channel is too small") is None
