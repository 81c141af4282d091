"""Every table. Values are stored as `agent.wire` JSON; columns of their own are what queries ask for."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class Moment(TypeDecorator[datetime]):
    """An aware UTC time; SQLite keeps no zone, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - their signature
        """Attach UTC where the database dropped it."""
        if value is None or not isinstance(value, datetime):
            return None
        return value if value.tzinfo else value.replace(tzinfo=UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

inbox = Table(
    "inbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("platform", String(16), nullable=False),
    Column("event_id", String(255), nullable=False),
    Column("twin", String(255)),
    Column("room_key", String(255), nullable=False),
    Column("payload", Text, nullable=False),
    Column("state", String(8), nullable=False),  # new | done
    Column("received_at", Moment, nullable=False),
    UniqueConstraint("platform", "event_id"),
    UniqueConstraint("platform", "twin"),
    Index(None, "state"),
)

session = Table(
    "session",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("created_at", Moment, nullable=False),
)

binding = Table(
    "binding",
    metadata,
    Column("room_key", String(255), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("room", Text, nullable=False),
    Index(None, "session_id"),
)

turn = Table(
    "turn",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("inbox_id", Integer, ForeignKey("inbox.id"), nullable=False, unique=True),
    Column("room", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("state", String(8), nullable=False),  # running | paused | done
    Column("created_at", Moment, nullable=False),
    Index(None, "state"),
)

message = Table(
    "message",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("turn_id", String(32), ForeignKey("turn.id"), nullable=False),
    Column("role", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("calls", Text, nullable=False),
    Column("call_id", String(255), nullable=False),
    Index(None, "session_id"),
)

started_call = Table(
    "started_call",
    metadata,
    Column("turn_id", String(32), ForeignKey("turn.id"), primary_key=True),
    Column("call_id", String(255), primary_key=True),
)

file = Table(
    "file",
    metadata,
    Column("session_id", String(32), ForeignKey("session.id"), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("added_at", Moment, nullable=False),
)

approval = Table(
    "approval",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("turn_id", String(32), ForeignKey("turn.id"), nullable=False),
    Column("call_id", String(255), nullable=False),
    Column("tool", String(64), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("requester", String(255), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("card", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("decided_by", String(255)),
    Column("decided_at", Moment),
    UniqueConstraint("turn_id", "call_id"),
    Index(None, "state"),
)

run = Table(
    "run",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("room", Text, nullable=False),
    Column("requester", String(255), nullable=False),
    Column("client_token", String(255), nullable=False, unique=True),
    Column("state", String(24), nullable=False),
    Column("spec", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("total_steps", BigInteger),
    Column("outcome", Text),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Index(None, "session_id"),
    Index(None, "state"),
)

attempt = Table(
    "attempt",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("host", String(128), nullable=False),
    Column("sent", Integer, nullable=False),  # how often its launch was sent
    Column("sent_at", Moment, nullable=False),
    Column("heard_at", Moment),  # last event from its supervisor
)

seen_event = Table(
    "seen_event",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
)

metric_chunk = Table(
    "metric_chunk",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("rows", Text, nullable=False),
)

log_chunk = Table(
    "log_chunk",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("lines", Text, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(255), nullable=False, unique=True),
    Column("room_key", String(255), nullable=False),
    Column("room", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("version", Integer, nullable=False),  # of what should be shown
    Column("shown", Integer, nullable=False),  # of what is shown
    Column("state", String(8), nullable=False),  # new | sending | sent | dead
    Column("ref", Text),
    Column("whisper", Text),
    Column("urgent", Integer, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Index(None, "room_key", "state"),
)
