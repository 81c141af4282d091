"""What models read instead of the beginning of a conversation; whole results of tools that were cut."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Go to this version."""
    op.create_table(
        "compaction",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("upto", sa.Integer(), nullable=False),
        sa.Column("cleared", sa.Integer(), nullable=False),
        sa.Column("made_after", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_compaction_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_compaction")),
    )
    op.create_index(op.f("ix_compaction_session_id_id"), "compaction", ["session_id", "id"])
    op.create_table(
        "whole_text",
        sa.Column("message_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["message_id"], ["message.id"], name=op.f("fk_whole_text_message_id")),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_whole_text")),
    )


def downgrade() -> None:
    """Leave this version."""
    op.drop_table("whole_text")
    op.drop_table("compaction")
