"""What a model is told of a thread at every step, read at once."""

import json
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from agent import wire
from agent.domain.approvals import ApprovalState
from agent.domain.inbound import Thread
from agent.domain.questions import Question
from agent.storage.approvals import as_approval
from agent.storage.database import Database
from agent.storage.questions import OPEN_IN
from agent.storage.run_rows import as_run
from agent.storage.tables import approval, compaction, message, run, turn
from agent.stores import Refused, ThreadNow, TurnState

# Built once: building a statement costs three times what carrying it out does.
_RUNS = (
    select(run)
    .where(run.c.session_id == bindparam("session"))
    .order_by(run.c.created_at.desc())
    .limit(bindparam("most"))
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
    .join(turn, turn.c.id == message.c.turn_id)
    .where(message.c.session_id == bindparam("session"), message.c.id > func.coalesce(_FRESH_START, 0))
    .where(message.c.text.startswith('{"approval": '), turn.c.state != TurnState.UNDONE)
    .order_by(message.c.id.desc())
    .limit(bindparam("most"))
)


def _as_refused(row: Row[Any]) -> Refused:
    answer = json.loads(row.text)
    return Refused(row.tool, ApprovalState(answer["approval"]), answer.get("by", ""), answer.get("reason", ""))


class SqlThreadFacts:
    """Reads of the tables of runs, approvals and questions."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def now(self, session_id: str, thread: Thread, *, most_runs: int, most_refused: int) -> ThreadNow:
        """The newest runs of a session with the thread of their card, what waits for people, and what they refused."""

        def read(connection: Connection) -> ThreadNow:
            runs = connection.execute(_RUNS, {"session": session_id, "most": most_runs}).all()
            pending = connection.execute(_PENDING, {"session": session_id}).all()
            refused = connection.execute(_REFUSED, {"session": session_id, "most": most_refused}).all()
            asked = connection.execute(OPEN_IN, {"thread": thread.key}).all()
            return ThreadNow(
                runs=tuple((as_run(row), wire.decode(Thread, row.thread)) for row in runs),
                approvals=tuple(as_approval(row) for row in pending),
                questions=tuple(wire.decode(Question, row.asked) for row in asked),
                refused=tuple(_as_refused(row) for row in reversed(refused)),
            )

        return await self._database.read(read)
