"""What ends a turn that does not end by itself: its limits, and calls that go round in circles.

Pure functions of what the turn has said and done, so that they hold over a restart; `polls` are the names of the tools
that declare that they look at what goes on (`agent.tools.tool.Tool.polls`). A call counts with its result: to
ask again how something stands is no circle as long as the answer changes. What waits may be looked at for longer. With
each word of people the count begins anew: they may well ask for the same again.
"""

import functools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agent.cards import counted
from agent.domain.runs import LIVE, RunState
from agent.ports import ModelMessage, Role, ToolCall

ROUNDS = 3  # so often the same round of calls with the same results is a circle
LONGEST_ROUND = 5  # calls
LOOKS = 6  # so often at what waits, without a change, before a model is told; twice as often is the end
GOING_ON = LIVE | {RunState.QUEUED}
_BUG_ID = re.compile(r"\(id \w+\)")  # of a tool that broke: another one each time
NOTE = (
    "You made the same calls with the same results {rounds} times: {calls}. Another time changes nothing. Do something "
    "else, or say what you found and what is missing."
)
UNCHANGED = (
    "Nothing has changed in {rounds} looks: {calls}. Do not wait by looking: say how it stands and end your answer. "
    "The card in the thread goes on telling people."
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
    tokens, usd = sum(said.tokens for said in turn), sum(said.cost_usd for said in turn)
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


def note_on(turn: Sequence[ModelMessage], polls: Collection[str]) -> str:
    """What a model is told with its newest result, the first time that a turn goes round in circles."""
    turn = _since_words(turn)
    repeated = () if any(said.note for said in turn) else _round_in(_steps(turn), polls, ROUNDS, looks=LOOKS)
    note, rounds = (UNCHANGED, LOOKS) if _waits(repeated, polls) else (NOTE, ROUNDS)
    return note.format(rounds=rounds, calls=_named(repeated)) if repeated else ""


def circles(turn: Sequence[ModelMessage], polls: Collection[str]) -> str:
    """The sentence about a turn that goes round once more after it was told; empty where it does not."""
    turn = _since_words(turn)
    noted = next((number for number, said in enumerate(turn) if said.note), len(turn))
    repeated = _round_in(_steps(turn), polls, ROUNDS + 1, looks=2 * LOOKS)
    return CIRCLES.format(calls=_named(repeated)) if 0 < len(repeated) <= len(_steps(turn[noted:])) else ""


def _since_words(turn: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """The newest words of people in a turn, and what came after them."""
    spoken = (number for number in range(len(turn) - 1, 0, -1) if turn[number].steers)
    return turn[next(spoken, 0) :]


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
    return [
        _Step(call.name, _canonical(call.arguments), _BUG_ID.sub("", results[0])) for call, results in made if results
    ]


def _round_in(steps: Sequence[_Step], polls: Collection[str], rounds: int, *, looks: int) -> Sequence[_Step]:
    """The shortest round that the last steps repeat so often (`looks`: at what waits); empty where they do not."""
    for length in range(1, LONGEST_ROUND + 1):
        last = steps[-length:]
        count = length * (looks if _waits(last, polls) else rounds)
        tail = steps[-count:]
        if len(tail) == count and all(step == last[n % length] for n, step in enumerate(tail)):
            return last
    return ()


def _waits(steps: Sequence[_Step], polls: Collection[str]) -> bool:
    """Whether these calls look at something that may change by itself; what names a `state` that has ended does not."""
    return all(step.name in polls and _state_in(step.result) in {"", *GOING_ON} for step in steps)


def _state_in(result: str) -> str:
    """The state of a run that a result names; empty where it names none."""
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        return ""
    return str(data.get("state", "")) if isinstance(data, Mapping) else ""


def _named(steps: Sequence[_Step]) -> str:
    return ", ".join(f"`{step.name}`" for step in steps)


@functools.lru_cache(256)  # each step asks for all calls of its turn
def _canonical(arguments: str) -> str:
    """The same text for the same arguments."""
    try:
        value = json.loads(arguments or "{}")
        given = {k: v for k, v in value.items() if v is not None} if isinstance(value, Mapping) else value
        return json.dumps(given, sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
