"""Every table. Values are stored as `agent.wire` JSON; columns of their own are what queries ask for."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
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
    Column("thread_key", String(255), nullable=False),
    Column("payload", Text, nullable=False),
    Column("state", String(8), nullable=False),  # InboxState
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
    Column("model", String(255), nullable=False, server_default=""),  # that its people chose; empty: the usual one
    Column("effort", String(16), nullable=False, server_default=""),
)

binding = Table(
    "binding",
    metadata,
    Column("thread_key", String(255), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("thread", Text, nullable=False),
    Index(None, "session_id"),
)

turn = Table(
    "turn",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("inbox_id", Integer, ForeignKey("inbox.id"), nullable=False, unique=True),
    Column("thread", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("state", String(8), nullable=False),  # TurnState
    Column("kind", String(16), nullable=False, server_default="asked"),  # TurnKind
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
    Column("facts", Text, nullable=False, server_default=""),  # files, refused, model, offers
    Column("at", Moment),  # None: stored before there were times
    Index(None, "session_id"),
)

whole_text = Table(  # of a tool's result that was cut for the model
    "whole_text",
    metadata,
    Column("message_id", Integer, ForeignKey("message.id"), primary_key=True),
    Column("text", Text, nullable=False),
)

compaction = Table(  # the newest of a session says what models read of it
    "compaction",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("upto", Integer, nullable=False),  # of messages up to this one they read the summary
    Column("cleared", Integer, nullable=False),  # results of tools up to this one are put away
    Column("made_after", Integer, nullable=False),  # the newest message then
    Column("summary", Text, nullable=False),
    Column("at", Moment, nullable=False),
    Index(None, "session_id", "id"),
)

started_call = Table(
    "started_call",
    metadata,
    Column("turn_id", String(32), ForeignKey("turn.id"), primary_key=True),
    Column("call_id", String(255), primary_key=True),
)

model_call = Table(
    "model_call",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("turn_id", String(32), ForeignKey("turn.id")),  # none: a command asked, outside of a thread
    Column("session_id", String(32), ForeignKey("session.id")),
    Column("person", String(255), nullable=False),
    Column("channel", String(255), nullable=False),
    Column("model", String(255), nullable=False),
    Column("tokens_in", Integer, nullable=False),
    Column("tokens_out", Integer, nullable=False),
    Column("usd", Float),  # none: nobody knows the price
    Column("at", Moment, nullable=False),
    Index(None, "session_id"),
    Index(None, "at"),
)

budget = Table(
    "budget",
    metadata,
    Column("scope", String(16), primary_key=True),  # agent.domain.budgets.Scope
    Column("key", String(255), primary_key=True),
    Column("unit", String(16), primary_key=True),  # agent.domain.budgets.Unit
    Column("amount", Float, nullable=False),
    Column("by", String(255), nullable=False),
    Column("at", Moment, nullable=False),
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
    Column("decided_name", String(255), nullable=False, server_default=""),
    Column("decided_at", Moment),
    Column("reason", Text, nullable=False, server_default=""),
    Column("edits", Text, nullable=False, server_default="{}"),
    Column("edited_at", Moment),
    Column("edited_by", Text, nullable=False, server_default="[]"),
    Column("quorum", Integer, nullable=False, server_default="1"),  # how many people have to approve
    Column("allowance", String(32), nullable=False, server_default=""),  # that approved it by itself
    UniqueConstraint("turn_id", "call_id"),
    Index(None, "state"),
)

vote = Table(  # of a question that several people have to approve
    "vote",
    metadata,
    Column("approval_id", String(32), ForeignKey("approval.id"), primary_key=True),
    Column("person", String(255), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("digest", String(64), nullable=False),  # of what the person was shown
    Column("at", Moment, nullable=False),
)

allowance = Table(  # what is approved by itself in a thread
    "allowance",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("thread_key", String(255), nullable=False),
    Column("tool", String(64), nullable=False),  # empty: every one whose price is known, up to the cap
    Column("cap_usd", Float),
    Column("by", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("at", Moment, nullable=False),
    Index(None, "thread_key"),
)

audit_entry = Table(  # a chain of hashes
    "audit_entry",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Column("who", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("act", String(16), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("channel", String(255), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index(None, "channel", "number"),
)

question = Table(  # that a turn waits for
    "question",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("turn_id", String(32), ForeignKey("turn.id"), nullable=False),
    Column("call_id", String(255), nullable=False),
    Column("thread_key", String(255), nullable=False),
    Column("asked", Text, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("expires_at", Moment, nullable=False),
    UniqueConstraint("turn_id", "call_id"),
    Index(None, "thread_key", "open"),
)

run = Table(
    "run",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("session_id", String(32), ForeignKey("session.id"), nullable=False),
    Column("thread", Text, nullable=False),
    Column("requester", String(255), nullable=False),
    Column("client_token", String(255), nullable=False, unique=True),
    Column("state", String(24), nullable=False),
    Column("spec", Text, nullable=False),
    Column("attempt", Integer, nullable=False),  # the newest one's number
    Column("step", BigInteger, nullable=False),
    Column("total_steps", BigInteger),
    Column("outcome", Text),
    Column("priority", Integer, nullable=False),
    Column("not_before", Moment),
    Column("note", Text, nullable=False),
    Column("used_s", Float, nullable=False),  # the sum over its attempts
    Column("usage", Text),
    Column("goes_on", Boolean, nullable=False),  # queued again as soon as it has paused
    Column("script", Integer, nullable=False),  # the version that it runs
    Column("counts_from", Integer, nullable=False),  # failures of attempts up to this one are forgiven
    Column("card_view", Text, nullable=False, server_default=""),  # see agent.runs.cards.card_view
    Column("created_at", Moment, nullable=False),
    Column("queued_at", Moment, nullable=False),
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
    Column("gpus", Text, nullable=False),  # JSON list of uuids
    Column("sent", Integer, nullable=False),  # how often its launch was sent
    Column("sent_at", Moment, nullable=False),
    Column("dispatched_at", Moment, nullable=False),
    Column("heard_at", Moment),  # last event from its supervisor
    Column("accepted_at", Moment),  # the host's clock
    Column("boot_id", String(64), nullable=False),
    Column("training", Boolean, nullable=False),  # its script has begun
    Column("first_step", BigInteger, nullable=False),
    Column("stop", String(8), nullable=False),  # "" | stop | pause | kill: what people want of it
    Column("stops", Integer, nullable=False),  # how often that was sent
    Column("stop_sent_at", Moment),
    Column("seen_to", Integer, nullable=False),  # every event up to this seq was stored
    Column("rows", BigInteger, nullable=False),  # of metrics; the first `folded` of them are in columns
    Column("folded", BigInteger, nullable=False),
    Column("low_step", BigInteger),  # the lowest step of them
    Column("beats", BigInteger, nullable=False, server_default="0"),  # that said what it used; see agent.storage.usage
    Column("beats_folded", BigInteger, nullable=False, server_default="0"),
    Column("ended_seq", Integer),  # of its own word that it is over; none: ours, or it is not over
    Column("outcome", Text),  # it is over
    Column("used_s", Float, nullable=False),
    Column("ended_at", Moment),
    Index(None, "ended_at"),
)

seen_event = Table(  # events behind a gap; where nothing is missing, attempt.seen_to says it all
    "seen_event",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
)

gpu_lease = Table(
    "gpu_lease",
    metadata,
    Column("host", String(128), primary_key=True),
    Column("uuid", String(128), primary_key=True),
    Column("run_id", String(16), ForeignKey("run.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Index(None, "run_id"),
)

gpu = Table(  # GPUs that get no runs
    "gpu",
    metadata,
    Column("host", String(128), primary_key=True),
    Column("uuid", String(128), primary_key=True),
    Column("reason", Text, nullable=False),
    Column("since", Moment, nullable=False),
    Column("sticky", Boolean, nullable=False),
)

script = Table(
    "script",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("bundle_sha256", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)


def _chunk(name: str) -> Table:
    """Rows as they came, one entry an event."""
    return Table(
        name,
        metadata,
        Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
        Column("attempt", Integer, primary_key=True),
        Column("seq", Integer, primary_key=True),
        Column("rows", Text, nullable=False),
    )


def _block(name: str) -> Table:
    """Columns of series, see agent.series: level 0 are points, above are spans of them."""
    return Table(
        name,
        metadata,
        Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
        Column("attempt", Integer, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("level", Integer, primary_key=True),
        Column("number", BigInteger, primary_key=True),
        Column("count", Integer, nullable=False),
        Column("first", BigInteger, nullable=False),  # the lowest and the highest step
        Column("last", BigInteger, nullable=False),
        Column("first_row", BigInteger, nullable=False),  # of level 0
        Column("last_row", BigInteger, nullable=False),
        Column("data", LargeBinary, nullable=False),
        # Read instead of the data.
        Index(f"ix_{name}_steps", "run_id", "attempt", "name", "level", "last", "first", "number"),
    )


metric_chunk, series_block = _chunk("metric_chunk"), _block("series_block")
usage_chunk, usage_block = _chunk("usage_chunk"), _block("usage_block")  # by moment, see agent.storage.usage

log_line = Table(
    "log_line",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("run_id", String(16), ForeignKey("run.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("level", String(8), nullable=False),  # error | warning | info
    Column("text", Text, nullable=False),
    Index(None, "run_id", "id"),
)

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("step", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("at", Moment, nullable=False),
)

run_picture = Table(  # of each name the newest that its training logged; what it shows lies in the store of files
    "run_picture",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("name", String(32), primary_key=True),
    Column("form", String(16), nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("at", Moment, nullable=False),
)

note = Table(
    "note",
    metadata,
    Column("run_id", String(16), ForeignKey("run.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("at", Moment, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(255), nullable=False, unique=True),
    Column("thread_key", String(255), nullable=False),
    Column("thread", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("version", Integer, nullable=False),  # of what should be shown
    Column("shown", Integer, nullable=False),  # of what is shown
    Column("state", String(8), nullable=False),  # new | begun | sending | sent | dead
    Column("ref", Text),
    Column("whisper", Text),
    Column("urgent", Integer, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Index(None, "thread_key", "state"),
)
