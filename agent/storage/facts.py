"""What a model is told of a thread at every step, read at once."""

from sqlalchemy import Connection, bindparam, select

from agent import wire
from agent.domain.approvals import ApprovalState
from agent.domain.inbound import Thread
from agent.domain.questions import Question
from agent.storage.approvals import as_approval
from agent.storage.database import Database
from agent.storage.questions import OPEN_IN
from agent.storage.run_rows import as_run
from agent.storage.tables import approval, run
from agent.stores import ThreadNow

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


class SqlThreadFacts:
    """Reads of the tables of runs, approvals and questions."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def now(self, session_id: str, thread: Thread, *, most_runs: int) -> ThreadNow:
        """The newest runs of a session with the thread of their card, and what waits for people."""

        def read(connection: Connection) -> ThreadNow:
            runs = connection.execute(_RUNS, {"session": session_id, "most": most_runs}).all()
            pending = connection.execute(_PENDING, {"session": session_id}).all()
            asked = connection.execute(OPEN_IN, {"thread": thread.key}).all()
            return ThreadNow(
                runs=tuple((as_run(row), wire.decode(Thread, row.thread)) for row in runs),
                approvals=tuple(as_approval(row) for row in pending),
                questions=tuple(wire.decode(Question, row.asked) for row in asked),
            )

        return await self._database.read(read)
