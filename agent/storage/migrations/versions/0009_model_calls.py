"""What language models cost, a row a call; the model and the effort that a session's people chose."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Go to this version."""
    op.add_column("session", sa.Column("model", sa.String(length=255), server_default="", nullable=False))
    op.add_column("session", sa.Column("effort", sa.String(length=16), server_default="", nullable=False))
    op.create_table(
        "model_call",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=255), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("tokens_in", sa.Integer(), nullable=False),
        sa.Column("tokens_out", sa.Integer(), nullable=False),
        sa.Column("usd", sa.Float(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_model_call_session_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_model_call_turn_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_call")),
    )
    op.create_index(op.f("ix_model_call_session_id"), "model_call", ["session_id"])
    op.create_index(op.f("ix_model_call_at"), "model_call", ["at"])


def downgrade() -> None:
    """Leave this version."""
    op.drop_table("model_call")
    op.drop_column("session", "effort")
    op.drop_column("session", "model")
