"""Row: a row asked for in the thread until its prediction stands there, with the model kept up and without."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from agent.domain.content import Content
from agent.domain.runs import RunState
from bot.app import App
from bot.console.adapter import ConsoleAdapter
from bot.console.plain import PlainScreen
from bot.ending import end_all_of
from bot.settings import Settings
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median
from tests.recipes.folders import sklearn_csv

ROUNDS = 5
AT_LEAST = 10.0
HANG_S = 180.0
ROW = "sepal_length_(cm)=5.1 sepal_width_(cm)=3.5 petal_length_(cm)=1.4 petal_width_(cm)=0.2"


def measure() -> Sequence[Row]:
    """A terminal, a worker of its own and iris; the peer is our own process that loads the model for each question."""
    with tempfile.TemporaryDirectory(prefix="bench-predict-") as name:
        home = Path(name)
        try:
            ours, cold = asyncio.run(_both(home))
        finally:
            end_all_of(home)
    return [
        compared(
            "prediction of a row, model kept up",
            ours=1000 * ours,
            peer=1000 * cold,
            peer_name="model not kept up",
            unit="ms",
            at_least=AT_LEAST,
        )
    ]


async def _both(home: Path) -> tuple[float, float]:
    data = home / "iris.csv"
    data.write_text(sklearn_csv("iris"))
    settings = Settings(home=home, redis_url="", database_url="", models="", card_pace_s=0.5, _env_file=None)
    terminal = ConsoleAdapter(
        thread_id="bench", person="you", files=home / "files", read=False, screen=PlainScreen(Console(quiet=True))
    )

    async def until(line: str, seen: Callable[[Content], bool]) -> tuple[float, Content]:
        since, began = len(terminal.shown), time.perf_counter()
        await terminal.say(line)
        found = await terminal.until(seen, limit_s=HANG_S, since=since)
        return time.perf_counter() - began, found

    async with App(settings, [terminal], worker=True) as app:
        while not await app.engines.hosts():
            await asyncio.sleep(0.1)
        await until(f"train a model that predicts kind @{data}", _card("Train a model"))
        await until("yes", _card("Result of"))
        (run,) = await app.brain.stores.runs.recent(1)
        cold = [(await until(f"predict {run.id} {ROW}", _card("Predictions of")))[0] for _ in range(ROUNDS)]
        say(f"predict: {median(cold):.2f} s where the model is loaded for each question")
        await until(f"serve {run.id} hours=1", _card("Keep the model"))
        await terminal.say("yes")
        async with asyncio.timeout(HANG_S):
            while (await app.brain.stores.runs.recent(1))[0].state is not RunState.RUNNING:
                await asyncio.sleep(0.1)
        await until(f"predict {run.id} {ROW}", _card("Predictions of"))
        ours = [(await until(f"predict {run.id} {ROW}", _card("Predictions of")))[0] for _ in range(ROUNDS)]
        return median(ours), median(cold)


def _card(begins: str) -> Callable[[Content], bool]:
    return lambda content: content.card is not None and content.card.title.startswith(begins)
