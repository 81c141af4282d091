"""metric series in columns."""

import sqlalchemy as sa
from alembic import op

from agent import wire
from agent.domain.events import Measured
from agent.storage.series import from_columns

revision = "0002"
down_revision = "0001"
_SLICE = 200  # rows


def upgrade() -> None:
    """Go to this version. Rows of metrics stay as they are until their attempt has new ones."""
    op.create_table(
        "series_block",
        sa.Column("run_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("first_row", sa.BigInteger(), nullable=False),
        sa.Column("last_row", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_series_block_run_id")),
        sa.PrimaryKeyConstraint("run_id", "attempt", "name", "level", "number", name=op.f("pk_series_block")),
    )
    steps = ["run_id", "attempt", "name", "level", "last", "first", "number"]
    op.create_index("ix_series_block_steps", "series_block", steps, unique=False)
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.add_column(sa.Column("rows", sa.BigInteger(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("folded", sa.BigInteger(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("low_step", sa.BigInteger(), nullable=True))
    _count_rows(op.get_bind())


def _count_rows(connection: sa.Connection) -> None:
    """How many rows each attempt has, and their lowest step."""
    chunk = sa.table("metric_chunk", *map(sa.column, ("run_id", "attempt", "rows")))
    attempt = sa.table("attempt", *map(sa.column, ("run_id", "number", "rows", "low_step")))
    keys = connection.execute(sa.select(chunk.c.run_id, chunk.c.attempt).distinct()).all()
    for run_id, number in keys:
        this = (chunk.c.run_id == run_id) & (chunk.c.attempt == number)
        found = connection.execute(sa.select(chunk.c.rows).where(this)).scalars()
        steps = [row.step for text in found for row in wire.decode(Measured, text).rows]
        of = (attempt.c.run_id == run_id) & (attempt.c.number == number)
        values = {"rows": len(steps), "low_step": min(steps, default=None)}
        connection.execute(sa.update(attempt).where(of).values(**values))


def downgrade() -> None:
    """Leave this version: what is in columns becomes rows again, before those that are not yet."""
    connection = op.get_bind()
    block = sa.table("series_block", *map(sa.column, ("run_id", "attempt", "level")))
    chunk = sa.table("metric_chunk", *map(sa.column, ("run_id", "attempt", "seq", "rows")))
    keys = connection.execute(sa.select(block.c.run_id, block.c.attempt).distinct()).all()
    for run_id, number in keys:
        rows = from_columns(connection, run_id, number, 0, 2**62)
        slices = [rows[start : start + _SLICE] for start in range(0, len(rows), _SLICE)]
        for place, part in enumerate(slices):  # a seq below those of any event
            values = {"run_id": run_id, "attempt": number, "seq": place - len(slices)}
            connection.execute(sa.insert(chunk).values(**values, rows=wire.encode(Measured(rows=tuple(part))).decode()))
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        for name in ("rows", "folded", "low_step"):
            batch_op.drop_column(name)
    op.drop_index("ix_series_block_steps", table_name="series_block")
    op.drop_table("series_block")
