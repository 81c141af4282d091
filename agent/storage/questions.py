"""The question table: answered by compare-and-set, in one transaction with the turn that goes on."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from agent import wire
from agent.domain.content import Content
from agent.domain.errors import NotFound
from agent.domain.inbound import Thread
from agent.domain.questions import QUESTION_KEY, Question
from agent.ports import ModelMessage
from agent.storage.conversations import add_message, as_turn
from agent.storage.database import Database
from agent.storage.outbox import put_post
from agent.storage.tables import inbox, question, turn
from agent.stores import InboxState, TurnState

# Built once: building a statement costs three times what carrying it out does.
OPEN_IN = (
    select(question.c.asked)
    .where(question.c.thread_key == bindparam("thread"), question.c.open)
    .order_by(question.c.id)
)


class SqlQuestions:
    """Questions that a turn waits for."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def ask(self, asked: Question, card: Content) -> bool:
        """Store a question, pause its turn and show its card; False when this call was asked about before."""
        values = {
            "id": asked.id,
            "session_id": asked.session_id,
            "turn_id": asked.turn_id,
            "call_id": asked.call_id,
            "thread_key": asked.thread.key,
            "asked": wire.encode(asked).decode(),
            "open": True,
            "expires_at": asked.expires_at,
        }

        def store(connection: Connection) -> None:
            owner = as_turn(connection.execute(select(turn).where(turn.c.id == asked.turn_id)).one())
            connection.execute(insert(question).values(values))
            connection.execute(update(turn).where(turn.c.id == asked.turn_id).values(state=TurnState.PAUSED))
            connection.execute(update(inbox).where(inbox.c.id == owner.inbox_id).values(state=InboxState.DONE))
            put_post(connection, QUESTION_KEY.format(asked.id), asked.thread, card, whisper=None, urgent=True)

        try:
            await self._database.write(store)
        except IntegrityError:
            return False
        return True

    async def get(self, question_id: str) -> Question:
        """One question. Raises `NotFound`."""
        found = await self._where(question.c.id == question_id)
        if not found:
            raise NotFound("I do not know this question any more.")
        return found[0]

    async def open_in(self, thread: Thread) -> Sequence[Question]:
        """The open questions of a thread, the oldest first."""
        rows = await self._database.read(lambda connection: connection.execute(OPEN_IN, {"thread": thread.key}).all())
        return [wire.decode(Question, row.asked) for row in rows]

    async def threads(self) -> Sequence[str]:
        """The keys of the threads with an open question."""
        query = select(question.c.thread_key).where(question.c.open).distinct()
        return await self._database.read(lambda connection: connection.execute(query).scalars().all())

    async def expired(self, now: datetime) -> Sequence[Question]:
        """Open questions that nobody answered in time."""
        return await self._where(question.c.open & (question.c.expires_at <= now))

    async def close(self, asked: Question, said: ModelMessage, card: Content, *, item_id: int | None) -> bool:
        """Answer the question's call, let its turn go on, end the inbox item that answered; False when it is closed."""
        change = update(question).where(question.c.id == asked.id, question.c.open).values(open=False)

        def store(connection: Connection) -> bool:
            if connection.execute(change).rowcount != 1:
                return False
            owner = as_turn(connection.execute(select(turn).where(turn.c.id == asked.turn_id)).one())
            add_message(connection, owner, said)
            connection.execute(update(turn).where(turn.c.id == asked.turn_id).values(state=TurnState.RUNNING))
            if item_id is not None:
                connection.execute(update(inbox).where(inbox.c.id == item_id).values(state=InboxState.DONE))
            put_post(connection, QUESTION_KEY.format(asked.id), asked.thread, card, whisper=None, urgent=True)
            return True

        return await self._database.write(store)

    async def _where(self, chosen: ColumnElement[bool]) -> list[Question]:
        query = select(question.c.asked).where(chosen).order_by(question.c.id)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [wire.decode(Question, row.asked) for row in rows]
