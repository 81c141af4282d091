"""The commands as Discord has them: groups, typed options, and what is proposed while somebody types."""

from pathlib import Path

import pytest

from agent.commands.registry import COMMANDS, HELP
from agent.domain.events import Accepted, Started
from agent.domain.inbound import Commanded, Person
from bot.discord.commands import CHANGED
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage, rows
from tests.discord.conftest import Bot
from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import Json


@pytest.mark.parametrize(
    ("words", "options", "typed"),
    [
        ("status", {"run": "r-abc123"}, ("status", "r-abc123")),
        ("control priority", {"level": "high", "run": "r-abc123"}, ("priority", "r-abc123", "high")),
        ("metrics", {"csv": True, "parquet": False}, ("metrics", "csv")),
        (
            "chart",
            {"run": "r-abc123", "metric": "loss accuracy", "last": "2h", "smooth": 0.9, "log": True, "vs": "r-def456"},
            ("chart", "r-abc123", "loss", "accuracy", "last=2h", "log", "smooth=0.9", "vs", "r-def456"),
        ),
        ("look compare", {"run": "r-abc123 r-def456"}, ("compare", "r-abc123", "r-def456")),
        ("look script", {"run": "r-abc123", "version": 1}, ("script", "r-abc123", "1")),
        ("logs", {"run": "r-abc123 level=error older"}, ("logs", "r-abc123", "level=error", "older")),
        ("logs", {"search": '"out of memory"', "level": "error"}, ("logs", "out of memory", "level=error")),
        ("predict", {"row": 'age=30 health="very good"'}, ("predict", "age=30", "health=very good")),
        (
            "start",
            {"target": "my column", "hours": 2.0, "gpus": 1, "retries": False, "settings": "lr=0.1 epochs=3"},
            ("start", "my column", "hours=2", "gpus=1", "retries=no", "lr=0.1", "epochs=3"),
        ),
        (
            "start",
            {"file": "train.py", "args": "--name 'a b'", "env": "DEPTH=3"},
            ("start", "file=train.py", "env.DEPTH=3", "--name", "a b"),
        ),
        ("help", {"about": "chart"}, ("help", "chart")),
    ],
)
async def test_options_become_the_words_that_somebody_would_type(
    server: DiscordServer, bot: Bot, words: str, options: Json, typed: tuple[str, ...]
) -> None:
    await server.user("alice").slash(f"train {words}", **options)
    assert (await bot.next()).act == Commanded(words=typed)


async def test_discord_takes_every_command_with_room_for_more(server: DiscordServer, bot: Bot) -> None:
    ((train,),) = server.world.commands.values()
    groups = {option["name"]: option for option in train["options"] if option["type"] == 2}
    shown = [one["name"] for one in train["options"] if one["type"] == 1]
    inside = [one["name"] for group in groups.values() for one in group["options"]]
    assert sorted(shown + inside) == sorted([*COMMANDS, HELP.name])
    assert set(groups) == {"look", "control", "change", "session"}
    assert len(train["options"]) <= 18  # of 25


async def test_what_discord_shows_of_an_earlier_version_is_answered(server: DiscordServer, bot: Bot) -> None:
    ((train,),) = server.world.commands.values()
    train["options"].append({"name": "gone", "description": "Gone", "type": 1})
    used = await server.user("alice").slash("train gone")
    assert [reply.text for reply in used.replies] == [CHANGED]
    assert bot.came == []


async def test_runs_metrics_and_names_are_proposed_while_somebody_types(server: DiscordServer, tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    async with harness.open() as brain:
        bot = Bot(server)
        bot.complete = brain.complete
        await bot.start()
        here, elsewhere = bot.address(server.general), bot.address(server.world.direct(server.user("bob").person))
        runs = []
        for thread in (here, here, elsewhere):
            session_id = await brain.stores.conversations.session_of(thread, create=True)
            assert session_id is not None
            person = Person(platform="discord", tenant=thread.tenant, id="1")
            token = f"t{len(runs)}"
            harness.clock.forward(1.0)
            runs.append(
                await brain.service.create(
                    SPEC, session_id=session_id, requester=person.key, thread=thread, token=token
                )
            )
        first, second, _ = runs
        await Stage(harness, brain).says(
            second, Accepted(boot_id="b"), Started(model="m", total_steps=9), rows(1, 2, train_loss=0.5, val_auc=0.7)
        )
        alice = server.user("alice")
        shown = await alice.proposed("train status", "run", "")
        assert list(shown.values()) == [second.id, first.id], "the newest first, and none of another channel"
        assert next(iter(shown)).startswith(f"{second.id} · {second.spec.subject} · ")
        assert list((await alice.proposed("train pause", "run", first.id[:5])).values()) == [first.id]
        metrics = await alice.proposed("train chart", "metric", "loss a", run=second.id)
        assert metrics == {"auc": "loss auc"}
        assert await alice.proposed("train chart", "metric", "", run="r-zzzzzz") == {}
        assert list(await alice.proposed("train results", "picture", "conf", run=second.id)) == ["confusion"]
        assert list(await alice.proposed("train start", "host", "")) == ["gpu-1"]
        assert list(await alice.proposed("train help", "about", "pri")) == ["priority"]
        await bot.stop()
