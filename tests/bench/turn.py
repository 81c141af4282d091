"""Row: one turn of the loop, against pydantic-ai and openai-agents on the same model server.

What is compared is what is left of a turn when the model client's own time is taken out: of ours the time spent
waiting for the model port, of the peers' the bare OpenAI client's time for the same calls, measured in the same round.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.processes import clean_environment, first_line, python
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median

SHORT = "Say something short, please."
WITH_TOOL = "What do you get when you add 2 and 3?"
WARM_UP, ROUNDS = 10, 150
AT_LEAST = 5.0


def measure() -> Sequence[Row]:
    """A short answer, and one with a tool call."""
    with tempfile.TemporaryDirectory(prefix="bench-turn-") as name:
        folder = Path(name)
        env = clean_environment()
        with python("-m", "tests.bench.model_server", log=folder / "server.log", env=env) as server:
            return asyncio.run(_rows(folder, f"http://127.0.0.1:{first_line(server)}/v1"))


async def _rows(folder: Path, url: str) -> list[Row]:
    short = await _overheads(folder / "short", url, SHORT)
    tool = await _overheads(folder / "tool", url, WITH_TOOL)
    return [_row("turn: a short answer", short), _row("turn: with one tool call", tool)]


def _row(name: str, overheads: dict[str, float]) -> Row:
    ours = overheads.pop("ours")
    peer = min(overheads, key=overheads.__getitem__)
    say(name + ": " + ", ".join(f"{who} {value:.2f} ms" for who, value in {"ours": ours, **overheads}.items()))
    return compared(name, ours=ours, peer=overheads[peer], peer_name=peer, unit="ms", at_least=AT_LEAST)


async def _overheads(folder: Path, url: str, text: str) -> dict[str, float]:
    """Median milliseconds of a turn beyond its model client, by who carried it out."""
    from openai import AsyncOpenAI

    from tests.bench import turn_ours, turn_peers

    folder.mkdir()
    say(f"turn: {WARM_UP + ROUNDS} rounds of “{text}”")
    beyond: dict[str, list[float]] = {"ours": [], "pydantic-ai": [], "openai-agents": []}
    async with turn_ours.ready(folder, url) as ours, AsyncOpenAI(base_url=url, api_key="local") as client:
        bare = turn_peers.bare_client(client)
        peers = {
            "pydantic-ai": turn_peers.pydantic_ai_turn(client),
            "openai-agents": turn_peers.openai_agents_turn(client),
        }
        for number in range(WARM_UP + ROUNDS):
            seconds = {"ours": await ours.take(text)}
            client_s = await bare(text)
            seconds |= {name: await take(text) - client_s for name, take in peers.items()}
            if number >= WARM_UP:
                for name, value in seconds.items():
                    beyond[name].append(value * 1000)
    return {name: median(values) for name, values in beyond.items()}
