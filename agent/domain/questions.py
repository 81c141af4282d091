"""A question of the bot's to people that a turn waits for; no approval: an answer executes nothing."""

from collections.abc import Sequence
from datetime import datetime

from agent.domain.inbound import Person, Thread
from agent.domain.value import Value

ANSWER = "answer"  # the action of its buttons
QUESTION_KEY = "question:{}"  # of the card of a question, by its id
MOST_CHARS = 75  # of a choice, as buttons show it on every platform


class Question(Value):
    """`person` is whose turn it is. People may answer with one of `choices`, and that person in words of their own."""

    id: str
    session_id: str
    turn_id: str
    call_id: str
    thread: Thread
    person: Person
    text: str
    choices: tuple[str, ...]
    expires_at: datetime


def typed(choices: Sequence[str]) -> tuple[str, ...]:
    """What people may type for each choice: its number, from 1 on. Where choices are numbers, only themselves."""
    if any(choice.strip()[:1].isdecimal() for choice in choices):
        return tuple(choice.strip() for choice in choices)
    return tuple(str(number) for number in range(1, len(choices) + 1))
