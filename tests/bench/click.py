"""Rows: from the click on Approve to the first training step, with warm starts and with `TRAINYARD_WARM=off`.

The whole way of both: Slack, bot, database, signature, Celery, supervisor, split and sealed labels, sandbox, training
until the first row of metrics.jsonl. Only how the training step begins differs. Workers of both kinds take turns.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.bench.first_step import clicked
from tests.bench.processes import REPO, clean_environment, home_with_redis, python
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median
from tests.bench.workspace import BOT, Workspace, connected_to
from worker.warm.sets import read_ready

TURNS, CLICKS = 2, 2
# Recipe: file, target, lines of it, the set of libraries, how many times quicker.
RECIPES = {
    "tabular": ("doctor_visits.csv", "visited_doctor", 2001, "data,tabular", 1.5),
    "text": ("docstrings.csv", "library", 301, "data,transformers", 1.5),
}


def measure() -> Sequence[Row]:
    """A bot for all, a worker a turn; its first click does not count."""
    took: dict[str, list[float]] = {}
    with home_with_redis() as (home, redis_url):
        own = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url, "TRAINYARD_HOST_ID": "gpu-1"}
        asyncio.run(_all(home, own, took))
    rows = []
    for recipe, (*_, at_least) in RECIPES.items():
        ours, peer = median(took[f"{recipe} warm"]), median(took[f"{recipe} cold"])
        name = f"click on Approve to first step, {recipe} recipe, warm"
        rows.append(compared(name, ours=ours, peer=peer, peer_name="warm starts off", unit="s", at_least=at_least))
    return rows


async def _all(home: Path, own: dict[str, str], took: dict[str, list[float]]) -> None:
    async with Workspace() as slack, connected_to(slack, BOT, home / "bot.log", **own):
        await slack.until(lambda: slack.connected)
        number = 0
        for turn in range(TURNS):
            for recipe in RECIPES:
                for how in ("warm", "cold"):
                    number += 1
                    seconds = await _worker(slack, home, own, recipe, how, f"room-{number}")
                    took.setdefault(f"{recipe} {how}", []).extend(seconds)
                    say(
                        f"click: turn {turn + 1} of {TURNS}, {recipe} {how}: {', '.join(f'{s:.2f}' for s in seconds)} s"
                    )


async def _worker(
    slack: Workspace, home: Path, own: dict[str, str], recipe: str, how: str, room: str
) -> Sequence[float]:
    file, target, lines, libraries, _ = RECIPES[recipe]
    data = b"".join((REPO / "examples" / file).read_bytes().splitlines(keepends=True)[:lines])
    env = clean_environment(**own, TRAINYARD_WARM=libraries if how == "warm" else "off")
    found = []
    with python("-m", "worker", log=home / "worker.log", env=env):
        for click in range(1 + CLICKS):
            if how == "warm":
                await slack.until(lambda: read_ready(home / "hosts/gpu-1/warm"))
            found.append(await clicked(slack, home, data, f"{room}-{click}", target))
    return found[1:]
