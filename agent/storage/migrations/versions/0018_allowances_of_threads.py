"""What is approved by itself is so in a thread, whatever conversation that goes on with."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Go to this version: of a session with several threads nobody knows which one was meant, so people are asked."""
    op.add_column("allowance", sa.Column("thread_key", sa.String(255)))
    op.execute(
        "UPDATE allowance SET thread_key = (SELECT CASE WHEN count(*) = 1 THEN min(binding.thread_key) END "
        "FROM binding WHERE binding.session_id = allowance.session_id)"
    )
    op.execute("DELETE FROM allowance WHERE thread_key IS NULL")
    op.drop_index("ix_allowance_session_id", "allowance")
    with op.batch_alter_table("allowance") as batch:
        batch.alter_column("thread_key", existing_type=sa.String(255), nullable=False)
        batch.drop_constraint("fk_allowance_session_id", type_="foreignkey")
        batch.drop_column("session_id")
    op.create_index("ix_allowance_thread_key", "allowance", ["thread_key"])


def downgrade() -> None:
    """Leave this version: it goes with the thread's present session again."""
    op.add_column("allowance", sa.Column("session_id", sa.String(32)))
    op.execute(
        "UPDATE allowance SET session_id = (SELECT binding.session_id FROM binding "
        "WHERE binding.thread_key = allowance.thread_key)"
    )
    op.execute("DELETE FROM allowance WHERE session_id IS NULL")
    op.drop_index("ix_allowance_thread_key", "allowance")
    with op.batch_alter_table("allowance") as batch:
        batch.alter_column("session_id", existing_type=sa.String(32), nullable=False)
        batch.create_foreign_key("fk_allowance_session_id", "session", ["session_id"], ["id"])
        batch.drop_column("thread_key")
    op.create_index("ix_allowance_session_id", "allowance", ["session_id"])
