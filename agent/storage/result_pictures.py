"""Pictures that trainings log, in SQL: of each name of a run the newest.

Written in the transaction that applies events, so that a picture that is sent again changes nothing; an attempt that
goes on keeps those of earlier ones. A base of `agent.storage.runs.SqlRuns`.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, delete, insert, or_, select

from agent.domain.events import Pictured, WorkerEvent
from agent.domain.runs import RunPicture
from agent.storage.database import Database
from agent.storage.tables import run_picture

_MOST = 60  # of a run that are read; a host tells 20


def row_of(event: WorkerEvent, picture: Pictured) -> dict[str, object]:
    """A row from an event."""
    return {
        "run_id": event.run,
        "name": picture.name,
        "form": picture.form,
        "step": picture.step,
        "sha256": picture.sha256,
        "attempt": event.attempt,
        "seq": event.seq,
        "at": event.at,
    }


def store(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Put each in the place of an earlier one of its name; one that came late stays out."""
    newest: dict[tuple[object, object], dict[str, object]] = {}
    for row in rows:
        known = newest.get((row["run_id"], row["name"]))
        if known is None or _place(row) > _place(known):
            newest[row["run_id"], row["name"]] = row
    for row in newest.values():
        this = and_(run_picture.c.run_id == row["run_id"], run_picture.c.name == row["name"])
        later = or_(
            run_picture.c.attempt > row["attempt"],
            and_(run_picture.c.attempt == row["attempt"], run_picture.c.seq > row["seq"]),
        )
        if connection.execute(select(run_picture.c.seq).where(this, later)).first() is None:
            connection.execute(delete(run_picture).where(this))
            connection.execute(insert(run_picture), row)


def _place(row: dict[str, object]) -> tuple[object, object]:
    return row["attempt"], row["seq"]


class PictureReads:
    """Reads of the pictures."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def pictures(self, run_id: str) -> Sequence[RunPicture]:
        """The newest of each name that its training logged, by name."""
        query = select(run_picture).where(run_picture.c.run_id == run_id).order_by(run_picture.c.name).limit(_MOST)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [
            RunPicture(name=row.name, form=row.form, step=row.step, sha256=row.sha256, attempt=row.attempt, at=row.at)
            for row in found
        ]
