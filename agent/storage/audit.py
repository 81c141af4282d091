"""The audit table; nothing here changes an entry. Those of approvals are written in the transaction they tell of."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from agent.domain.approvals import Approval
from agent.domain.audit import AuditEntry, Verified, sealed, verify
from agent.domain.inbound import Person, Thread
from agent.storage.database import Database
from agent.storage.tables import audit_entry


def record(
    connection: Connection, act: str, about: Approval, thread: Thread, *, at: datetime, who: str = "", name: str = ""
) -> None:
    """Add an entry about an approval."""
    subject, channel = f"{about.id} {about.tool}", thread.channel_key
    _append(connection, at=at, who=who, name=name, act=act, subject=subject, channel=channel, digest=about.digest)


def _append(connection: Connection, **facts: Any) -> None:
    """Add an entry. The database has one writer, so the chain has one end."""
    newest = select(audit_entry.c.number, audit_entry.c.hash).order_by(audit_entry.c.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    entry = AuditEntry(number=row.number + 1 if row else 1, **facts)
    connection.execute(insert(audit_entry).values(sealed(entry, previous=row.hash if row else "").model_dump()))


class SqlAuditLog:
    """What was asked, decided and done."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def did(self, person: Person, thread: Thread, subject: str, *, digest: str, at: datetime) -> None:
        """Add an entry about an act that nobody was asked about."""
        facts = {"act": "did", "subject": subject, "channel": thread.channel_key, "digest": digest}
        await self._database.write(
            lambda connection: _append(connection, at=at, who=person.key, name=person.shown, **facts)
        )

    async def newest(self, channel: str, *, most: int) -> Sequence[AuditEntry]:
        """The newest entries of a channel, the newest first."""
        query = select(audit_entry).where(audit_entry.c.channel == channel)
        query = query.order_by(audit_entry.c.number.desc()).limit(most)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [_as_entry(row) for row in rows]

    async def verified(self) -> Verified:
        """Read the whole chain."""
        query = select(audit_entry).order_by(audit_entry.c.number)
        return await self._database.read(
            lambda connection: verify(_as_entry(row) for row in connection.execute(query).yield_per(1_000))
        )


def _as_entry(row: Row[Any]) -> AuditEntry:
    return AuditEntry.model_validate(row, from_attributes=True)
