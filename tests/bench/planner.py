"""Row: how well and how quickly the planner without a model reads sentences whose author had not seen it."""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from agent.llm.features import WEIGHTS
from agent.llm.fit_intents import table
from agent.llm.offline import OfflinePlanner
from tests.agent.heldout import Verdict, judged, words_of
from tests.bench.progress import say
from tests.bench.rows import Row, alone

ROUNDS = 5


def measure() -> Sequence[Row]:
    """Those that are not right, and those on which something else is done, of the held-out sentences in percent."""
    verdicts = asyncio.run(judged(OfflinePlanner()))  # the first sentence loads the weights
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        asyncio.run(judged(OfflinePlanner()))
        times.append((time.perf_counter() - began) * 1000 / len(verdicts))
    learned = {words_of(sentence.words) for sentence in table()}
    new = [verdict for verdict in verdicts if words_of(verdict.said.words) not in learned]
    with np.load(WEIGHTS) as stored:
        cross_validated = float(stored["cross_validated"])
    right, wrong = _share(verdicts, "right"), _share(verdicts, "look", "plan", "act")
    say(f"planner: {len(verdicts)} sentences, {right:.1f} % right, {wrong:.1f} % wrong")
    say(f"planner: {len(new)} of them are not in its table, {_share(new, 'right'):.1f} % right")
    say(f"planner: the intent of {100 * cross_validated:.1f} % of its table is found from the rest")
    return [
        alone("planner: held-out sentences not right", ours=100 - right, unit="%", at_most=15.0),
        alone("planner: the same, not in its table", ours=100 - _share(new, "right"), unit="%", at_most=15.0),
        alone("planner: something wrong is done at once", ours=_share(verdicts, "act"), unit="%", at_most=0.0),
        alone("planner: something else is done, planned or shown", ours=wrong, unit="%", at_most=2.0),
        *_blind("B", "blind sentences"),
        *_blind("Z", "a team's sentences"),
        *_blind("S", "hard sentences"),
        alone("planner: cross-validated intents not found", ours=100 - 100 * cross_validated, unit="%", at_most=15.0),
        alone("planner: a sentence with its look-ups", ours=sorted(times)[ROUNDS // 2], unit="ms", at_most=5.0),
        alone("planner: weights", ours=WEIGHTS.stat().st_size / 1e6, unit="MB", at_most=5.0),
    ]


def _blind(name: str, kind: str) -> Sequence[Row]:
    """What is made of a table that nobody looked at."""
    verdicts = asyncio.run(judged(OfflinePlanner(), name))
    right, wrong = _share(verdicts, "right"), _share(verdicts, "look", "plan", "act")
    say(f"planner: of {len(verdicts)} {kind} {right:.1f} % right, {wrong:.1f} % wrong")
    return (
        alone(f"planner: {kind} not right", ours=100 - right, unit="%", at_most=15.0),
        alone(f"planner: {kind}, something wrong at once", ours=_share(verdicts, "act"), unit="%", at_most=0.0),
        alone(f"planner: {kind}, something else done, planned or shown", ours=wrong, unit="%", at_most=2.0),
    )


def _share(verdicts: Sequence[Verdict], *kinds: str) -> float:
    return 100 * sum(verdict.kind in kinds for verdict in verdicts) / len(verdicts)
