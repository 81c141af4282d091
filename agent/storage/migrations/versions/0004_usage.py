"""what runs use, as series."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Go to this version. Heartbeats of before left nothing but the newest, so series begin with the next."""
    op.create_table(
        "usage_chunk",
        sa.Column("run_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_usage_chunk_run_id")),
        sa.PrimaryKeyConstraint("run_id", "attempt", "seq", name=op.f("pk_usage_chunk")),
    )
    op.create_table(
        "usage_block",
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
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_usage_block_run_id")),
        sa.PrimaryKeyConstraint("run_id", "attempt", "name", "level", "number", name=op.f("pk_usage_block")),
    )
    steps = ["run_id", "attempt", "name", "level", "last", "first", "number"]
    op.create_index("ix_usage_block_steps", "usage_block", steps, unique=False)
    for name in ("beats", "beats_folded"):  # not in a batch, which would make the table anew under its foreign keys
        op.add_column("attempt", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Leave this version: the newest of each live run is all that is kept of what it used."""
    for name in ("beats", "beats_folded"):
        op.drop_column("attempt", name)
    op.drop_index("ix_usage_block_steps", table_name="usage_block")
    op.drop_table("usage_block")
    op.drop_table("usage_chunk")
