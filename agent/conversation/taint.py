"""Whether words of others may be behind a call of a model: of other people, or in what the model read or was told.

Pure. Called by tool calls; the dispatcher decides what follows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.conversation.context import Conversation, since_request
from agent.domain.inbound import Person
from agent.domain.policy import may_read
from agent.domain.runs import Run
from agent.ports import OFFLINE, ModelMessage, Role
from agent.stores import ThreadNow, Turn


@dataclass(frozen=True, slots=True)
class Heard:
    """`own` is what the person said in this turn, `others` whether anybody else's words may be behind a call."""

    own: tuple[str, ...]
    others: bool


def heard(person: Person, talk: Conversation, *, quotes: Callable[[str], bool]) -> Heard:
    """What stands behind the next call of a turn of this person; `quotes` says which tools' answers hold others' words.

    The planner of rules reads the turn's request alone, and nothing that a file or a tool quotes.
    """
    turn = since_request(talk.history)
    own = tuple(said.text for said in turn if said.role is Role.USER and _whose(said) == person.key)
    if any(_is_of_another(said, person) for said in turn):
        return Heard(own, others=True)
    return Heard(own, others=led_by_model(turn) and _reads_others(person, talk, quotes))


def led_by_model(turn: Sequence[ModelMessage]) -> bool:
    """Whether a language model carries this turn: the planner of rules reads one request and nothing beside it."""
    replies = (said.model for said in reversed(turn) if said.role is Role.ASSISTANT)
    return next(replies, "") not in {"", OFFLINE}


def told_runs(now: ThreadNow, turn: Turn) -> list[Run]:
    """The runs among the facts that the person of a turn may hear of in its thread."""
    return [run for run, home in now.runs if may_read(turn.person, here=turn.thread, home=home, workspace=False)]


def quotes_others(now: ThreadNow, turn: Turn) -> bool:
    """Whether facts quote others: what their runs are for, or a question of their turn.

    The reason of a refusal is a message of who gave it, which `heard` finds in the history.
    """
    asked = [*(run.requester for run in told_runs(now, turn)), *(question.person.key for question in now.questions)]
    return any(key != turn.person.key for key in asked)


def _reads_others(person: Person, talk: Conversation, quotes: Callable[[str], bool]) -> bool:
    """Whether a model reads them: in the thread's facts, a summary, messages, results of tools."""
    if talk.files or talk.told_of_others or talk.compaction.summary:
        return True
    names = {call.id: call.name for said in talk.history for call in said.calls}
    return any(
        _is_of_another(said, person) or said.noticed or bool(said.refused) or quotes(names.get(said.call_id, ""))
        for said in talk.history
    )


def _is_of_another(said: ModelMessage, person: Person) -> bool:
    return _whose(said) not in {"", person.key}


def _whose(said: ModelMessage) -> str:
    return said.steers or said.person
