"""Rows: from the click on Approve to the first training step, with warm starts and with `TRAINYARD_WARM=off`.

The whole way of both: Slack, bot, database, signature, Celery, supervisor, split and sealed labels, sandbox, training
until the moment at which its first row of metrics was logged. Only what stands ready differs: supervisor, split,
training. Workers of both kinds take turns. The third case is a person's own script of plain torch, which replaces that
of a stopped run: its data is split already. It has the goal: what recipes do before their first row is their own work.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.first_step import clicked, logged_at, until_logged
from tests.bench.processes import REPO, clean_environment, home_with_redis, python
from tests.bench.progress import say
from tests.bench.rows import Row, compared, limited, median
from tests.bench.warm import TORCH
from tests.bench.workspace import BOT, Workspace, connected_to
from worker.warm.sets import read_ready

TURNS, CLICKS = 2, 3
AT_MOST_S = 0.4
SCRIPT = (
    "from trainyard import TrainingRuntime\nruntime = TrainingRuntime()\n"
    + TORCH.replace('print("step", step, loss.item(), flush=True)', "runtime.log_metrics(step=step, loss=loss.item())")
    + "raise SystemExit(3)  # version {number}: a run that has succeeded gets no other program\n"
)


@dataclass(frozen=True)
class Case:
    """What is trained, and which libraries stand ready for it."""

    name: str
    file: str
    target: str
    lines: int
    libraries: str


TABULAR = Case("tabular recipe", "doctor_visits.csv", "visited_doctor", 2001, "tabular")
TEXT = Case("text recipe (transformers)", "docstrings.csv", "library", 301, "transformers")
OWN = Case("own script (torch)", "docstrings.csv", "library", 301, "transformers")


def measure() -> Sequence[Row]:
    """A bot for all, a worker a turn; its first click does not count."""
    took: dict[str, list[float]] = {}
    with home_with_redis() as (home, redis_url):
        own = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url, "TRAINYARD_HOST_ID": "gpu-1"}
        asyncio.run(_all(home, own, took))
    return [_row(case, took) for case in (TABULAR, TEXT, OWN)]


def _row(case: Case, took: Mapping[str, Sequence[float]]) -> Row:
    ours, peer = median(took[f"{case.name} warm"]), median(took[f"{case.name} cold"])
    name, off = f"click on Approve to first step, {case.name}, warm", "warm starts off"
    if case is OWN:
        return limited(name, ours=ours, peer=peer, peer_name=off, unit="s", at_most=AT_MOST_S)
    return compared(name, ours=ours, peer=peer, peer_name=off, unit="s", at_least=1)


async def _all(home: Path, own: dict[str, str], took: dict[str, list[float]]) -> None:
    async with Workspace() as slack, connected_to(slack, BOT, home / "bot.log", **own):
        await slack.until(lambda: slack.connected)
        place = _Place(slack, home)
        number = 0
        for turn in range(TURNS):
            for case in (TABULAR, TEXT, OWN):
                for how in ("warm", "cold"):
                    number += 1
                    warm = f"data,{case.libraries}" if how == "warm" else "off"
                    env = clean_environment(**own, TRAINYARD_WARM=warm)
                    with python("-m", "worker", log=home / "worker.log", env=env):
                        seconds = await place.clicks(case, f"thread-{number}", warm=how == "warm")
                    took.setdefault(f"{case.name} {how}", []).extend(seconds)
                    shown = ", ".join(f"{s:.2f}" for s in seconds)
                    say(f"approve: turn {turn + 1} of {TURNS}, {case.name} {how}: {shown} s")


class _Place:
    """A workspace with a bot and one host."""

    def __init__(self, slack: Workspace, home: Path) -> None:
        self._slack, self._host = slack, home / "hosts/gpu-1"
        self._home = home

    async def clicks(self, case: Case, thread: str, *, warm: bool) -> Sequence[float]:
        """Seconds of each click but for the first."""
        data = b"".join((REPO / "examples" / case.file).read_bytes().splitlines(keepends=True)[: case.lines])
        if case is OWN:
            return await self._scripts(data, case, thread, warm=warm)
        found = []
        for click in range(1 + CLICKS):
            await self._stands(warm=warm)
            found.append(await clicked(self._slack, self._home, data, f"{thread}-{click}", case.target))
        return found[1:]

    async def _scripts(self, data: bytes, case: Case, thread: str, *, warm: bool) -> Sequence[float]:
        """A run is stopped, and gets one script after the other; each ends without results."""
        slack = self._slack
        slack.channel(thread)
        alice, known = slack.user("alice"), self._runs()
        asked = alice.mention(
            f"train a text model that predicts {case.target} with 500 epochs and patience 999",
            channel=thread,
            files=[slack.file("data.csv", data)],
        )
        await slack.until(lambda: any("Approve" in message.buttons for message in slack.thread(asked.ts)))
        alice.click(next(message for message in slack.thread(asked.ts) if "Approve" in message.buttons), "Approve")
        await slack.until(lambda: any((run / "metrics.jsonl").exists() for run in self._runs() - known))
        (run,) = self._runs() - known
        alice.mention(f"stop {run.name}", channel=thread, thread=asked.ts)
        await slack.until((run / "outcome.json").exists)
        found = []
        for number in range(1 + CLICKS):
            await self._stands(warm=warm)
            await asyncio.sleep(1.0)
            new = slack.file("train.py", SCRIPT.replace("{number}", f"{thread} {number}").encode())
            alice.mention(f"update {run.name} with this script", channel=thread, thread=asked.ts, files=[new])
            await slack.until(lambda: any("Approve" in message.buttons for message in slack.thread(asked.ts)))
            card = next(message for message in slack.thread(asked.ts) if "Approve" in message.buttons)
            before = len((run / "metrics.jsonl").read_text().splitlines())
            began = time.time()
            alice.click(card, "Approve")
            await until_logged(lambda: logged_at(run, before))  # noqa: B023 - awaited here
            found.append(logged_at(run, before) - began)
            await slack.until((run / "outcome.json").exists)
        return found[1:]

    def _runs(self) -> set[Path]:
        return set((self._host / "runs").glob("*"))

    async def _stands(self, *, warm: bool) -> None:
        """Wait for both sets of libraries and the supervisor that waits."""
        await self._slack.until(lambda: not warm or len(read_ready(self._host / "warm")) == 3)
