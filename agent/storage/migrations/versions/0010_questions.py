"""Questions to people that a turn waits for."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Go to this version."""
    op.create_table(
        "question",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("turn_id", sa.String(length=32), nullable=False),
        sa.Column("call_id", sa.String(length=255), nullable=False),
        sa.Column("thread_key", sa.String(length=255), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_question_session_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_question_turn_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_question")),
        sa.UniqueConstraint("turn_id", "call_id", name=op.f("uq_question_turn_id_call_id")),
    )
    op.create_index(op.f("ix_question_thread_key_open"), "question", ["thread_key", "open"])


def downgrade() -> None:
    """Leave this version."""
    op.drop_table("question")
