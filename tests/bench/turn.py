"""Rows: one turn of the loop, against pydantic-ai and openai-agents on the same model server; each call of a long one.

What is compared is what is left of a turn when the model client's own time is taken out: of ours the time spent
waiting for the model port, of the peers' the bare OpenAI client's time for the same calls, measured in the same round.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.bench.processes import clean_environment, first_line, python
from tests.bench.progress import say
from tests.bench.rows import Row, alone, compared, median

SHORT = "Say something short, please."
WITH_TOOL = "What do you get when you add 2 and 3?"
TEN_CALLS = "Please add 10 times."
A_CALL_MS = 3.0
ROUNDS, TURNS = 15, 12
SETTLING = 3  # turns of each block that do not count, so that nobody pays for the caches that another has used
IN_MEMORY = 5.0
DURABLE = 0.67  # ours to choose: at most half as much again as a peer that stores nothing


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
    call_ms = await _each_call(folder / "calls", url)
    return [
        *_pair("turn: a short answer", short),
        *_pair("turn: with one tool call", tool),
        alone("turn: each call of ten, durable", ours=call_ms, unit="ms", at_most=A_CALL_MS),
    ]


async def _each_call(folder: Path, url: str) -> float:
    """Median milliseconds that one tool call and the model's next step add to a turn, every row durable."""
    from tests.bench import turn_ours

    folder.mkdir()
    say(f"turn: {ROUNDS} rounds of {TURNS} times “{TEN_CALLS}”")
    added: list[float] = []
    async with turn_ours.ready(folder, url, durable=True) as ours:
        for _ in range(1 + ROUNDS):
            short = await _several(ours.take, SHORT)
            added.append((await _several(ours.take, TEN_CALLS) - short) / 10)
    return median(added[1:])


def _pair(name: str, overheads: dict[str, float]) -> list[Row]:
    """Like for like (everybody keeps the conversation in memory), then ours with every step durable."""
    say(name + ": " + ", ".join(f"{who} {value:.2f} ms" for who, value in overheads.items()))
    memory, durable = overheads.pop("ours in memory"), overheads.pop("ours durable")
    peer = min(overheads, key=overheads.__getitem__)

    def row(how: str, ours: float, at_least: float) -> Row:
        theirs = overheads[peer]
        return compared(f"{name}, {how}", ours=ours, peer=theirs, peer_name=peer, unit="ms", at_least=at_least)

    return [row("in memory", memory, IN_MEMORY), row("durable", durable, DURABLE)]


async def _overheads(folder: Path, url: str, text: str) -> dict[str, float]:
    """Median milliseconds of a turn beyond its model client, by who carried it out."""
    from openai import AsyncOpenAI

    from tests.bench import turn_ours, turn_peers

    folder.mkdir()
    say(f"turn: {ROUNDS} rounds of {TURNS} times “{text}” each")
    beyond: dict[str, list[float]] = {
        name: [] for name in ("ours in memory", "ours durable", "pydantic-ai", "openai-agents")
    }
    async with (
        turn_ours.ready(folder, url, durable=False) as memory,
        turn_ours.ready(folder, url, durable=True) as ours,
        AsyncOpenAI(base_url=url, api_key="local") as client,
    ):
        bare = turn_peers.bare_client(client)
        peers = {
            "pydantic-ai": turn_peers.pydantic_ai_turn(client),
            "openai-agents": turn_peers.openai_agents_turn(client),
        }
        for number in range(1 + ROUNDS):
            found = {
                "ours in memory": await _several(memory.take, text),
                "ours durable": await _several(ours.take, text),
            }
            client_ms = await _several(bare, text)
            found |= {name: await _several(take, text) - client_ms for name, take in peers.items()}
            if number:
                for name, value in found.items():
                    beyond[name].append(value)
        say(f"turn: ours until the last row is stored: {median(ours.settled_s) * 1000:.2f} ms")
    return {name: median(values) for name, values in beyond.items()}


async def _several(take: Callable[[str], Awaitable[float]], text: str) -> float:
    """Median milliseconds of a block of turns, one after the other."""
    return 1000 * median([await take(text) for _ in range(TURNS)][SETTLING:])
