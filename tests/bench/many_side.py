"""The bot's process for `tests.bench.many`: a database, a real gateway, conversations. Prints JSON at its end.

Arguments: a folder, the model server's address, and how many conversations, events and streams there are.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections import deque
from pathlib import Path

from agent.brain import Brain, Options, Surroundings, build
from agent.clock import SystemClock
from agent.conversation.guards import TurnLimits
from agent.domain.inbound import Inbound
from agent.domain.models import Preference
from agent.llm.acts import act_asked
from agent.llm.chain import GatewayModels
from agent.llm.offline import OfflinePlanner
from agent.storage import sql_stores
from agent.storage.database import Database
from bot.allocator import use_one_heap
from tests.bench.bot_side import CountingAdapter
from tests.fakes import THREAD, FakeBundles, FakeCharts, FakeFleet, engines_of, said
from worker.client.blobs import FolderBlobs

AT_ONCE = 20
EVENTS_A_S = 10.0
SETTLE_S, WATCH_S = 3.0, 8.0
_TICKS = os.sysconf("SC_CLK_TCK")


def event(number: int, words: str) -> Inbound:
    """Words in the thread of this number."""
    return said(words, thread=THREAD.model_copy(update={"thread_id": f"t{number}"}))


async def conversations(brain: Brain, count: int) -> None:
    """One turn in each of so many threads."""
    for first in range(0, count, AT_ONCE):
        for number in range(first, min(count, first + AT_ONCE)):
            await brain.router.accept(event(number, f"begin {number}"))
        await brain.router.idle()


async def latencies(brain: Brain, count: int, sessions: int) -> dict[str, float]:
    """When each event was handed in, by its words, a few a second in threads that are there."""
    begun = {}
    for number in range(count):
        words = f"question {number}"
        begun[words] = time.time()
        await brain.router.accept(event(number * 37 % sessions, words))
        await asyncio.sleep(1 / EVENTS_A_S)
    await brain.router.idle()
    return begun


async def streams(brain: Brain, count: int, gateway: int, url: str) -> dict[str, float]:
    """The shares of a core that this process and the gateway take while so many answers grow, and words a second."""
    for number in range(count):
        await brain.router.accept(event(number, f"tell slowly {number}"))
    await asyncio.sleep(SETTLE_S)
    words, own, other, began = await _slow(url), _own_s(), _process_s(gateway), time.monotonic()
    await asyncio.sleep(WATCH_S)
    seconds = time.monotonic() - began
    found = {"bot_core": _own_s() - own, "gateway_core": _process_s(gateway) - other, "words": await _slow(url) - words}
    return {name: value / seconds for name, value in found.items()}


async def _slow(url: str) -> int:
    with await asyncio.to_thread(urllib.request.urlopen, url.replace("/v1", "/slow"), timeout=10) as answer:
        return int(answer.read())


def _own_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _process_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _TICKS


def _memory_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


async def main(folder: Path, url: str, sessions: int, events: int, at_once: int) -> None:
    """Measure, and print what was found."""
    use_one_heap()
    socket = folder / "gateway.sock"
    database = Database(f"sqlite:///{folder / 'many.db'}")
    await database.start()
    env = dict(os.environ) | {"OPENAI_API_KEY": "local"}
    with subprocess.Popen([sys.executable, "-m", "agent.llm.gateway", "--socket", str(socket)], env=env) as gateway:
        names = (f"openai/local@{url}",)
        models = GatewayModels(names, socket, OfflinePlanner(), patience_s=60, silence_s=120)
        adapter, charts = CountingAdapter(), FakeCharts()
        charts.drawn = deque(maxlen=0)
        brain = build(
            Surroundings(
                stores=sql_stores(database),
                adapters={"slack": adapter},
                engines=engines_of(FakeFleet()),
                blobs=FolderBlobs(folder / "blobs"),
                bundles=FakeBundles(),
                charts=charts,
                model=models.model(Preference()),
                models=models,
                clock=SystemClock(),
                tokens=lambda nonce: f"token of {nonce}",
                acts=act_asked,
                options=Options(pictures=folder / "charts", limits=TurnLimits()),
            )
        )
        await conversations(brain, sessions)
        begun = await latencies(brain, events, sessions)
        memory = _memory_mb()
        growing = await streams(brain, at_once, gateway.pid, url)
        print(json.dumps({"begun": begun, "memory_mb": memory, **growing}), flush=True)
        await brain.close()
        gateway.kill()
    await database.close()


if __name__ == "__main__":
    folder, url, *counts = sys.argv[1:]
    asyncio.run(main(Path(folder), url, *map(int, counts)))
