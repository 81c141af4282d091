"""What ends a turn that does not end by itself: its limits, and calls that go round in circles.

Pure functions of what the turn has said and done, so that they hold over a restart. A call counts with its result: to
ask again how something stands is no circle as long as the answer changes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.cards import counted
from agent.ports import ModelMessage, Role, ToolCall

ROUNDS = 3  # so often the same round of calls with the same results is a circle
LONGEST_ROUND = 3  # calls
NOTE = (
    "You made the same calls with the same results {rounds} times: {calls}. Another time changes nothing. Do something "
    "else, or say what you found and what is missing."
)
CIRCLES = "I stopped since I go round in circles: I made the same calls again and again with the same results: {calls}."


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The most for one turn. `minutes` count while it is carried out, not while it waits for people."""

    steps: int = 100
    tokens: int = 5_000_000
    usd: float = 5.0
    minutes: float = 60.0


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    arguments: str
    result: str


def reached(limits: TurnLimits, turn: Sequence[ModelMessage], *, seconds: float) -> str:
    """The sentence about the limit that a turn has reached; empty while it may go on."""
    replies = [said for said in turn if said.role is Role.ASSISTANT and said.model]
    tokens, usd = sum(said.tokens for said in replies), sum(said.cost_usd for said in replies)
    if len(replies) >= limits.steps:
        return f"I stopped after {counted(len(replies), 'step')} without an end in sight."
    if tokens >= limits.tokens:
        return (
            f"I stopped: this turn has used {tokens:,} tokens of a language model, and {limits.tokens:,} are its most."
        )
    if usd >= limits.usd:
        return f"I stopped: this turn has cost ${usd:,.2f}, and ${limits.usd:,.2f} are its most."
    if seconds >= limits.minutes * 60:
        return f"I stopped: this turn has taken {seconds / 60:.0f} minutes, and {limits.minutes:g} are its most."
    return ""


def note_on(turn: Sequence[ModelMessage]) -> str:
    """What a model is told with its newest result, the first time that a turn goes round in circles."""
    repeated = () if any(said.note for said in turn) else _round_in(_steps(turn), ROUNDS)
    return NOTE.format(rounds=ROUNDS, calls=_named(repeated)) if repeated else ""


def circles(turn: Sequence[ModelMessage]) -> str:
    """The sentence about a turn that goes round once more after it was told; empty where it does not."""
    repeated = _round_in(_steps(turn), ROUNDS + 1) if any(said.note for said in turn) else ()
    return CIRCLES.format(calls=_named(repeated)) if repeated else ""


def _steps(turn: Sequence[ModelMessage]) -> list[_Step]:
    """The calls with their results, in the order in which they were made; servers may use an id again."""
    made: list[tuple[ToolCall, list[str]]] = []
    waiting: dict[str, list[str]] = {}
    for said in turn:
        for call in said.calls:
            waiting[call.id] = []
            made.append((call, waiting[call.id]))
        if said.role is Role.TOOL and said.call_id in waiting:
            waiting[said.call_id].append(said.text)
    return [_Step(call.name, _canonical(call.arguments), results[0]) for call, results in made if results]


def _round_in(steps: Sequence[_Step], rounds: int) -> Sequence[_Step]:
    """The shortest round that the last steps repeat so often; empty where they do not."""
    for length in range(1, LONGEST_ROUND + 1):
        tail = steps[-length * rounds :]
        if len(tail) == length * rounds and all(step == tail[n % length] for n, step in enumerate(tail)):
            return tail[:length]
    return ()


def _named(steps: Sequence[_Step]) -> str:
    return ", ".join(f"`{step.name}`" for step in steps)


def _canonical(arguments: str) -> str:
    """The same text for the same arguments."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    given = {k: v for k, v in value.items() if v is not None} if isinstance(value, Mapping) else value
    return json.dumps(given, sort_keys=True)
