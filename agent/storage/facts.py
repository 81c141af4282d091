"""What a model is told of a thread at every step, read at once."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, exists, func, select

from agent import wire
from agent.domain.approvals import ApprovalState
from agent.domain.inbound import Thread
from agent.domain.questions import Question
from agent.domain.runs import ENDED
from agent.ports import ModelMessage
from agent.storage.approvals import as_approval
from agent.storage.conversations import add_message
from agent.storage.database import Database
from agent.storage.questions import OPEN_IN
from agent.storage.run_rows import as_run
from agent.storage.tables import approval, compaction, message, run
from agent.storage.tables import turn as turns
from agent.stores import Refused, ThreadNow, Turn, TurnState

NEWEST_RUNS = 8
# Built once: building a statement costs three times what carrying it out does.
_OF_SESSION = select(run.c.id).where(run.c.session_id == bindparam("session"))
_RUNS = (  # the newest, and those that are not over
    select(run)
    .where(
        run.c.session_id == bindparam("session"),
        and_(*(run.c.state != state for state in sorted(ENDED)))  # a list would be written out each time
        | run.c.id.in_(_OF_SESSION.order_by(run.c.created_at.desc()).limit(NEWEST_RUNS)),
    )
    .order_by(run.c.created_at.desc())
    .limit(NEWEST_RUNS + 12)
)
_PENDING = (
    select(approval)
    .where(approval.c.session_id == bindparam("session"), approval.c.state == ApprovalState.PENDING.value)
    .order_by(approval.c.created_at)
)
_FRESH_START = (  # `new` stores no summary, and `resume` none either from the beginning
    select(compaction.c.upto)
    .where(compaction.c.session_id == bindparam("session"), compaction.c.summary == "")
    .where(compaction.c.cleared == compaction.c.upto)
    .order_by(compaction.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_REFUSED = (  # by the answers of the calls: an approval that was settled does not say any more what was decided
    select(approval.c.tool, message.c.text)
    .select_from(message)
    .join(approval, (approval.c.turn_id == message.c.turn_id) & (approval.c.call_id == message.c.call_id))
    .join(turns, turns.c.id == message.c.turn_id)
    .where(message.c.session_id == bindparam("session"), message.c.id > func.coalesce(_FRESH_START, 0))
    .where(message.c.text.startswith('{"approval": '), turns.c.state != TurnState.UNDONE)
    .order_by(message.c.id.desc())
    .limit(3)
)
_IS_THERE = select(
    exists(_OF_SESSION).label("runs"),
    exists(_PENDING).label("approvals"),
    exists(OPEN_IN).label("questions"),
    exists(_REFUSED).label("refused"),
)


def _as_refused(row: Row[Any]) -> Refused:
    answer = json.loads(row.text)
    return Refused(row.tool, ApprovalState(answer["approval"]), answer.get("by", ""), answer.get("reason", ""))


def _now(connection: Connection, session_id: str, thread: Thread) -> ThreadNow:
    """Mostly little is there, and to look for all costs one read."""
    values = {"session": session_id, "thread": thread.key}
    there = connection.execute(_IS_THERE, values).one()

    def rows(query: Select[Any], *, where: bool) -> Sequence[Row[Any]]:
        return connection.execute(query, values).all() if where else ()

    return ThreadNow(
        runs=tuple((as_run(row), wire.decode(Thread, row.thread)) for row in rows(_RUNS, where=there.runs)),
        approvals=tuple(as_approval(row) for row in rows(_PENDING, where=there.approvals)),
        questions=tuple(wire.decode(Question, row.asked) for row in rows(OPEN_IN, where=there.questions)),
        refused=tuple(_as_refused(row) for row in reversed(rows(_REFUSED, where=there.refused))),
    )


class SqlThreadFacts:
    """Reads of the tables of runs, approvals and questions."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def now(self, session_id: str, thread: Thread) -> ThreadNow:
        """What runs, is new, waits for people and was refused by them."""
        return await self._database.read(lambda connection: _now(connection, session_id, thread))

    async def answered(self, turn: Turn, said: ModelMessage, *, read_only: bool) -> tuple[ModelMessage, ThreadNow]:
        """Add a tool's result to a running turn; the same with its id, and what is so then, in one transaction.

        One that is `read_only` need not outlive a loss of power: its call is made anew.
        """

        def store(connection: Connection) -> tuple[ModelMessage, ThreadNow]:
            stored = add_message(connection, turn, said)
            return stored, _now(connection, turn.session_id, turn.thread)

        return await self._database.write(store, flushed=not read_only)
