"""The outbox table: what should be shown, and what is."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from agent import wire
from agent.domain.content import Content
from agent.domain.inbound import Thread
from agent.ports import MessageRef, Whisper
from agent.storage.database import Database
from agent.storage.tables import outbox
from agent.stores import Post, PostState

# Built once: building a statement costs three times what carrying it out does. An update sets what it is given.
_STORED = select(outbox.c.content, outbox.c.version, outbox.c.state, outbox.c.ref).where(
    outbox.c.key == bindparam("of")
)
_ADD = insert(outbox)
_UPDATE = update(outbox).where(outbox.c.key == bindparam("of"))
_DUE = (outbox.c.version > outbox.c.shown) & (outbox.c.state != PostState.DEAD)
_DUE_IN = select(outbox).where(_DUE, outbox.c.thread_key == bindparam("thread")).order_by(outbox.c.id)
_NOTHING = wire.encode(Content()).decode()


def put_post(
    connection: Connection, key: str, thread: Thread, content: Content, *, whisper: Whisper | None, urgent: bool
) -> int:
    """Make `content` what should be shown under `key`, inside the caller's transaction; its version.

    That is 1 where the key is new; an answer that was begun is known.
    """
    text = wire.encode(content).decode()
    row = connection.execute(_STORED, {"of": key}).one_or_none()
    now = datetime.now(UTC)
    if row is None:
        connection.execute(
            _ADD,
            {
                "key": key,
                "thread_key": thread.key,
                "thread": wire.encode(thread).decode(),
                "content": text,
                "version": 1,
                "shown": 0,
                "state": PostState.NEW,
                "whisper": json.dumps(asdict(whisper)) if whisper else None,
                "urgent": int(urgent),
                "updated_at": now,
            },
        )
        return 1
    if row.content == text:
        return int(row.version)
    version = max(1, int(row.version)) + 1
    values = {"content": text, "version": version, "urgent": int(urgent), "updated_at": now}
    if row.state == PostState.DEAD:  # what could not be shown was the old content
        values["state"] = PostState.SENT if row.ref else PostState.NEW
    connection.execute(_UPDATE, {"of": key, **values})
    return version


def _as_post(row: Row[Any]) -> Post:
    return Post(
        id=row.id,
        key=row.key,
        thread=wire.decode(Thread, row.thread),
        content=wire.decode(Content, row.content),
        version=row.version,
        shown=row.shown,
        state=PostState(row.state),
        ref=MessageRef(**json.loads(row.ref)) if row.ref else None,
        whisper=Whisper(**json.loads(row.whisper)) if row.whisper else None,
        urgent=bool(row.urgent),
    )


class SqlOutbox:
    """Posts by key."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def put(self, key: str, thread: Thread, content: Content, *, whisper: Whisper | None, urgent: bool) -> int:
        """Make `content` what should be shown under `key`; its version. Equal content changes nothing."""
        return await self._database.write(
            lambda connection: put_post(connection, key, thread, content, whisper=whisper, urgent=urgent)
        )

    async def due(self, thread_key: str) -> Sequence[Post]:
        """Posts of a thread whose shown version is old, oldest post first."""
        # In the writer's connection, which is open and behind the commit that this look follows: half of a read's cost.
        rows = await self._database.write(
            lambda connection: connection.execute(_DUE_IN, {"thread": thread_key}).all(), flushed=False
        )
        return [_as_post(row) for row in rows]

    async def left(self, cut_off: Content) -> Sequence[str]:
        """Threads with posts that a stopped bot left; what was never shown may have been sent by it."""
        begun = update(outbox).where(outbox.c.version == 0).values(content=wire.encode(cut_off).decode(), version=1)
        threads = select(outbox.c.thread_key).where(_DUE).distinct()
        doubted = update(outbox).where(_DUE, outbox.c.state == PostState.NEW).values(state=PostState.SENDING)

        def doubt(connection: Connection) -> Sequence[str]:
            connection.execute(begun)
            connection.execute(doubted)
            return connection.execute(threads).scalars().all()

        return await self._database.write(doubt)

    async def begin(self, key: str, thread: Thread) -> bool:
        """An answer that is not stored yet is about to grow; False when its key is known."""
        values = {
            "key": key,
            "thread_key": thread.key,
            "thread": wire.encode(thread).decode(),
            "content": _NOTHING,
            "version": 0,
            "shown": 0,
            "state": PostState.BEGUN,
            "urgent": 1,
            "updated_at": datetime.now(UTC),
        }
        try:
            await self._database.write(lambda connection: connection.execute(_ADD, values))
        except IntegrityError:
            return False
        return True

    async def sending(self, key: str) -> None:
        """Sending a stored message failed, and it may have been posted."""
        await self._database.write(
            lambda connection: connection.execute(_UPDATE, {"of": key, "state": PostState.SENDING})
        )

    async def sent(self, key: str, ref: MessageRef, *, shown: int | None) -> None:
        """It stands at `ref`, showing `shown` (None: not a stored version yet)."""
        values: dict[str, object] = {"of": key, "state": PostState.SENT, "ref": json.dumps(asdict(ref))}
        if shown is not None:
            values["shown"] = shown
        await self._database.write(lambda connection: connection.execute(_UPDATE, values))

    async def dead(self, key: str, *, version: int) -> None:
        """This version can never be shown; a newer one is not meant."""
        query = _UPDATE.where(outbox.c.version == bindparam("now"))
        values = {"of": key, "now": version, "state": PostState.DEAD}
        await self._database.write(lambda connection: connection.execute(query, values))

    async def get(self, key: str) -> Post | None:
        """The post of a key."""
        query = select(outbox).where(outbox.c.key == key)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _as_post(row)
