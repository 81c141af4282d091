"""A question of the bot's to people that a turn waits for; no approval: an answer executes nothing."""

from datetime import datetime

from agent.domain.inbound import Person, Thread
from agent.domain.value import Value

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
