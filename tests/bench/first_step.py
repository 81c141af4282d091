"""Row: from the click on Approve to the first training step, against `python train.py` of the same bundle by hand.

Ours is the whole stack: Slack, bot, database, signature, Celery, supervisor, split and sealed labels, training. The
peer has its data split already and starts a fresh interpreter. Both end when the training logged its first row, by
the time that stands in the row: nobody needs to have read it.
"""

import asyncio
import contextlib
import io
import json
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.processes import REPO, clean_environment, home_with_redis, python
from tests.bench.progress import say
from tests.bench.rows import Row, median, within
from tests.bench.workspace import BOT, Workspace, connected_to
from worker.client.bundle import pack
from worker.recipes.prepare import main as prepare

RECIPE, TARGET = "tabular_classification", "visited_doctor"
LINES, ROUNDS = 2001, 5
MORE_S = 2.5
LIMIT_S = 90.0


def measure() -> Sequence[Row]:
    """Rounds of a click and a start by hand in turn, after one that does not count."""
    with home_with_redis() as (home, redis_url):
        own = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url, "TRAINYARD_HOST_ID": "gpu-1"}
        with python("-m", "worker", log=home / "worker.log", env=clean_environment(**own)):
            ours, peer = asyncio.run(_both(home, own))
    row = within(
        "click on Approve to first step", ours=ours, peer=peer, peer_name="python train.py", unit="s", more=MORE_S
    )
    return [row]


async def _both(home: Path, own: dict[str, str]) -> tuple[float, float]:
    lines = (REPO / "examples/doctor_visits.csv").read_bytes().splitlines(keepends=True)
    data = b"".join(lines[:LINES])
    ours, peer = [], []
    async with Workspace() as slack, connected_to(slack, BOT, home / "bot.log", **own):
        await slack.until(lambda: slack.connected)
        for number in range(1 + ROUNDS):
            ours.append(await clicked(slack, home, data, f"thread-{number}"))
            peer.append(await asyncio.to_thread(_by_hand, home / f"hand-{number}", data))
            say(f"first step: round {number} of {ROUNDS}: ours {ours[-1]:.2f} s, by hand {peer[-1]:.2f} s")
    return median(ours[1:]), median(peer[1:])


async def clicked(slack: Workspace, home: Path, data: bytes, channel: str, target: str = TARGET) -> float:
    """Seconds from the click to the first row of metrics, in a thread of its own; waits for the result."""
    slack.channel(channel)
    alice, runs = slack.user("alice"), home / "hosts/gpu-1/runs"
    words = f"train a model that predicts {target}"
    asked = alice.mention(words, channel=channel, files=[slack.file("data.csv", data)])
    await slack.until(lambda: any("Approve" in message.buttons for message in slack.thread(asked.ts)))
    card = next(message for message in slack.thread(asked.ts) if "Approve" in message.buttons)
    known = set(runs.glob("*"))
    began = time.time()
    alice.click(card, "Approve")
    await until_logged(lambda: any(logged_at(run) for run in set(runs.glob("*")) - known))
    seconds = max(map(logged_at, set(runs.glob("*")) - known)) - began
    await slack.until(lambda: any("Result of" in message.shown for message in slack.thread(asked.ts)))
    await asyncio.sleep(1.0)  # the supervisor is gone before the next one is measured
    return seconds


def _by_hand(folder: Path, data: bytes) -> float:
    _lay_out(folder, data)
    env = clean_environment(TRAINYARD_RUN_DIR=str(folder), TRAINYARD_RUN_ID="by-hand", TRAINYARD_ATTEMPT="1")
    env["PYTHONPATH"] = str(folder)
    program = f"import os, runpy; os.chdir({str(folder)!r}); runpy.run_path('train.py', run_name='__main__')"
    began = time.time()
    with python("-c", program, log=folder / "log", env=env):
        while not logged_at(folder):
            if time.time() - began > LIMIT_S:
                raise RuntimeError((folder / "log").read_text())
            time.sleep(0.05)
    return logged_at(folder) - began


def _lay_out(folder: Path, data: bytes) -> None:
    """The bundle as the supervisor unpacks it, with the data split."""
    (folder / "data").mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(pack(RECIPE)[1])) as tar:
        tar.extractall(folder, filter="data")
    (folder / "data/source.csv").write_bytes(data)
    dataset = {"sha256": "0" * 64, "name": "visits.csv", "size_bytes": len(data)}
    spec = {"task": RECIPE, "recipe": RECIPE, "dataset": dataset, "target": TARGET, "host": "here"}
    config = {"run": "by-hand", "spec": spec | {"bundle_sha256": "0" * 64}, "data": "data/source.csv"}
    (folder / "config.json").write_text(json.dumps(config))
    with contextlib.redirect_stdout(sys.stderr):
        code = prepare(["--run-dir", str(folder), "--sealed-dir", str(folder / "sealed")])
    if code != 0:
        raise RuntimeError((folder / "error.json").read_text())


async def until_logged(true: Callable[[], object]) -> None:
    """Look seldom: the rows tell the time by themselves, and whoever looks takes a processor from what is measured."""
    end = time.monotonic() + LIMIT_S
    while not true():
        if time.monotonic() > end:
            raise RuntimeError("no row of metrics was logged")
        await asyncio.sleep(0.05)


def logged_at(run: Path, number: int = 0) -> float:
    """When a row of metrics was logged, in seconds of the epoch; 0 while there is none."""
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return float(json.loads(lines[number])["at"]) if number < len(lines) and lines[number].endswith("\n") else 0.0
