"""The inbox table."""

import logging
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, exists, func, insert, select, update

from agent import wire
from agent.domain.inbound import Inbound
from agent.storage.database import Database
from agent.storage.tables import inbox
from agent.stores import InboxItem, InboxState

log = logging.getLogger(__name__)
# Built once: building a statement costs three times what carrying it out does.
_SAME = (inbox.c.platform == bindparam("platform")) & (
    (inbox.c.event_id == bindparam("event_id")) | (inbox.c.twin == bindparam("twin"))
)
_KNOWN = select(inbox.c.event_id, inbox.c.id, inbox.c.state).where(_SAME)
_VALUES = [column for column in inbox.c if column is not inbox.c.id]
_ADD = (
    insert(inbox)
    .from_select(
        _VALUES, select(*(bindparam(each.name, type_=each.type) for each in _VALUES)).where(~exists().where(_SAME))
    )
    .returning(inbox.c.id)
)
_ITEM = update(inbox).where(inbox.c.id == bindparam("item")).values(state=InboxState.DONE)
_DONE = _ITEM.where(inbox.c.state != InboxState.DONE)  # else it would be a commit of its own

_FORGET = _ITEM.values(payload="")


class SqlInbox:
    """Acts of people; (platform, event id) and (platform, twin) are unique."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def add(self, inbound: Inbound) -> InboxItem | None:
        """Store it; None when it or its twin is there already, unless this very event was stored and not handled."""
        values = {
            "platform": inbound.thread.platform,
            "event_id": inbound.event_id,
            "twin": inbound.twin or None,
            "thread_key": inbound.thread.key,
            "payload": wire.encode(inbound).decode(),
            "state": InboxState.NEW,
            "received_at": inbound.at,
        }

        def store(connection: Connection) -> int | None:
            added = connection.execute(_ADD, values).scalar_one_or_none()
            if added is not None:
                return int(added)
            known = connection.execute(_KNOWN, values).all()
            left = (row.id for row in known if row.event_id == inbound.event_id and row.state == InboxState.NEW)
            return next(left, None)

        item_id = await self._database.write(store)
        return None if item_id is None else InboxItem(item_id, inbound)

    async def get(self, item_id: int) -> Inbound | None:
        """What was stored, unless it was forgotten or this bot cannot read it."""
        query = select(inbox.c.payload).where(inbox.c.id == item_id)
        payload = await self._database.read(lambda connection: connection.execute(query).scalar_one_or_none())
        return _read(item_id, payload) if payload else None

    async def done(self, item_id: int) -> None:
        """It was handled."""
        await self._database.write(lambda connection: connection.execute(_DONE, {"item": item_id}))

    async def forget(self, item_id: int) -> None:
        """It was none of the bot's: only that it came is remembered, not what it said."""
        await self._database.write(lambda connection: connection.execute(_FORGET, {"item": item_id}))

    async def last(self, platform: str) -> datetime | None:
        """When people last did something there, as far as it reached the bot."""
        query = select(func.max(inbox.c.received_at)).where(inbox.c.platform == platform)
        return await self._database.read(lambda connection: connection.execute(query).scalar_one_or_none())

    async def waiting(self) -> Sequence[InboxItem]:
        """What was stored and not handled, oldest first; not what this bot cannot read."""
        query = select(inbox.c.id, inbox.c.payload).where(inbox.c.state == InboxState.NEW).order_by(inbox.c.id)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        read = ((row.id, _read(row.id, row.payload)) for row in rows)
        return [InboxItem(item_id, inbound) for item_id, inbound in read if inbound is not None]


def _read(item_id: int, payload: str) -> Inbound | None:
    """What was stored; None where a newer bot stored it, for which it is left."""
    try:
        return wire.decode(Inbound, payload)
    except wire.Malformed as error:
        log.warning("inbox item left aside", extra={"item": item_id, "cause": str(error)})
        return None
