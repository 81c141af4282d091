"""What language models cost, in SQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, select

from agent.storage.database import Database
from agent.storage.tables import model_call
from agent.stores import ModelCall, Spent

_ADD = insert(model_call)
_SUMS = (
    func.count().label("calls"),
    func.coalesce(func.sum(model_call.c.tokens_in), 0).label("tokens_in"),
    func.coalesce(func.sum(model_call.c.tokens_out), 0).label("tokens_out"),
    func.coalesce(func.sum(model_call.c.usd), 0.0).label("usd"),
    (func.count() - func.count(model_call.c.usd)).label("unpriced"),
)


class SqlModelUsage:
    """One row a call."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def add(self, call: ModelCall) -> None:
        """Store it; its session, person and channel are those of its turn."""
        values = {
            "turn_id": call.turn.id or None,
            "session_id": call.turn.session_id or None,
            "person": call.turn.person.key,
            "channel": call.turn.thread.channel_key,
            "model": call.model,
            "tokens_in": call.tokens_in,
            "tokens_out": call.tokens_out,
            "usd": call.usd,
            "at": call.at,
        }
        await self._database.write(lambda connection: connection.execute(_ADD, values))

    async def spent(
        self, *, session_id: str = "", person: str = "", channel: str = "", since: datetime | None = None
    ) -> Spent:
        """The sum. `person` is a `Person.key`, `channel` a `Thread.channel_key`."""
        query = select(*_SUMS).where(*_filters(session_id, person, channel, since))
        return _spent(await self._database.read(lambda connection: connection.execute(query).one()))

    async def by_model(
        self, *, session_id: str = "", person: str = "", channel: str = "", since: datetime | None = None
    ) -> Mapping[str, Spent]:
        """The same by the model's name, the one with most tokens first."""
        tokens = func.sum(model_call.c.tokens_in + model_call.c.tokens_out)
        chosen = select(model_call.c.model, *_SUMS).where(*_filters(session_id, person, channel, since))
        query = chosen.group_by(model_call.c.model).order_by(tokens.desc(), model_call.c.model)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return {row.model: _spent(row) for row in rows}


def _filters(session_id: str, person: str, channel: str, since: datetime | None) -> Sequence[ColumnElement[bool]]:
    pairs = ((model_call.c.session_id, session_id), (model_call.c.person, person), (model_call.c.channel, channel))
    chosen = [column == value for column, value in pairs if value]
    return chosen if since is None else [*chosen, model_call.c.at >= since]


def _spent(row: Row[Any]) -> Spent:
    return Spent(row.calls, row.tokens_in, row.tokens_out, row.usd, row.unpriced)
