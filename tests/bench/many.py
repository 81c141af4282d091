"""Rows: a bot with 500 conversations: how soon a model hears of an event, memory, and 50 answers that grow at once."""

import json
import re
import statistics
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.bench.processes import clean_environment, first_line, python
from tests.bench.progress import say
from tests.bench.rows import Row, alone

SESSIONS, EVENTS, STREAMS = 500, 100, 50
FIRST_BYTE_MS, MEMORY_MB, CORE = 50.0, 300.0, 0.5


def measure() -> Sequence[Row]:
    """One round: the conversations are made, asked on, and fifty of them answered at once."""
    with tempfile.TemporaryDirectory(prefix="bench-many-") as name:
        folder, env = Path(name), clean_environment()
        with python("-m", "tests.bench.model_server", log=folder / "server.log", env=env) as server:
            url = f"http://127.0.0.1:{first_line(server)}"
            counts = [str(count) for count in (SESSIONS, EVENTS, STREAMS)]
            say(f"many: {SESSIONS} conversations, {EVENTS} events, {STREAMS} answers at once")
            argv = ("-m", "tests.bench.many_side", str(folder), f"{url}/v1", *counts)
            with python(*argv, log=folder / "side.log", env=env) as side:
                found = json.loads(first_line(side))
                with urllib.request.urlopen(f"{url}/arrivals", timeout=10) as answer:
                    arrived = json.load(answer)
    late_ms = sorted(1000 * (_of(arrived, words) - at) for words, at in found["begun"].items())
    p95 = statistics.quantiles(late_ms, n=20)[-1]
    say(f"many: event to first byte towards the model: median {statistics.median(late_ms):.1f} ms, p95 {p95:.1f} ms")
    say(f"many: the answers grow by {found['words']:.0f} words a second in all")
    return [
        alone("many: event to first byte towards the model, p95", ours=p95, unit="ms", at_most=FIRST_BYTE_MS),
        alone("many: memory of the bot (PSS)", ours=found["memory_mb"], unit="MB", at_most=MEMORY_MB),
        alone("many: the bot while 50 answers grow", ours=found["bot_core"], unit="cores", at_most=CORE),
        alone("many: the gateway meanwhile, LiteLLM's work", ours=found["gateway_core"], unit="cores", at_most=1.0),
    ]


def _of(arrived: dict[str, float], words: str) -> float:
    """When the request arrived whose person said these words. Raises `StopIteration`."""
    said = re.compile(rf"\b{words}\b")
    return next(at for request, at in arrived.items() if said.search(request))
